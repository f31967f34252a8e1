package vhost

import (
	"golang.org/x/sys/unix"
)

// inflightFile is the inflight memory, which the front end keeps from one back
// end to the next without looking into it.
type inflightFile struct {
	area inflightArea
	fd   int
}

// close gives the descriptor back. A call on nil does nothing.
func (i *inflightFile) close() {
	if i != nil {
		unix.Close(i.fd)
	}
}

// shareInflight has the back end make inflight memory for the rings, or gives
// it that of the one before it, if it knows what that is.
func (f *Frontend) shareInflight() error {
	p := f.peer
	if !p.protocol.has(protocolInflight) || p.inflightSent {
		return nil
	}
	if f.inflight == nil {
		ask := inflightArea{queues: uint16(len(f.rings)), queueSize: uint16(f.cfg.QueueSize)}
		m, fd, err := p.channel.askFD(message{request: getInflightFD, inflight: ask})
		if err != nil {
			return err
		}
		f.inflight = &inflightFile{area: m.inflight, fd: fd}
	}
	err := p.channel.tell(message{request: setInflightFD, inflight: f.inflight.area}, f.inflight.fd)
	p.inflightSent = err == nil
	return err
}
