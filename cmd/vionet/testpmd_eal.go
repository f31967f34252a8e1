package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"vionet/testpmd"
)

// device is a device and its arguments as they stand on the command line.
type device struct {
	Name string // a PCI address, or the name of a virtual device
	Args string // "key=value,…"
}

// ealOptions is the first part of the command line: machine and devices.
type ealOptions struct {
	Cores    []testpmd.Core // all lcores, in ascending order
	MainCore int            // the one that does not forward

	Allow []device // the only PCI devices to use; none: those that are bound
	Block []string // PCI addresses not to use
	Vdevs []device // virtual devices
	NoPCI bool

	MemoryMB int    // of all buffers and rings; 0: what the pool needs
	NoHuge   bool   // plain pages
	HugeDir  string // accepted: memory is not made in a directory
	InMemory bool   // accepted: memory is always that
	IOVAMode string // "va", "pa", or "" for the device's own

	LogLevels []string // "level" or "name:level", in order
	LogFormat string   // "console" or "json"
	Metrics   string   // address to answer Prometheus at; "": none
}

// maxMemoryMB is 16 TiB.
const maxMemoryMB = 16 << 20

// parseEAL reads the options in front of "--".
func parseEAL(args []string) (ealOptions, error) {
	opts := ealOptions{LogFormat: "console", MainCore: -1}
	var coreList, coreMap string
	var allow, vdevs []string
	flags := []flag{
		stringFlag("-l", &coreList),
		stringFlag("--lcores", &coreMap),
		intFlag("--main-lcore", 0, maxCore, &opts.MainCore),
		listFlag("-a --allow", &allow),
		listFlag("-b --block", &opts.Block),
		listFlag("--vdev", &vdevs),
		boolFlag("--no-pci", &opts.NoPCI),
		intFlag("-m", 1, maxMemoryMB, &opts.MemoryMB),
		boolFlag("--no-huge", &opts.NoHuge),
		stringFlag("--huge-dir", &opts.HugeDir),
		boolFlag("--in-memory", &opts.InMemory),
		choiceFlag("--iova-mode", &opts.IOVAMode, "va", "pa"),
		listFlag("--log-level", &opts.LogLevels),
		choiceFlag("--log-format", &opts.LogFormat, "console", "json"),
		metricsFlag(&opts.Metrics),
	}
	flags = append(flags, ignoredFlags(true, "-n", "--file-prefix")...)
	flags = append(flags, ignoredFlags(false, "--single-file-segments", "--no-telemetry")...)
	if err := parseFlags(args, flags); err != nil {
		return opts, err
	}
	if len(allow) > 0 && len(opts.Block) > 0 {
		return opts, fmt.Errorf("options -a and -b cannot be used at the same time")
	}
	opts.Allow = splitDevices(allow)
	opts.Vdevs = splitDevices(vdevs)
	if err := uniqueNames(opts.Vdevs); err != nil {
		return opts, err
	}
	return opts, opts.assignCores(coreList, coreMap)
}

// choiceFlag is an option with one of a few words.
func choiceFlag(name string, to *string, words ...string) flag {
	return flag{names: []string{name}, value: true, set: func(v string) error {
		if !slices.Contains(words, v) {
			return fmt.Errorf("%s %s invalid - must be: %s", strings.TrimLeft(name, "-"), v, strings.Join(words, " or "))
		}
		*to = v
		return nil
	}}
}

func splitDevices(list []string) []device {
	var devices []device
	for _, item := range list {
		name, args, _ := strings.Cut(item, ",")
		devices = append(devices, device{name, args})
	}
	return devices
}

func uniqueNames(devices []device) error {
	seen := map[string]bool{}
	for _, d := range devices {
		if seen[d.Name] {
			return fmt.Errorf("vdev %s invalid - there is one of that name already", d.Name)
		}
		seen[d.Name] = true
	}
	return nil
}

// maxCore is the largest number of an lcore.
const maxCore = 1023

// assignCores settles which lcores there are, which processors each may use,
// and which of them is the main one. Without a list every processor is one.
func (o *ealOptions) assignCores(list, coreMap string) error {
	available, err := processors()
	if err != nil {
		return err
	}
	switch {
	case list != "" && coreMap != "":
		return fmt.Errorf("options -l and --lcores cannot be used at the same time")
	case list != "":
		ids, err := parseRanges("-l", list)
		if err != nil {
			return err
		}
		for _, id := range ids {
			o.Cores = append(o.Cores, testpmd.Core{ID: id, CPUs: []int{id}})
		}
	case coreMap != "":
		if o.Cores, err = parseCoreMap(coreMap); err != nil {
			return err
		}
	default:
		for _, cpu := range available {
			o.Cores = append(o.Cores, testpmd.Core{ID: cpu, CPUs: []int{cpu}})
		}
		if len(o.Cores) == 1 {
			// The only processor has to do: forwarding shares it.
			o.Cores = append(o.Cores, testpmd.Core{ID: available[0] + 1})
		}
	}
	slices.SortFunc(o.Cores, func(a, b testpmd.Core) int { return a.ID - b.ID })
	for i, core := range o.Cores {
		if i > 0 && o.Cores[i-1].ID == core.ID {
			return fmt.Errorf("lcore %d invalid - it is listed twice", core.ID)
		}
		for _, cpu := range core.CPUs {
			if !slices.Contains(available, cpu) {
				return fmt.Errorf("lcore %d unavailable - processors are %s", core.ID, formatRanges(available))
			}
		}
	}
	if o.MainCore < 0 {
		o.MainCore = o.Cores[0].ID
	}
	if len(o.forwardingCores()) == len(o.Cores) {
		return fmt.Errorf("main-lcore %d invalid - must be one of the lcores", o.MainCore)
	}
	if len(o.forwardingCores()) == 0 {
		return fmt.Errorf("no cores defined for forwarding: -l needs one more than the main one")
	}
	return nil
}

// forwardingCores are all but the main one.
func (o *ealOptions) forwardingCores() []testpmd.Core {
	return slices.DeleteFunc(slices.Clone(o.Cores), func(c testpmd.Core) bool { return c.ID == o.MainCore })
}

// processors lists those that this process may use.
func processors() ([]int, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("sched_getaffinity: %w", err)
	}
	var cpus []int
	for cpu := 0; len(cpus) < set.Count(); cpu++ {
		if set.IsSet(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	return cpus, nil
}

// parseRanges reads a list such as "0,2-4".
func parseRanges(name, list string) ([]int, error) {
	var numbers []int
	for _, item := range strings.Split(list, ",") {
		from, to, isRange := strings.Cut(item, "-")
		first, err := parseInt(name, from, 0, maxCore)
		if err != nil {
			return nil, err
		}
		last := first
		if isRange {
			if last, err = parseInt(name, to, first, maxCore); err != nil {
				return nil, err
			}
		}
		for n := first; n <= last; n++ {
			numbers = append(numbers, n)
		}
	}
	return numbers, nil
}

// parseCoreMap reads "lcores[@cpus],…", where either may be a number, a
// range, or a list of these in parentheses.
func parseCoreMap(text string) ([]testpmd.Core, error) {
	var cores []testpmd.Core
	for _, item := range splitOutside(text) {
		left, right, mapped := strings.Cut(item, "@")
		ids, err := parseRanges("--lcores", unwrap(left))
		if err != nil {
			return nil, err
		}
		var cpus []int
		if mapped {
			if cpus, err = parseRanges("--lcores", unwrap(right)); err != nil {
				return nil, err
			}
		}
		for _, id := range ids {
			core := testpmd.Core{ID: id, CPUs: cpus}
			if !mapped {
				core.CPUs = []int{id}
			}
			cores = append(cores, core)
		}
	}
	return cores, nil
}

// splitOutside splits at commas that are not in parentheses.
func splitOutside(text string) []string {
	depth := 0
	var items []string
	begin := 0
	for i, r := range text {
		switch r {
		case '(':
			depth++
		case ')':
			depth--
		case ',':
			if depth == 0 {
				items = append(items, text[begin:i])
				begin = i + 1
			}
		}
	}
	return append(items, text[begin:])
}

func unwrap(s string) string { return strings.TrimSuffix(strings.TrimPrefix(s, "("), ")") }

// formatRanges writes ascending numbers as "0-3,8".
func formatRanges(numbers []int) string {
	var parts []string
	for i := 0; i < len(numbers); {
		j := i
		for j+1 < len(numbers) && numbers[j+1] == numbers[j]+1 {
			j++
		}
		part := strconv.Itoa(numbers[i])
		if j > i {
			part += "-" + strconv.Itoa(numbers[j])
		}
		parts = append(parts, part)
		i = j + 1
	}
	return strings.Join(parts, ",")
}
