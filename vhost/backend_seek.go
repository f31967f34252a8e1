package vhost

import (
	"context"
	"net"
	"time"
)

// connectOut serves front ends that listen at path, one connection after the
// other, until Close. While nobody listens, it tries again and again, with
// pauses that grow.
func (b *Backend) connectOut(path string) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	b.workers.Go(func() { // Close breaks off a try that is under way
		select {
		case <-b.stop:
			cancel()
		case <-ctx.Done():
		}
	})
	dialer := net.Dialer{Timeout: b.cfg.Timeout}
	said := ""
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		c, err := dialer.DialContext(ctx, "unix", path)
		switch {
		case err == nil:
			if sock := c.(*net.UnixConn); b.adopt(sock) {
				b.serveOne(sock)
			}
			pause, said = firstPause, ""
		case ctx.Err() == nil && err.Error() != said:
			said = err.Error()
			b.cfg.Log.Warn("vhost: no front end listens yet, trying on", "path", path, "cause", err)
		}
		select {
		case <-b.stop:
			return
		case <-time.After(pause):
		}
	}
}
