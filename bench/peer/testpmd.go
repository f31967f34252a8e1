package peer

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"time"
)

// End is a testpmd at one end of a wire.
type End struct {
	Vionet  bool   // or else DPDK
	Devargs string // further arguments of its virtual devices, each with a comma in front
}

// DPDK and Vionet are the two without anything further.
var (
	DPDK   = End{}
	Vionet = End{Vionet: true}
)

// Memory is what every testpmd takes of hugepages, in MiB.
const Memory = 128

// Command begins the command line of a testpmd that does all its work on one core: two
// lcores share it, of which the main one only reads the console. Vionet is the binary.
// Name tells DPDK's processes apart.
func (e End) Command(vionet, name string, core int) []string {
	var argv []string
	if e.Vionet {
		argv = []string{vionet, "testpmd"}
	} else {
		argv = []string{"dpdk-testpmd", "--file-prefix", fmt.Sprintf("%s%d", name, os.Getpid()), "--in-memory", "--single-file-segments", "--no-telemetry"}
	}
	return append(argv, "--lcores", fmt.Sprintf("0@%d,1@%[1]d", core), "--no-pci", "-m", strconv.Itoa(Memory))
}

// Socket is where port i of a host listens.
func Socket(dir, name string, i int) string {
	return filepath.Join(dir, fmt.Sprintf("%s%d.sock", name, i))
}

// prompt is what the console prints when it is ready for a command.
const prompt = "testpmd> "

// patience is how long a console may take for a command.
const patience = 20 * time.Second

// Ready waits for the prompt of the console.
func (p *Process) Ready() error { return p.WaitFor(prompt, patience) }

// Do types lines at a console that is ready, and waits until it is ready again.
func (p *Process) Do(lines ...string) error {
	for _, line := range lines {
		if err := p.Send(line); err != nil {
			return errors.Join(p.Alive(), err)
		}
		if err := p.Ready(); err != nil {
			return fmt.Errorf("%s: %w", line, err)
		}
	}
	return nil
}

// Ask types a line and gives the first group of the match in the answer.
func (p *Process) Ask(line string, answer *regexp.Regexp) (string, error) {
	if err := p.Send(line); err != nil {
		return "", errors.Join(p.Alive(), err)
	}
	whole := regexp.MustCompile(answer.String() + `[\s\S]*` + prompt)
	m, err := p.waitMatch(whole, patience)
	if err != nil {
		return "", err
	}
	return string(m[1]), nil
}
