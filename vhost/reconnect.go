package vhost

import (
	"context"
	"fmt"
	"io"
	"time"

	"vionet/ring"
	"vionet/virtio"
)

// The pause before a new connection is tried: it doubles with each try.
const (
	firstPause   = 100 * time.Millisecond
	longestPause = 2 * time.Second
)

// keep watches the connection until Close, and brings it back when it ends.
func (f *Frontend) keep(p *peer) {
	for {
		select {
		case <-f.ctx.Done():
			return
		case <-f.news:
		case <-p.channel.done:
			f.lost(p)
			f.tellDriver()
			if p = f.reconnect(); p == nil {
				return
			}
		}
		f.tellDriver()
	}
}

// lost notes that the back end has gone away.
func (f *Frontend) lost(p *peer) {
	p.close()
	if f.ctx.Err() != nil {
		return
	}
	cause := p.channel.cause
	if cause == nil {
		cause = io.EOF
	}
	f.cfg.Log.Error("vhost: the back end is gone, the link is down", "device", f.cfg.Name, "cause", cause)
}

// tellDriver calls the function of Watch.
func (f *Frontend) tellDriver() {
	f.mu.Lock()
	changed, closed := f.changed, f.closed
	f.mu.Unlock()
	if changed != nil && !closed {
		changed()
	}
}

// reconnect tries until there is a back end that goes on where the last one
// was. It gives nil after Close.
func (f *Frontend) reconnect() *peer {
	if f.connector == nil {
		return nil
	}
	said := ""
	for pause := f.pause; ; pause = min(2*pause, longestPause) {
		select {
		case <-f.ctx.Done():
			return nil
		case <-time.After(pause):
		}
		p, err := f.connectAgain()
		if err == nil {
			f.cfg.Log.Info("vhost: the back end is back", "device", f.cfg.Name)
			return p
		}
		if f.ctx.Err() == nil && err.Error() != said {
			said = err.Error()
			f.cfg.Log.Warn("vhost: no connection yet, trying on", "device", f.cfg.Name, "cause", err)
		}
	}
}

func (f *Frontend) connectAgain() (*peer, error) {
	sock, err := f.connector.connect(f.ctx)
	if err != nil {
		return nil, err
	}
	p, err := f.handshake(f.ctx, sock)
	if err != nil {
		return nil, err
	}
	if err := f.resume(p); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// resume brings a new back end to where the last one was.
func (f *Frontend) resume(p *peer) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if missing := f.accepted &^ p.offered &^ ownFeatures; missing != 0 {
		return fmt.Errorf("the back end that came back lacks %v, which the port uses: start it as it was, or stop the port until it is connected", missing)
	}
	f.peer = p
	p.channel.deadline = time.Now().Add(f.cfg.Timeout)
	stop := context.AfterFunc(f.ctx, func() { p.channel.fail(context.Cause(f.ctx)) })
	defer stop()
	if err := f.replay(); err != nil {
		return fmt.Errorf("set up the back end that came back: %w", err)
	}
	p.channel.deadline = time.Time{}
	return nil
}

// replay tells the back end all that the driver has told the one before it.
func (f *Frontend) replay() error {
	if !f.featuresOK {
		return nil // nothing is agreed upon yet
	}
	if err := f.sendFeatures(); err != nil {
		return err
	}
	if err := f.sendStatus(f.status &^ (virtio.StatusDriverOK | virtio.StatusNeedsReset)); err != nil {
		return err
	}
	if !f.anyStarted() {
		return nil
	}
	if f.accepted.Has(virtio.RingPacked) && (f.inflight == nil || !f.peer.protocol.has(protocolInflight)) {
		f.giveUpRings()
		return nil
	}
	if err := f.replayRings(); err != nil {
		return err
	}
	if err := f.sendStatus(f.status); err != nil {
		return err
	}
	f.wakeAll()
	return nil
}

// giveUpRings leaves the rings alone until the driver resets the device, and
// says so in the status.
func (f *Frontend) giveUpRings() {
	for i := range f.rings {
		f.rings[i].started, f.rings[i].enabled = false, false
	}
	f.status |= virtio.StatusNeedsReset
	f.cfg.Log.Warn("vhost: the back end is back, but packed virtqueues do not show where the last one was: the device needs a reset", "device", f.cfg.Name)
}

// replayRings sets up every ring where the last back end has left it.
func (f *Frontend) replayRings() error {
	if err := f.shareMemory(); err != nil {
		return err
	}
	if err := f.shareInflight(); err != nil {
		return err
	}
	for i := range f.rings {
		if !f.rings[i].started {
			continue
		}
		if err := f.sendRing(i, f.resumeBase(i)); err != nil {
			return err
		}
	}
	for i := range f.rings {
		on := f.rings[i].enabled
		f.rings[i].enabled = !f.peer.switchable()
		if err := f.enable(i, on); err != nil {
			f.rings[i].enabled = on // for the next one that comes
			return err
		}
	}
	return nil
}

// resumeBase is where a ring goes on: a split one where its used ring ends, so
// that what the last back end had taken but not used is served again. In a
// packed one the back end finds the place in the inflight memory.
func (f *Frontend) resumeBase(i int) uint32 {
	if f.accepted.Has(virtio.RingPacked) {
		return ring.FreshPacked
	}
	return uint32(ring.UsedIndex(f.rings[i].setup.Used.Bytes))
}

// wakeAll makes both sides look at the rings: what the last back end was told,
// or has told, may have been lost with it.
func (f *Frontend) wakeAll() {
	for i := range f.rings {
		if f.rings[i].started {
			f.rings[i].kick.signal()
			f.rings[i].interrupt()
		}
	}
}
