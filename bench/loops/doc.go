// Package loops finds out what the compiler made of inner loops: whether there
// is a call, a bounds check or a write barrier in the machine code of one. These
// are facts that do not depend on the machine that runs the test, as times do.
//
// It reads the listing that `go build -gcflags=-S` prints, finds the loop of the
// machine code that belongs to a for statement, and looks at its instructions.
// Functions that were inlined into the loop count with it.
package loops
