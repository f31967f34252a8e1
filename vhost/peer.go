package vhost

import (
	"context"
	"fmt"
	"net"
	"time"

	"vionet/mbuf"
	"vionet/virtio"
)

// peer is the back end at the other end of one connection, and what it knows.
type peer struct {
	channel  *channel
	requests *requestReader // nil: it sends none
	offered  virtio.Features
	protocol protocolFeatures // negotiated
	pairs    int              // queue pairs that it has
	slots    int              // memory regions that it takes

	// What it was told since the connection or the last reset.
	statusSent   bool
	tableSent    bool
	inflightSent bool

	added []mbuf.Region // memory that it was given region by region
}

// switchable reports whether single rings can be switched on and off.
func (p *peer) switchable() bool { return p.offered.Has(virtio.VhostUserProtocolFeatures) }

// close ends the connection.
func (p *peer) close() {
	p.channel.close()
	p.requests.close()
}

// handshake is the first exchange on a connection: it finds out what the back
// end can do. All of it must be over within the time-out. The socket belongs to
// the peer, also when it fails.
func (f *Frontend) handshake(ctx context.Context, sock *net.UnixConn) (*peer, error) {
	p := &peer{channel: newChannel(&conn{sock: sock, timeout: f.cfg.Timeout}), pairs: 1, slots: maxRegions}
	p.channel.deadline = time.Now().Add(f.cfg.Timeout)
	stop := context.AfterFunc(ctx, func() { p.channel.fail(context.Cause(ctx)) })
	defer stop()
	err := f.negotiate(p)
	if err == nil && f.cfg.Queues > p.pairs {
		err = fmt.Errorf("the back end has %d queue pairs, not %d: lower queues=", p.pairs, f.cfg.Queues)
	}
	if err != nil {
		p.close()
		return nil, err
	}
	p.channel.deadline = time.Time{}
	f.cfg.Log.Debug("vhost: connected", "device", f.cfg.Name, "features", p.offered, "pairs", p.pairs)
	return p, nil
}

func (f *Frontend) negotiate(p *peer) error {
	if err := p.channel.tell(message{request: setOwner}); err != nil {
		return err
	}
	m, err := p.channel.ask(message{request: getFeatures})
	if err != nil {
		return err
	}
	p.offered = virtio.Features(m.u64)
	if !p.switchable() {
		return nil
	}
	if m, err = p.channel.ask(message{request: getProtocolFeatures}); err != nil {
		return err
	}
	p.protocol = protocolFeatures(m.u64) & knownProtocol
	if err := p.channel.tell(message{request: setProtocolFeatures, u64: uint64(p.protocol)}); err != nil {
		return err
	}
	p.channel.ack = p.protocol.has(protocolReplyAck)
	if p.protocol.has(protocolMQ) {
		if m, err = p.channel.ask(message{request: getQueueNum}); err != nil {
			return err
		}
		p.pairs = int(min(m.u64, maxPairs))
	}
	if p.protocol.has(protocolMemSlots) {
		if m, err = p.channel.ask(message{request: getMaxMemSlots}); err != nil {
			return err
		}
		p.slots = int(min(m.u64, maxRegions))
	}
	if p.protocol.has(protocolBackendReq) {
		return f.offerRequests(p)
	}
	return nil
}
