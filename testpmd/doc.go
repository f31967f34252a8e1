// Package testpmd is a console with the command language of DPDK's testpmd.
// It drives ports through package port alone and forwards packets between
// them with the modes of package engine.
//
// Commands are entries of a table (table.go); each family has a file of its own.
// People at a terminal type them into an editor (editor.go), programs and files
// through a pipe (lines.go). A Console is used by one goroutine, and starts one
// more for each forwarding core.
package testpmd
