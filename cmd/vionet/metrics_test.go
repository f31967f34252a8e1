package main

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestMetricsAddress(t *testing.T) {
	for given, want := range map[string]string{
		"9100": "127.0.0.1:9100", ":9100": "127.0.0.1:9100", "0": "127.0.0.1:0",
		"0.0.0.0:9100": "0.0.0.0:9100", "[::]:9100": "[::]:9100", "192.0.2.1:80": "192.0.2.1:80",
		"": "", "x": "", ":": "", "127.0.0.1": "", "127.0.0.1:http": "", "1:2:3": "", ":65536": "", ":-1": "", "[::1]": "",
	} {
		var got string
		err := metricsFlag(&got).set(given)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("--metrics %q: %q, %v; want %q", given, got, err, want)
		}
		if err != nil && err.Error() != "metrics "+given+" invalid - must be PORT or ADDRESS:PORT, with a port from 0 to 65535" {
			t.Errorf("--metrics %q: %v", given, err)
		}
	}
}

// metricsConsole is a console that answers Prometheus at base.
func metricsConsole(t *testing.T, vdev string) (c *pipedConsole, base string) {
	t.Helper()
	c = &pipedConsole{cmd: program("testpmd", "--lcores", "0@0,1@0", "--no-pci", "--no-huge", "--metrics", ":0", "--vdev", vdev,
		"--", "-i", "--total-num-mbufs=2048", "--no-flush-rx"), pumped: make(chan struct{})}
	in, err := c.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var logs heard
	complaints, err := c.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.in = in
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.cmd.Process.Kill(); c.cmd.Wait() })
	go logs.pump(complaints)
	go func() { c.pump(out); close(c.pumped) }()
	logs.expect(t, "metrics at ")
	return c, logs.expect(t, "/metrics")
}

// scrape gets the metrics, or what else a path answers.
func scrape(t *testing.T, url string) (status int, text string) {
	t.Helper()
	r, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(body)
}

// The metrics of a console that forwards, of ports that come and go, and their end
// with the console.
func TestMetricsOfAConsole(t *testing.T) {
	c, base := metricsConsole(t, "net_null0")
	if !strings.HasPrefix(base, "http://127.0.0.1:") {
		t.Errorf("metrics at %s", base)
	}
	command := func(line string) {
		io.WriteString(c.in, line+"\n")
		c.expect(t, "testpmd> ")
	}
	c.expect(t, "testpmd> ")
	command("set txbuffer 16")
	command("start")
	has := func(parts ...string) (missing string) {
		status, text := scrape(t, base+"/metrics")
		if status != http.StatusOK {
			t.Fatalf("status %d: %s", status, text)
		}
		for _, part := range parts {
			if !strings.Contains(text, part) {
				missing += part + "\n"
			}
		}
		return missing
	}
	moving := func() bool {
		_, text := scrape(t, base+"/metrics")
		zero := `vionet_queue_packets_total{device="net_null0",direction="tx",port="0",queue="0"} 0` + "\n"
		return strings.Contains(text, zero[:len(zero)-2]) && !strings.Contains(text, zero)
	}
	for deadline := time.Now().Add(10 * time.Second); !moving(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("nothing is counted")
		}
	}
	if missing := has(
		`vionet_port_info{device="net_null0",driver="net_null",`, `vionet_port_link_up{device="net_null0",port="0"} 1`,
		`vionet_tx_buffer_flushes_total{port="0",queue="0",reason="full"}`, `vionet_pool_buffers{pool="mb_pool_0"} 2048`,
		`vionet_queue_broken{device="net_null0",direction="tx",port="0",queue="0"} 0`,
		"go_goroutines ", "process_resident_memory_bytes ",
	); missing != "" {
		t.Errorf("missing:\n%s", missing)
	}
	if status, _ := scrape(t, base+"/"); status != http.StatusNotFound {
		t.Errorf("status of /: %d", status)
	}

	command("stop")
	command("port attach net_null1")
	if missing := has(`vionet_port_info{device="net_null1",`); missing != "" {
		t.Errorf("after attach: missing %s", missing)
	}
	command("port detach 1")
	if missing := has(`vionet_port_info{device="net_null1",`); missing == "" {
		t.Error("a detached port has metrics")
	}
	io.WriteString(c.in, "quit\n")
	c.ended(t)
	if r, err := http.Get(base + "/metrics"); err == nil {
		r.Body.Close()
		t.Error("metrics after the end of the console")
	}
}

func TestMetricsAddressInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for addr, want := range map[string]string{
		l.Addr().String(): "metrics " + l.Addr().String() + ": address already in use: stop the program that listens there, or give another port\n",
		"192.0.2.1:9100":  "metrics 192.0.2.1:9100: cannot assign requested address: give an address of this machine\n",
	} {
		out, err := program("testpmd", "--no-pci", "--no-huge", "--vdev", "net_null0", "--metrics="+addr, "--", "-i").CombinedOutput()
		if err == nil || string(out) != "vionet: "+want {
			t.Errorf("%v\n%s", err, out)
		}
	}
}
