package testpmd

import (
	"math/bits"
	"slices"
	"strings"

	"vionet/port"
	"vionet/testpmd/engine"
)

// command is one entry of the table.
type command struct {
	section *section
	pattern string // as help shows it; see parsePattern
	help    string // what it does; empty: help does not show it
	run     func(*Console, args)

	tokens []token
}

// section is a chapter of the help.
type section struct{ name, title, about string }

// Sections of the help.
var (
	controlSection = &section{"control", "Control forwarding:", "Start and stop forwarding."}
	displaySection = &section{"display", "Display:", "Displaying port, stats and config information."}
	configSection  = &section{"config", "Configuration:", "Configuration information."}
	portsSection   = &section{"ports", "Port Operations:", "Configuring ports."}
)

var sections = []*section{controlSection, displaySection, configSection, portsSection}

// commandTable collects the families and compiles their patterns.
func commandTable() []*command {
	values := valueTokens()
	table := slices.Concat(
		controlCommands(), helpCommands(), showPortCommands(), showConfigCommands(), fwdStatsCommands(),
		setCommands(), csumCommands(), tsoCommands(), vlanCommands(), portCommands(), portConfigCommands(), offloadCommands(),
	)
	for _, cmd := range table {
		cmd.tokens = parsePattern(cmd.pattern, values)
	}
	return table
}

// valueTokens are the tokens that patterns name and that are not words.
func valueTokens() map[string]token {
	number := token{accept: isNumber}
	anything := token{accept: func(string) bool { return true }}
	values := map[string]token{
		"(port_id)": number, "(queue_id)": number, "(num)": number, "(level)": number,
		"(value)": number, "(segsize)": number, "(vlan_id)": number, "(microseconds)": number,
		"(port_id|all)": {words: []string{"all"}, accept: isNumber},
		"(x[,y]*)":      {accept: isList},
		"(file)":        anything,
		"(peer_addr)":   anything,
		"(mode)":        {words: modeNames()},
		"(rx_name)":     {words: offloadNames(func(bit uint64) string { return port.RxOffloads(bit).String() })},
		"(tx_name)":     {words: offloadNames(func(bit uint64) string { return port.TxOffloads(bit).String() })},
	}
	return values
}

func modeNames() []string {
	var names []string
	for _, e := range engine.All {
		names = append(names, e.Name)
	}
	return names
}

// offloadNames lists the names of all single offloads in small letters.
func offloadNames(nameOf func(bit uint64) string) []string {
	var names []string
	unknown := nameOf(1 << 63)
	for i := range bits.UintSize - 1 {
		if name := nameOf(1 << i); name != unknown {
			names = append(names, strings.ToLower(name))
		}
	}
	return names
}
