// Package job is the contract between the lab, which writes a job into the
// initramfs, and the guest's init, which carries it out.
package job

// File is where the initramfs holds the job, as JSON.
const File = "/etc/run"

// ExitMark begins the last line that a guest writes to its serial console;
// the exit status of the program follows, in decimal.
const ExitMark = "@@EXIT "

// InitFailed is the exit status when init itself could not go on: no module,
// no such program, a function that would not be bound.
const InitFailed = 125

// Job is what a guest does between boot and power off.
type Job struct {
	// Args is the program, a path in the guest, and its arguments. It gets
	// the serial console as its terminal.
	Args []string
	// Beside are programs, with their arguments, that run at the same time;
	// each has the next serial line as its terminal.
	Beside [][]string
	// Env is added to the guest's environment, as KEY=value.
	Env []string
	// Dir is the program's working directory.
	Dir string
	// Modules are the kernel modules to load, as paths in the guest, each
	// after the ones that it depends on.
	Modules []string
	// Driver takes every virtio-net function before the program runs; ""
	// leaves them alone.
	Driver string
	// Echo keeps the echo of the terminal on: for a person at the console.
	Echo bool
	// Rows and Cols are the size of the terminal in characters.
	Rows, Cols uint16
}
