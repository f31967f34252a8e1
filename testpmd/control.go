package testpmd

import (
	"bufio"
	"os"

	"golang.org/x/sys/unix"
)

func controlCommands() []*command {
	return []*command{
		{section: controlSection, pattern: "start", help: "Start packet forwarding with current configuration.", run: func(c *Console, a args) { c.startForwarding(0) }},
		{section: controlSection, pattern: "start tx_first", help: "Start packet forwarding with current config after sending one burst of packets.", run: func(c *Console, a args) { c.startForwarding(1) }},
		{pattern: "start tx_first (num)", run: (*Console).startTxFirst},
		{section: controlSection, pattern: "stop", help: "Stop packet forwarding, and display accumulated statistics.", run: func(c *Console, a args) { c.stopForwarding() }},
		{section: controlSection, pattern: "quit", help: "Quit to prompt.", run: func(c *Console, a args) { c.quitting = true }},
		{section: configSection, pattern: "load (file)", help: "Run the commands in a file.", run: func(c *Console, a args) { c.load(a[1], false) }},
		{section: configSection, pattern: "load_echo (file)", help: "The same, and show each command before it runs.", run: func(c *Console, a args) { c.load(a[1], true) }},
	}
}

// maxTxFirst bounds the bursts that are sent before forwarding starts.
const maxTxFirst = 1 << 20

func (c *Console) startTxFirst(a args) {
	n := a.num(2)
	if n > maxTxFirst {
		c.errorf("tx_first %d > %d (maximum number of bursts) - ignored\n", n, maxTxFirst)
		return
	}
	c.startForwarding(int(n))
}

// maxLoads bounds the depth of files that load files.
const maxLoads = 8

// maxLine bounds the length of a line in a file, in bytes.
const maxLine = 1 << 20

// load runs the commands in a file, and shows each behind the prompt if echo
// says so. A line that is no command is named and skipped.
func (c *Console) load(name string, echo bool) {
	// A pipe that nobody writes to must not hold the console up.
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		c.errorf("Failed to create file based cmdline context: %s\n", name)
		return
	}
	defer f.Close()
	if c.loading == maxLoads {
		c.errorf("%s: not loaded: %d files load one another already\n", name, maxLoads)
		return
	}
	c.loading++
	defer func() { c.loading-- }()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, maxLine)
	for n := 1; lines.Scan() && !c.quitting; n++ {
		if echo {
			c.printf("%s%s\n", Prompt, trimLine(lines.Text()))
		}
		if answer := c.exec(lines.Text()); answer != "" {
			c.errorf("%s:%d: %s\n", name, n, answer)
		}
	}
	if err := lines.Err(); err != nil {
		c.errorf("%s: %v\n", name, err)
		return
	}
	c.printf("Read CLI commands from %s\n", name)
}
