package report

import (
	"runtime/debug"
	"time"
)

// New is the report of a run that begins now, on this machine: what of it is known
// before anything is measured. Command is the line that started it.
func New(command string) Report {
	return Report{Date: time.Now().Truncate(time.Second), Commit: commit(), Command: command, Machine: ThisMachine()}
}

// commitDigits of a commit that name it among all of a project.
const commitDigits = 12

// commit is the one that this program was built from, with a plus sign when files
// were changed since; "" when the build did not say.
func commit() (name string) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	changed := ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			name = s.Value[:min(len(s.Value), commitDigits)]
		case s.Key == "vcs.modified" && s.Value == "true":
			changed = "+"
		}
	}
	if name == "" {
		return ""
	}
	return name + changed
}
