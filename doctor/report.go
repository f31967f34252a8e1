package doctor

import (
	"fmt"
	"slices"
	"strings"

	"vionet/pci"
)

// Level says how bad a finding is.
type Level string

// Levels, as they stand in JSON.
const (
	OK   Level = "ok"
	Warn Level = "warn" // could be better, or is to be known
	Fail Level = "fail" // keeps a function from working
)

// Finding is one thing that was looked at.
type Finding struct {
	// Check is what was looked at: "iommu", "module", "noiommu", "hugepages",
	// "memlock", "capability", "cpu" or "vfio"; of a function also "driver",
	// "group", "users" and "uio".
	Check string `json:"check"`
	// Subject is which of several, such as a module's name; or "".
	Subject string `json:"subject"`
	Level   Level  `json:"level"`
	Text    string `json:"text"`
	// Mend is the shell command, for root, that mends it; "" where there is
	// nothing to mend or no command could.
	Mend string `json:"mend"`
}

// Function is what was found out about a virtio-net function.
type Function struct {
	Address    string   `json:"address"` // "0000:00:01.0"
	Device     string   `json:"device"`
	Driver     string   `json:"driver"`        // the kernel's, "" for none
	Group      int      `json:"iommu_group"`   // -1 for none
	Members    []string `json:"group_members"` // the other functions of the group
	Interfaces []string `json:"interfaces"`    // of the kernel
	InUse      string   `json:"in_use"`        // why the kernel needs it, or ""
	NUMANode   int      `json:"numa_node"`     // -1 when unknown
	// Ready is true when vionet can drive the function now.
	Ready    bool      `json:"ready"`
	Findings []Finding `json:"findings"`
}

// Report is the result. Its JSON names are stable.
type Report struct {
	// OK is true when nothing failed.
	OK        bool       `json:"ok"`
	Summary   string     `json:"summary"`
	Counts    Counts     `json:"counts"`
	Machine   []Finding  `json:"machine"`
	Functions []Function `json:"functions"`
}

// Counts is the number of findings of each level.
type Counts struct {
	OK   int `json:"ok"`
	Warn int `json:"warn"`
	Fail int `json:"fail"`
}

// Examine looks at the machine that the tree belongs to. The error is that of
// a bus that can't be scanned; everything else becomes a finding.
func Examine(tree pci.Tree) (Report, error) {
	return newMachine(tree).examine()
}

func (m *machine) examine() (Report, error) {
	functions, err := m.tree.Functions()
	if err != nil {
		return Report{}, err
	}
	r := Report{Machine: m.findings(), Functions: []Function{}}
	r.count(r.Machine)
	for _, f := range functions {
		if f.IsVirtioNet() {
			found := m.function(f)
			r.count(found.Findings)
			r.Functions = append(r.Functions, found)
		}
	}
	r.OK = r.Counts.Fail == 0
	r.Summary = r.summary()
	return r, nil
}

func (r *Report) count(findings []Finding) {
	for _, f := range findings {
		switch f.Level {
		case OK:
			r.Counts.OK++
		case Warn:
			r.Counts.Warn++
		default:
			r.Counts.Fail++
		}
	}
}

// summary is the report in one line.
func (r *Report) summary() string {
	if len(r.Functions) == 0 {
		return "no virtio-net function here; ports over vhost-user need nothing of the above"
	}
	ready := 0
	for _, f := range r.Functions {
		if f.Ready {
			ready++
		}
	}
	s := fmt.Sprintf("%d of %s ready", ready, counted(len(r.Functions), "virtio-net function"))
	if r.Counts.Fail > 0 {
		s += fmt.Sprintf(", %s to mend", counted(r.Counts.Fail, "thing"))
	}
	return s + "; ports over vhost-user work"
}

// counted writes a number of things: "1 page", "2 pages".
func counted(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

// fails reports whether one of the findings keeps a function from working.
func fails(findings []Finding) bool {
	return slices.ContainsFunc(findings, func(f Finding) bool { return f.Level == Fail })
}

// commands joins the commands that are needed, in the order to run them.
func commands(each ...string) string {
	var needed []string
	for _, c := range each {
		if c != "" {
			needed = append(needed, c)
		}
	}
	return strings.Join(needed, " && ")
}
