// Package sender has what zero-copy transmission is compared with: programs that
// send UDP through the kernel, over a veth pair whose other end drops everything.
package sender

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Command is the word that makes the benchmark a sender; the kind of sender and
// its flags follow.
const Command = "send"

// Ready is what a sender prints before it begins.
const Ready = "sending"

// ways of sending frames of a size until ctx is done.
var ways = map[string]func(ctx context.Context, size int) error{
	"udp": sendUDP,
	"xdp": sendXDP,
}

// Run is a sender: args are the way, udp or xdp, and -size, the bytes of a frame
// with its Ethernet header. It makes an interface in the network namespace that
// it runs in, which should be its own, as /sys should.
func Run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet(Command, flag.ContinueOnError)
	size := flags.Int("size", 64, "bytes of a frame")
	way := ""
	if len(args) > 0 {
		way = args[0]
		args = args[1:]
	}
	send, known := ways[way]
	if !known {
		return fmt.Errorf("no way %q to send: there are %s", way, strings.Join(slices.Sorted(maps.Keys(ways)), ", "))
	}
	if err := flags.Parse(args); err != nil {
		return err
	}
	if err := layVeth(); err != nil {
		return err
	}
	return send(ctx, *size)
}
