package testpmd

import (
	"math/bits"
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
	// json gives what a show command shows as a value, or nil after a
	// complaint: see jsonForm.
	json func(*Console, args) any

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
	filtersSection = &section{"filters", "filters:", "Filters configuration help."}
	trafficSection = &section{"traffic_management", "Traffic Management:", "Traffic Management commands."}
	devicesSection = &section{"devices", "Device Operations:", "Device related commands."}
	driversSection = &section{"drivers", "Driver specific:", "Driver specific commands."}
)

var sections = []*section{
	controlSection, displaySection, configSection, portsSection,
	filtersSection, trafficSection, devicesSection, driversSection,
}

// families are the functions that give the commands, one for each file of them.
var families = []func() []*command{
	controlCommands, helpCommands,
	showPortCommands, xstatsCommands, showConfigCommands, fwdStatsCommands, queueInfoCommands,
	setCommands, coreCommands, packetCommands, linkCommands, addressCommands, recordCommands, txBufferCommands, pollModeCommands, logCommands,
	csumCommands, tsoCommands, vlanCommands, rssCommands,
	portCommands, attachCommands, portConfigCommands, thresholdCommands, queueCommands, offloadCommands,
	featureCommands, dumpCommands, flowCommands, refusedCommands,
	captureCommands, watchCommands,
}

// commandTable collects the families and compiles their patterns.
func commandTable() []*command {
	values := valueTokens()
	var table []*command
	for _, family := range families {
		table = append(table, family()...)
	}
	for _, cmd := range table {
		if strings.HasPrefix(cmd.pattern, "show ") {
			table = append(table, cmd.jsonForm())
		}
	}
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
		"(port_id)":     {accept: isNumber, kind: portNumber},
		"(port_id|all)": {words: []string{"all"}, accept: isNumber, kind: portNumber},
		"(num|off)":     {words: []string{"off"}, accept: isNumber},
		"(file)":        {accept: anything.accept, kind: fileName},
		"(vlan_id|all)": {words: []string{"all"}, accept: isNumber},
		"(mac_address)": {accept: isMAC},
		"(mode)":        {words: modeNames()},
		"(seconds)":     {accept: isSeconds},
		"(rx_name)":     {words: offloadNames(func(bit uint64) string { return port.RxOffloads(bit).String() })},
		"(tx_name)":     {words: offloadNames(func(bit uint64) string { return port.TxOffloads(bit).String() })},
		"(rss_type)":    {words: rssTypeNames()},
	}
	for _, name := range []string{
		"(queue_id)", "(desc_id)", "(num)", "(level)", "(value)", "(segsize)", "(size)",
		"(vlan_id)", "(outer_vlan_id)", "(tpid)", "(mask)", "(microseconds)", "(qmapping)", "(free_cnt)", "(register)",
	} {
		values[name] = number
	}
	for _, name := range []string{
		"(x[,y]*)", "(peer_addr)", "(ident)", "(name)", "(policy)", "(type)", "(rss_mode)", "(key)",
		"(hash,queue)[,(hash,queue)]", "(mask0[,mask1]*)", "(port_id,queue_id)",
	} {
		values[name] = anything
	}
	for _, name := range []string{"(selection...)", "(command...)", "(rule...)"} {
		values[name] = token{accept: anything.accept, rest: true}
	}
	return values
}

func modeNames() []string {
	var names []string
	for _, e := range engine.All {
		names = append(names, e.Name)
		if e.Alias != "" {
			names = append(names, e.Alias)
		}
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
