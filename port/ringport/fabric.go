package ringport

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"vionet/port"
)

// Fabric opens ports by name, as a command line gives them, and ties together
// those that belong together. The zero Fabric has no ports. Its methods may be
// called from any goroutine.
type Fabric struct {
	mu     sync.Mutex
	cables []*cable
}

// Open makes the port of that name and takes the arguments that it knows out
// of args:
//
//	peer=  the port to tie this one to; without it the port receives what it
//	       sends, unless another one named it as its peer
//	size=  packets in each ring, 1024; for a pair the first port's
//
// The two ports of a pair are opened one after the other, with peer= on the
// first or on both. A port that was closed can be opened again with its name
// and finds its place at the peer.
func (f *Fabric) Open(name string, args map[string]string) (port.Port, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.forget()
	a, err := takeArguments(name, args)
	if err != nil {
		return nil, err
	}
	c, at := f.find(name)
	switch {
	case c == nil:
		return f.lay(name, a)
	case c.plugged(c.ends[at]):
		return nil, fmt.Errorf("port: %s: %w: it is open already", name, port.ErrInvalid)
	}
	far := c.ends[(at+1)%len(c.ends)]
	if a.peer != "" && a.peer != far.name {
		return nil, fmt.Errorf("port: %s: peer=%s: %w: it is the peer of %s", name, a.peer, port.ErrInvalid, far.name)
	}
	return c.plug(at, a.text), nil
}

// lay makes a new cable with the port at its first end.
func (f *Fabric) lay(name string, a arguments) (port.Port, error) {
	names := []string{name}
	if a.peer != "" && a.peer != name {
		names = append(names, a.peer)
		if c, at := f.find(a.peer); c != nil {
			other := c.ends[(at+1)%len(c.ends)].name
			return nil, fmt.Errorf("port: %s: peer=%s: %w: that port is tied to %s already: name the one with peer= first", name, a.peer, port.ErrInvalid, other)
		}
	}
	c := newCable(a.size, names...)
	f.cables = append(f.cables, c)
	return c.plug(0, a.text), nil
}

// find gives the cable with an end of that name, and which end it is.
func (f *Fabric) find(name string) (*cable, int) {
	for _, c := range f.cables {
		for at, e := range c.ends {
			if e.name == name {
				return c, at
			}
		}
	}
	return nil, 0
}

// forget takes up the cables that all ports have left.
func (f *Fabric) forget() {
	f.cables = slices.DeleteFunc(f.cables, func(c *cable) bool {
		return !slices.ContainsFunc(c.ends, c.plugged)
	})
}

// arguments are those of Fabric.Open.
type arguments struct {
	peer string
	size int
	text string // as they were written
}

func takeArguments(name string, args map[string]string) (a arguments, err error) {
	var written []string
	for _, key := range slices.Sorted(maps.Keys(args)) {
		written = append(written, key+"="+args[key])
	}
	a = arguments{peer: args["peer"], text: strings.Join(written, ",")}
	size := 0
	if text, given := args["size"]; given {
		if size, err = strconv.Atoi(text); err != nil || size == 0 {
			return a, fmt.Errorf("port: %s: size=%s: %w: must be a number from 1 to %d", name, text, port.ErrInvalid, maxSize)
		}
	}
	if a.size, err = ringSize(name, size); err != nil {
		return a, err
	}
	delete(args, "peer")
	delete(args, "size")
	return a, nil
}
