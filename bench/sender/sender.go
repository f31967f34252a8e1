// Package sender has what zero-copy transmission is compared with: programs that
// send UDP through the kernel, over a veth pair whose other end drops everything.
package sender

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Command is the word behind "vionet bench" that makes it a sender; --size and the
// way of sending follow.
const Command = "send"

// Ready is what a sender prints before it begins.
const Ready = "sending"

// ways of sending frames of a size until ctx is done.
var ways = map[string]func(ctx context.Context, size int) error{
	"udp": sendUDP,
	"xdp": sendXDP,
}

// Run is a sender, by way of udp or xdp, of frames of that many bytes with their
// Ethernet headers. It makes an interface in the network namespace that it runs in,
// which should be its own, as /sys should.
func Run(ctx context.Context, way string, size int) error {
	send, known := ways[way]
	if !known {
		return fmt.Errorf("no way %q to send: there are %s", way, strings.Join(slices.Sorted(maps.Keys(ways)), ", "))
	}
	if err := layVeth(); err != nil {
		return err
	}
	return send(ctx, size)
}
