package testpmd

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math/bits"
	"strconv"
	"strings"

	"vionet/port"
	"vionet/virtio"
)

func rssCommands() []*command {
	return []*command{
		{section: portsSection, pattern: "port config all rss (rss_mode)", help: "Choose by which headers received packets are spread over the queues.", run: (*Console).rssSetTypes},
		{section: portsSection, pattern: "port config (port_id) rss-hash-key (rss_type) (key)", help: "Set the key of the hash.", run: (*Console).rssSetKey},
		{section: portsSection, pattern: "port config (port_id) rss reta (hash,queue)[,(hash,queue)]", help: "Set entries of the redirection table.", run: (*Console).rssSetTable},
		{section: displaySection, pattern: "show port (port_id) rss-hash", help: "Show which headers the hash covers.", run: func(c *Console, a args) { c.showRSSHash(a, false) }, json: (*Console).hashJSON},
		{section: displaySection, pattern: "show port (port_id) rss-hash key", help: "Show the key of the hash too.", run: func(c *Console, a args) { c.showRSSHash(a, true) }, json: (*Console).hashJSON},
		{section: displaySection, pattern: "show port (port_id) rss reta (size) (mask0[,mask1]*)", help: "Show the entries of the redirection table whose bits are set in the masks, one for each 64 entries.", run: (*Console).showRSSTable, json: (*Console).tableJSON},
	}
}

// rssIP are the types that ports with several queues begin with.
const rssIP = virtio.HashIPv4 | virtio.HashIPv6 | virtio.HashIPv6Ex

// rssBit pairs a kind of header that testpmd's numbers and words know with the
// hash type of a virtio device, 0 where there is none.
type rssBit struct {
	name string
	bit  uint64
	hash virtio.HashTypes
}

var rssBits = []rssBit{
	{"ipv4", 1 << 2, virtio.HashIPv4}, {"ipv4-frag", 1 << 3, 0}, {"ipv4-tcp", 1 << 4, virtio.HashTCPv4},
	{"ipv4-udp", 1 << 5, virtio.HashUDPv4}, {"ipv4-sctp", 1 << 6, 0}, {"ipv4-other", 1 << 7, 0},
	{"ipv6", 1 << 8, virtio.HashIPv6}, {"ipv6-frag", 1 << 9, 0}, {"ipv6-tcp", 1 << 10, virtio.HashTCPv6},
	{"ipv6-udp", 1 << 11, virtio.HashUDPv6}, {"ipv6-sctp", 1 << 12, 0}, {"ipv6-other", 1 << 13, 0},
	{"l2-payload", 1 << 14, 0}, {"ipv6-ex", 1 << 15, virtio.HashIPv6Ex}, {"ipv6-tcp-ex", 1 << 16, virtio.HashTCPv6Ex},
	{"ipv6-udp-ex", 1 << 17, virtio.HashUDPv6Ex}, {"port", 1 << 18, 0}, {"vxlan", 1 << 19, 0}, {"geneve", 1 << 20, 0},
	{"nvgre", 1 << 21, 0}, {"gtpu", 1 << 23, 0}, {"eth", 1 << 24, 0}, {"s-vlan", 1 << 25, 0}, {"c-vlan", 1 << 26, 0},
	{"esp", 1 << 27, 0}, {"ah", 1 << 28, 0}, {"l2tpv3", 1 << 29, 0}, {"pfcp", 1 << 30, 0}, {"pppoe", 1 << 31, 0},
	{"ecpri", 1 << 32, 0}, {"mpls", 1 << 33, 0}, {"ipv4-chksum", 1 << 34, 0}, {"l4-chksum", 1 << 35, 0}, {"l2tpv2", 1 << 36, 0},
}

// rssGroups are testpmd's words for several kinds at once.
var rssGroups = map[string]uint64{
	"none": 0, "all": 0x137f83fffc, "ip": 0xa38c, "udp": 0x20820, "tcp": 0x10410, "sctp": 0x1040,
	"tunnel": 0x380000, "vlan": 0x6000000,
}

func rssTypeNames() []string {
	var names []string
	for _, b := range rssBits {
		names = append(names, b.name)
	}
	return names
}

// parseRSSMode reads a kind of headers, a group of them, or the number of one.
func parseRSSMode(word string) (mask uint64, ok bool) {
	if mask, ok = rssGroups[word]; ok {
		return mask, true
	}
	for _, b := range rssBits {
		if b.name == word {
			return b.bit, true
		}
	}
	n, err := strconv.ParseUint(word, 10, 8)
	return 1 << n, err == nil && n > 0 && n < 64
}

// hashTypes are the virtio hash types among kinds of headers.
func hashTypes(mask uint64) (types virtio.HashTypes) {
	for _, b := range rssBits {
		if mask&b.bit != 0 {
			types |= b.hash
		}
	}
	return types
}

// rssMask is the reverse of hashTypes.
func rssMask(types virtio.HashTypes) (mask uint64) {
	for _, b := range rssBits {
		if types&b.hash != 0 {
			mask |= b.bit
		}
	}
	return mask
}

// rss gives what can spread the port's packets, and its limits; nil when
// nothing can.
func (p *portState) rss() (port.RSSSetter, port.RSSLimits) {
	if s, ok := p.Port.(port.RSSSetter); ok {
		if limits, err := s.RSSLimits(); err == nil {
			return s, limits
		}
	}
	return nil, port.RSSLimits{}
}

// rssTableLen is the number of entries that a redirection table has where the
// device allows it.
const rssTableLen = 128

// rssTable gives the length of the redirection table; 0: there is none.
func (p *portState) rssTable() int {
	s, limits := p.rss()
	if s == nil {
		return 0
	}
	if r, err := s.RSS(); err == nil && len(r.Table) > 0 {
		return len(r.Table)
	}
	return min(rssTableLen, limits.MaxTable)
}

// rssWanted is what the next start asks of RSS: nothing when there is one queue
// to spread packets over, or nothing that the device knows to spread them by.
func (c *Console) rssWanted(p *portState) *port.RSS {
	s, limits := p.rss()
	types := c.Options.RSSTypes & limits.Types
	if s == nil || c.Options.RxQueues < 2 || types == 0 {
		return nil
	}
	return &port.RSS{Types: types}
}

// errNoRSS is what testpmd's library says of a port that spreads nothing.
const errNoRSS = "Multi-queue RSS mode isn't enabled."

// rssFailure says that the port does not spread packets, if that is what err
// says.
func (c *Console) rssFailure(err error) {
	if errors.Is(err, port.ErrState) || errors.Is(err, port.ErrNotSupported) {
		c.errorf("%s\n", errNoRSS)
	} else if err != nil {
		c.errorf("%v\n", err)
	}
}

func (c *Console) rssSetTypes(a args) {
	mask, ok := parseRSSMode(a[4])
	byDefault := a[4] == "default"
	if !ok && !byDefault {
		c.errorf("Unknown parameter\n")
		return
	}
	all := true
	for _, p := range c.openPorts() {
		s, limits := p.rss()
		can := rssMask(limits.Types)
		want := mask
		if byDefault {
			want = can
		}
		if want&^can != 0 {
			c.printf("Port %d modified RSS hash function based on hardware support,requested:%#x configured:%s\n", p.id, want, hexNumber(want&can))
		}
		err := port.ErrNotSupported
		if s != nil {
			err = s.SetRSSTypes(hashTypes(want & can))
		}
		if err == nil {
			p.applied.RSS = &port.RSS{Types: hashTypes(want & can)}
		} else {
			all = false
			c.rssFailure(err)
			c.errorf("Configuration of RSS hash at ethernet port %d failed with error (%d): %s.\n", p.id, errno(err), errnoText(err))
		}
	}
	if all && !byDefault {
		c.Options.RSSTypes = hashTypes(mask)
		c.printf("rss_hf %s\n", hexNumber(mask))
	}
}

// hexNumber writes a number as C's %#x does.
func hexNumber(n uint64) string {
	if n == 0 {
		return "0"
	}
	return fmt.Sprintf("%#x", n)
}

// rssPort gives the port at word 2 for commands that complain about others in
// this way.
func (c *Console) rssPort(a args) *portState {
	p := c.lookup(a.num(2))
	if p == nil {
		c.errorf("Invalid port_id=%d\nError during getting device (port %d) info: No such device\n", a.num(2), a.num(2))
	}
	return p
}

const noHashKey = "dev_info did not provide a valid hash key size\n"

func (c *Console) rssSetKey(a args) {
	p := c.rssPort(a)
	if p == nil {
		return
	}
	s, limits := p.rss()
	if s == nil {
		c.errorf(noHashKey)
		return
	}
	if len(a[5]) != 2*limits.MaxKey {
		c.errorf("key length: %d invalid - key must be a string of %d hexa-decimal numbers\n", len(a[5]), 2*limits.MaxKey)
		return
	}
	if i := strings.IndexFunc(a[5], func(r rune) bool { return !strings.ContainsRune("0123456789abcdefABCDEF", r) }); i >= 0 {
		c.errorf("invalid key: character %c at position %d is not a valid hexa digit\n", []rune(a[5][i:])[0], i)
		return
	}
	key, _ := hex.DecodeString(a[5])
	c.rssAnswer(s.SetRSSKey(key))
}

// rssAnswer complains about what a change or a look at the hash failed with.
func (c *Console) rssAnswer(err error) {
	c.rssFailure(err)
	switch {
	case err == nil:
	case errors.Is(err, port.ErrState), errors.Is(err, port.ErrNotSupported):
		c.errorf("operation not supported by device\n")
	default:
		c.errorf("operation failed - diag=%d\n", -errno(err))
	}
}

// maxRSSTable is the longest redirection table that testpmd changes.
const maxRSSTable = 512

func (c *Console) rssSetTable(a args) {
	p := c.rssPort(a)
	if p == nil {
		return
	}
	size := p.rssTable()
	if size == 0 {
		c.errorf("Redirection table size is 0 which is invalid for RSS\n")
		return
	}
	c.printf("The reta size of port %d is %d\n", p.id, size)
	if size > maxRSSTable {
		c.errorf("Currently do not support more than %d entries of redirection table\n", maxRSSTable)
		return
	}
	entries, ok := parseTableEntries(a[5])
	for _, e := range entries {
		if e.index >= size {
			c.errorf("Invalid RETA hash index=%d\n", e.index)
			ok = false
			break
		}
	}
	if !ok {
		c.errorf("Invalid RSS Redirection Table config entered\n")
		return
	}
	s, _ := p.rss()
	r, err := s.RSS()
	if err == nil && len(r.Table) != size {
		err = port.ErrState
	}
	if err == nil {
		for _, e := range entries {
			r.Table[e.index] = e.queue
		}
		err = s.SetRSSTable(r.Table)
	}
	if err != nil {
		c.rssFailure(err)
		c.errorf("Bad redirection table parameter, return code = %d\n", -errno(err))
	}
}

// tableEntry is an entry of a redirection table.
type tableEntry struct {
	index int
	queue uint16
}

// parseTableEntries reads "(0,1),(1,0)".
func parseTableEntries(word string) (entries []tableEntry, ok bool) {
	for {
		var inside string
		if word, ok = strings.CutPrefix(word, "("); !ok {
			return nil, false
		}
		if inside, word, ok = strings.Cut(word, ")"); !ok {
			return nil, false
		}
		index, queue, _ := strings.Cut(inside, ",")
		i, err := strconv.ParseUint(index, 0, 16)
		q, err2 := strconv.ParseUint(queue, 0, 16)
		if err != nil || err2 != nil {
			return nil, false
		}
		entries = append(entries, tableEntry{int(i), uint16(q)})
		if word == "" {
			return entries, true
		}
		if word, ok = strings.CutPrefix(word, ","); !ok {
			return nil, false
		}
	}
}

func (c *Console) showRSSHash(a args, withKey bool) {
	p := c.portOf(a, 2)
	if p == nil {
		return
	}
	s, limits := p.rss()
	if s == nil || limits.MaxKey == 0 {
		c.errorf(noHashKey)
		return
	}
	r, err := s.RSS()
	switch {
	case err != nil:
		c.rssAnswer(err)
		return
	case r.Types == 0:
		c.printf("RSS disabled\n")
		return
	}
	c.printf("RSS functions:\n%s", rssTypesText(r.Types))
	if withKey {
		c.printf("RSS key:\n%X\n", r.Key)
	}
}

// rssLineLen is the number of characters in a line of types.
const rssLineLen = 64

// rssTypesText lists hash types in lines.
func rssTypesText(types virtio.HashTypes) string {
	var text strings.Builder
	length := 0
	for _, name := range strings.Fields(types.String()) {
		item := "  " + name
		if length+len(item) > rssLineLen {
			text.WriteByte('\n')
			length = 0
		}
		text.WriteString(item)
		length += len(item)
	}
	text.WriteByte('\n')
	return text.String()
}

func (c *Console) showRSSTable(a args) {
	p, table, masks := c.shownTable(a)
	if p == nil {
		return
	}
	var b strings.Builder
	for i, mask := range masks {
		for ; mask != 0; mask &= mask - 1 {
			if at := 64*i + bits.TrailingZeros64(mask); at < len(table) {
				fmt.Fprintf(&b, "RSS RETA configuration: hash index=%d, queue=%d\n", at, table[at])
			}
		}
	}
	c.printf("%s", b.String())
}

// shownTable gives the redirection table of the port at word 2 and the masks of
// the entries to show; p is nil after a complaint.
func (c *Console) shownTable(a args) (p *portState, table []uint16, masks []uint64) {
	p = c.rssPort(a)
	if p == nil {
		return nil, nil, nil
	}
	size, have := a.num(5), p.rssTable()
	if size == 0 || size > uint64(have) {
		c.errorf("Invalid redirection table size: %d (1-%d)\n", size, have)
		return nil, nil, nil
	}
	masks, ok := c.parseMasks(a[6], int(size+63)/64)
	if !ok {
		c.errorf("Invalid string: %s for reta masks\n", a[6])
		return nil, nil, nil
	}
	s, _ := p.rss()
	r, err := s.RSS()
	if err == nil && len(r.Table) != int(size) {
		err = port.ErrInvalid
	}
	if err != nil {
		c.errorf("Failed to get RSS RETA info, return code = %d\n", -errno(err))
		return nil, nil, nil
	}
	return p, r.Table, masks
}

// parseMasks reads n masks as in "(0x1,0x3)".
func (c *Console) parseMasks(word string, n int) ([]uint64, bool) {
	inside, ok := strings.CutPrefix(word, "(")
	inside, ok2 := strings.CutSuffix(inside, ")")
	items := strings.Split(inside, ",")
	if inside == "" || len(items) != n {
		c.errorf("The bits of masks do not match the number of reta entries: %d\n", n)
		return nil, false
	}
	var masks []uint64
	for _, item := range items {
		mask, err := strconv.ParseUint(item, 0, 64)
		if err != nil {
			return nil, false
		}
		masks = append(masks, mask)
	}
	return masks, ok && ok2
}
