// Command init is the first process of a lab guest: it makes the guest ready,
// runs its programs on serial lines, reports its exit status there and
// switches the machine off. It is linked statically and needs no other file.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"

	"vionet/scripts/lab/job"
)

func main() {
	status, err := run()
	if err != nil {
		fmt.Printf("init: %v\n", err)
	}
	fmt.Printf("\n%s%d\n", job.ExitMark, status)
	powerOff()
}

// run does the whole job and gives the exit status to report.
func run() (int, error) {
	if os.Getpid() != 1 {
		return job.InitFailed, errors.New("this is the init of a guest, nothing to run by hand")
	}
	if err := mountAll(); err != nil {
		return job.InitFailed, err
	}
	text, err := os.ReadFile(job.File)
	if err != nil {
		return job.InitFailed, err
	}
	var j job.Job
	if err := json.Unmarshal(text, &j); err != nil {
		return job.InitFailed, fmt.Errorf("%s: %w", job.File, err)
	}
	for _, path := range j.Modules {
		if err := loadModule(path); err != nil {
			return job.InitFailed, err
		}
	}
	if j.Driver != "" {
		if err := bindAll(j.Driver); err != nil {
			return job.InitFailed, err
		}
	}
	return runPrograms(j)
}

// runPrograms starts the job's programs and gives the exit status of the first, the
// others' is nobody's business.
func runPrograms(j job.Job) (int, error) {
	if len(j.Args) == 0 {
		return job.InitFailed, fmt.Errorf("%s names no program", job.File)
	}
	for i, argv := range j.Beside {
		if _, err := start(j, argv, i+1); err != nil {
			return job.InitFailed, err
		}
	}
	cmd, err := start(j, j.Args, 0)
	if err != nil {
		return job.InitFailed, err
	}
	err = cmd.Wait()
	status, ended := cmd.ProcessState.Sys().(syscall.WaitStatus)
	switch {
	case ended && status.Signaled():
		return 128 + int(status.Signal()), fmt.Errorf("%s was killed: %s", j.Args[0], status.Signal())
	case ended && status.Exited():
		return status.ExitStatus(), nil
	}
	return job.InitFailed, fmt.Errorf("%s: %w", j.Args[0], err)
}

// start starts a program in a session of its own with a serial line as controlling
// terminal, so that Ctrl-C reaches it and not init.
func start(j job.Job, argv []string, line int) (*exec.Cmd, error) {
	tty, err := openConsole(j, line)
	if err != nil {
		return nil, err
	}
	defer tty.Close() // the program has it

	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append([]string{"PATH=/bin", "HOME=/tmp", "TMPDIR=/tmp"}, j.Env...)
	cmd.Dir = j.Dir
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0}
	return cmd, cmd.Start()
}

// powerOff lets the console drain before the machine is gone. Should the
// kernel refuse, the end of init makes it panic, and QEMU ends all the same.
func powerOff() {
	_ = unix.IoctlSetInt(int(os.Stdout.Fd()), unix.TCSBRK, 1)
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
}
