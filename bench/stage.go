package bench

import (
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"vionet/bench/peer"
	"vionet/bench/turns"
)

// stage has the players: entrants that are alive. They serve one trial after the other
// as long as later ones want them, since a console changes a load in a tenth of the
// time that it takes to start a DPDK.
type stage struct {
	vionet string // the binary
	dir    string // for sockets and logs
	cores  [2]int // of the hosts, and of the guests
	wires  []int  // sizes of frames that the wires of hosts have
	room   int    // how many processes the hugepages are enough for

	players map[entrant]*player
	started int // players so far, for their names
}

// player is an entrant's host and guest, which stand still.
type player struct {
	*peer.Group
	host, guest *peer.Process
	carries     load
	paths       string // that the guest's driver chose
}

// prepare leaves the players of a trial ready to be measured. Later says which other
// entrants are still wanted afterwards.
func (s *stage) prepare(ctx context.Context, t trial, later func(entrant) bool) (players []*player, err error) {
	if needed := t.processes(); needed > s.room {
		return nil, fmt.Errorf("hugepages are missing: %d processes at once need %d MiB, there is room for %d", needed, needed*peer.Memory, s.room)
	}
	s.makeRoom(t.entrants, later)
	for _, e := range t.entrants {
		p := s.players[e]
		if p == nil {
			if p, err = s.start(ctx, e); err != nil {
				return nil, fmt.Errorf("%s: %w", e.name, err)
			}
			s.players[e] = p
		}
		if err := p.carry(ctx, t.load, s.wires); err != nil {
			return nil, fmt.Errorf("%s: %w", e.name, err)
		}
		players = append(players, p)
	}
	return players, nil
}

// makeRoom ends the players that nobody wants later, and if there would be too many
// nevertheless, all that are not wanted now.
func (s *stage) makeRoom(now []entrant, later func(entrant) bool) {
	s.end(func(e entrant) bool { return !slices.Contains(now, e) && !later(e) })
	entrants := len(s.players)
	for _, e := range now {
		if s.players[e] == nil {
			entrants++
		}
	}
	if processes*entrants > s.room {
		s.end(func(e entrant) bool { return !slices.Contains(now, e) })
	}
}

// end ends the players that are to go.
func (s *stage) end(gone func(entrant) bool) {
	for e, p := range s.players {
		if gone(e) {
			p.Kill()
			delete(s.players, e)
		}
	}
}

// start starts a host and its guest, and stops them.
func (s *stage) start(ctx context.Context, e entrant) (_ *player, err error) {
	s.started++
	name := fmt.Sprint(s.started)
	p := &player{Group: &peer.Group{Name: e.name}}
	defer func() {
		if err != nil {
			p.Kill()
		}
	}()
	log := func(end string) string { return filepath.Join(s.dir, name+"-"+end+".log") }
	if p.host, err = p.Start(ctx, log("host"), s.cores[0], e.hostCommand(s.vionet, s.dir, name, s.cores[0], s.wires)); err != nil {
		return nil, err
	}
	if err := p.host.Ready(); err != nil {
		return nil, fmt.Errorf("host: %w", err)
	}
	if p.guest, err = p.Start(ctx, log("guest"), s.cores[1], e.guestCommand(s.vionet, s.dir, name, s.cores[1])); err != nil {
		return nil, err
	}
	if err := p.guest.Ready(); err != nil {
		return nil, fmt.Errorf("guest: %w", err)
	}
	if p.paths, err = chosenPaths(e, p.guest); err != nil {
		return nil, err
	}
	p.Busy = p.Processes
	return p, p.Pause()
}

// chosenPaths are the burst functions that the guest's driver has chosen, in its own
// words.
func chosenPaths(e entrant, guest *peer.Process) (string, error) {
	var paths []string
	for _, direction := range []string{"Rx", "Tx"} {
		var path string
		if e.guest.Vionet {
			var err error
			if path, err = guest.Ask("show port 0 path", regexp.MustCompile(direction+` path of port 0 : (.*)\n`)); err != nil {
				return "", err
			}
		} else if m := regexp.MustCompile(`virtio: using (.*) ` + direction + ` path on port 0`).FindStringSubmatch(guest.Log()); m != nil {
			path = m[1]
		}
		paths = append(paths, strings.TrimSpace(path+" "+direction))
	}
	return strings.Join(paths, ", "), nil
}

// flowing is how long the first packet may take once both ends forward.
const flowing = 10 * time.Second

// carry gives a player a load, waits until packets move, and stops it again.
func (p *player) carry(ctx context.Context, l load, wires []int) error {
	if p.carries == l {
		return nil
	}
	p.carries = load{}
	if err := p.Resume(); err != nil {
		return p.Explain(err)
	}
	defer p.Pause()
	if err := p.tell(l, wires); err != nil {
		return err
	}
	p.Count = p.host.Counter(0, l.counter)
	before, err := p.Count()
	for begin := time.Now(); err == nil; {
		if err = turns.Sleep(ctx, 20*time.Millisecond); err != nil {
			break
		}
		now := uint64(0)
		if now, err = p.Count(); err == nil && now > before {
			p.carries = l
			return nil
		}
		if time.Since(begin) > flowing {
			return p.Explain(fmt.Errorf("no packet moves from %s", strings.ReplaceAll(l.name, "-", " ")))
		}
	}
	return p.Explain(err)
}

// tell types a load at the two consoles. Who receives starts first: a start throws away
// what is there to receive, which would take long once somebody sends.
func (p *player) tell(l load, wires []int) error {
	for _, process := range []*peer.Process{p.guest, p.host} {
		if err := process.Do("stop"); err != nil {
			return err
		}
	}
	if err := p.host.Do(l.hostLines(wirePort(l, wires))...); err != nil {
		return err
	}
	if err := p.guest.Do(l.guestLines()...); err != nil {
		return err
	}
	if l.guestMode == "txonly" {
		if err := p.host.Do(l.startHost()); err != nil {
			return err
		}
		return p.guest.Do("start")
	}
	if err := p.guest.Do("start"); err != nil {
		return err
	}
	return p.host.Do(l.startHost())
}

// wirePort is the port of the host that is the wire with frames of the load's size.
func wirePort(l load, wires []int) int { return l.ports + slices.Index(wires, l.size) }
