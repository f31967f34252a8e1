package main

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sys/unix"

	"vionet/mbuf"
	"vionet/metrics"
	"vionet/port"
	"vionet/testpmd"
)

// metricsServer answers Prometheus's scrapes.
type metricsServer struct {
	ports    metrics.Collector
	log      *slog.Logger
	listener net.Listener
	http     http.Server
	worker   sync.WaitGroup
}

// listenMetrics takes the address, which other programs then cannot; nothing is
// answered before serve.
func listenMetrics(addr string, log *slog.Logger) (*metricsServer, error) {
	l, err := net.Listen("tcp", addr)
	switch {
	case errors.Is(err, unix.EADDRINUSE):
		return nil, fmt.Errorf("metrics %s: %w: stop the program that listens there, or give another port", addr, unix.EADDRINUSE)
	case errors.Is(err, unix.EADDRNOTAVAIL):
		return nil, fmt.Errorf("metrics %s: %w: give an address of this machine", addr, unix.EADDRNOTAVAIL)
	case errors.Is(err, unix.EACCES):
		return nil, fmt.Errorf("metrics %s: %w: give a port from 1024 on", addr, unix.EACCES)
	case err != nil:
		return nil, fmt.Errorf("metrics %s: %w", addr, err)
	}
	return &metricsServer{listener: l, log: log}, nil
}

// metricsTimeout bounds what a client can hold up.
const metricsTimeout = 10 * time.Second

// opened shows a port. The console gives each a number of its own.
func (s *metricsServer) opened(id int, p port.Port) {
	if err := s.ports.Add(id, p); err != nil {
		s.log.Error(err.Error())
	}
}

// serve answers at /metrics until close: what the ports and the console show, the
// Go runtime and the process.
func (s *metricsServer) serve(pool *mbuf.Pool, console *testpmd.Console) {
	s.ports.AddPool(pool) // the first of its name
	s.ports.SetTxBuffers(func() (list []metrics.TxBuffer) {
		for _, b := range console.TxBuffers() {
			list = append(list, metrics.TxBuffer{Port: b.Port, Queue: b.Queue, Stats: b.TxBufferStats})
		}
		return list
	})
	registry := prometheus.NewRegistry()
	registry.MustRegister(&s.ports, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelError)}))
	s.http = http.Server{Handler: mux, ReadTimeout: metricsTimeout, WriteTimeout: metricsTimeout}
	s.log.Info(fmt.Sprintf("metrics at http://%s/metrics", s.listener.Addr()))
	s.worker.Go(func() {
		if err := s.http.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
			s.log.Error(fmt.Sprintf("metrics %s: %v", s.listener.Addr(), err))
		}
	})
}

// close ends connections and gives the address back.
func (s *metricsServer) close() {
	s.http.Close()
	s.listener.Close() // serve may not have been reached
	s.worker.Wait()
}

// metricsFlag is --metrics: ADDRESS:PORT, where the address is this machine's own
// loopback unless it is written out.
func metricsFlag(to *string) flag {
	return flag{names: []string{"--metrics"}, value: true, set: func(v string) error {
		host, number, err := net.SplitHostPort(v)
		if err != nil {
			host, number = "", v
		}
		if _, err := parseInt("metrics", number, 0, math.MaxUint16); err != nil {
			return fmt.Errorf("metrics %s invalid - must be PORT or ADDRESS:PORT, with a port from 0 to %d", v, math.MaxUint16)
		}
		if host == "" {
			host = "127.0.0.1"
		}
		*to = net.JoinHostPort(host, number)
		return nil
	}}
}
