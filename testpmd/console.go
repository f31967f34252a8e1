package testpmd

import (
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"vionet/capture"
	"vionet/driver"
	"vionet/mbuf"
	"vionet/port"
	"vionet/testpmd/engine"
)

// Config is what a console is built from. Ports, pool and writers stay the
// caller's; the console closes the ports when it quits.
type Config struct {
	Ports []port.Port // by their numbers
	Pool  *mbuf.Pool  // of all ports
	// Cores are the forwarding cores; MainCore is the one that is kept for
	// the console.
	Cores    []Core
	MainCore int
	// Attach opens the device that "port attach" names, as --vdev and -a do;
	// Detach lets go of what is behind a port that was closed, wherever it came
	// from. nil: there is no such thing.
	Attach func(ident string) (port.Port, error)
	Detach func(port.Port) error
	// Opened is told of every port that the console has, by its number, and Closed
	// when it is about to be closed; nil: nobody is.
	Opened func(id int, p port.Port)
	Closed func(id int)
	// SetLog changes the level of the log messages of that kind, "global" for
	// all: 1 emergencies to 8 debug. LogLevels lists what was set.
	SetLog    func(kind string, level int) error
	LogLevels func() []string
	Out, Err  io.Writer // what was asked for, and complaints
	Options   Options
}

// Prompt is what the console asks with.
const Prompt = "testpmd> "

// Console is a running testpmd. Only Exec, Run and what they call use it.
type Console struct {
	Config
	commands []*command
	ports    []*portState
	lines    lineSource // nil: nobody is asked
	quitting bool
	loading  int  // depth of nested load commands
	warned   bool // of a port without a pair

	hideZeros bool // of extended statistics
	txSplit   string
	txTimes   [2]int
	rxPkts    []int
	rxOffs    []int

	mode    *engine.Engine
	retry   bool
	retries int
	delay   time.Duration
	// txBuffer is how packets wait in front of transmit queues; Size 0: they do
	// not.
	txBuffer driver.TxBufferConfig
	watch    *engine.Watch
	tap      capture.Tap       // on the queues of streams
	capture  *capture.Recorder // nil: none
	// fwdPorts and fwdCores are the ports and cores of forwarding in the
	// order of use; the first nbPorts and NbCores take part.
	fwdPorts []int
	nbPorts  int
	fwdCores []Core
	fwd      *forwarding // nil: stopped
	faults   chan error  // from forwarding cores that broke down
	// lastStreams are those of the last start, also when it has come to an end;
	// nil: there was none. Goroutines beside the console look at their counters.
	lastStreams atomic.Pointer[[]*engine.Stream]

	ended <-chan struct{} // closed when Run is to end; nil: never

	mu          sync.Mutex    // the writers, and what follows
	prompting   bool          // somebody is being asked: events draw the prompt again
	interrupted chan struct{} // closed to end a watch; nil: there is none
}

// New makes a console. The ports must be closed or stopped; they are not
// touched before Exec or Run.
func New(cfg Config) (*Console, error) {
	c := &Console{Config: cfg, commands: commandTable(), retries: defaultRetries, delay: defaultDelay, txSplit: txSplits[0]}
	c.mode = engine.ByName(cfg.Options.Mode)
	if c.mode == nil {
		return nil, fmt.Errorf("forwarding mode %q: must be one of %v", cfg.Options.Mode, modeNames())
	}
	if len(cfg.Cores) == 0 {
		return nil, fmt.Errorf("no cores for forwarding: name one more core with -l than the main one")
	}
	if n := cfg.Options.NbCores; n < 1 || n > len(cfg.Cores) {
		return nil, fmt.Errorf("nb-cores %d: must be >= 1 && <= %d", n, len(cfg.Cores))
	}
	c.Options.TxSegs = slices.Clone(cfg.Options.TxSegs)
	c.fwdCores = slices.Clone(cfg.Cores)
	c.watch = &engine.Watch{Out: shared{c}}
	c.faults = make(chan error, len(cfg.Cores))
	for id, p := range cfg.Ports {
		c.addPort(id, p)
		c.fwdPorts = append(c.fwdPorts, id)
	}
	c.nbPorts = len(c.ports)
	return c, c.choose()
}

// addPort makes p the port of that number, one that is free or the next.
func (c *Console) addPort(id int, p port.Port) *portState {
	state := newPortState(id, p, c.Options)
	if id == len(c.ports) {
		c.ports = append(c.ports, nil)
	}
	c.ports[id] = state
	p.Notify(func(e port.Event) { c.event(id, e) })
	if c.Opened != nil {
		c.Opened(id, p)
	}
	return state
}

// Exec runs one line as if it had been typed.
func (c *Console) Exec(line string) {
	if answer := c.exec(line); answer != "" {
		c.printf("%s\n", answer)
	}
}

// exec runs a line, or gives the answer to one that is no command.
func (c *Console) exec(line string) string {
	words := splitLine(line)
	if len(words) == 0 {
		return ""
	}
	cmd, answer := find(c.commands, words)
	if cmd != nil {
		cmd.run(c, words)
	}
	return answer
}

// printf writes what was asked for. Nothing is held back: with output and
// complaints in one pipe their order is that of the events.
func (c *Console) printf(format string, args ...any) {
	fmt.Fprintf(shared{c}, format, args...)
}

// shared is the output, for the console and for goroutines beside it.
type shared struct{ c *Console }

func (s shared) Write(b []byte) (int, error) {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	return s.c.Out.Write(b)
}

// errorf writes a complaint.
func (c *Console) errorf(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fmt.Fprintf(c.Err, format, args...)
}

// event tells people what happened to a port by itself. It runs on a
// goroutine of the port's.
func (c *Console) event(id int, e port.Event) {
	if e == port.LinkChange && c.Options.MuteLink {
		return
	}
	what, ok := map[port.Event]string{port.LinkChange: "link state change", port.NeedsReset: "reset", port.Removed: "device removal"}[e]
	if !ok {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	fmt.Fprintf(c.Out, "\nPort %d: %s event\n", id, what)
	if c.prompting {
		fmt.Fprint(c.Out, Prompt)
	}
}
