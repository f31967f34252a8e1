package peer

import (
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// End is a testpmd at one end of a wire.
type End struct {
	Vionet  bool     // or else DPDK
	EAL     []string // further options in front of "--"
	Devargs string   // further arguments of its virtual devices, each with a comma in front
}

// DPDK and Vionet are the two without anything further.
var (
	DPDK   = End{}
	Vionet = End{Vionet: true}
)

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
	argv = append(argv, "--lcores", fmt.Sprintf("0@%d,1@%[1]d", core), "--no-pci", "-m", "128")
	return append(argv, e.EAL...)
}

// Socket is where port i of a host listens.
func Socket(dir, name string, i int) string {
	return filepath.Join(dir, fmt.Sprintf("%s%d.sock", name, i))
}

// prompt is what the console prints when it is ready for a command.
const prompt = "testpmd> "

// Ready waits for the prompt of the console.
func (p *Process) Ready() error { return p.WaitFor(prompt, 20*time.Second) }
