// Command vionet is a virtio-net poll-mode driver with its tools.
package main

import (
	"fmt"
	"os"

	"github.com/urfave/cli/v2"
)

func main() {
	os.Exit(run(os.Args))
}

// run is the program; it returns the exit status.
func run(args []string) int {
	if err := newApp().Run(args); err != nil {
		fmt.Fprintf(os.Stderr, "vionet: %v\n", err)
		return 1
	}
	return 0
}

func newApp() *cli.App {
	return &cli.App{
		Name:                 "vionet",
		Usage:                "virtio-net devices in user space",
		Commands:             []*cli.Command{testpmdCommand(), devbindCommand(), doctorCommand(), benchCommand(), completionCommand(), manCommand(), versionCommand()},
		EnableBashCompletion: true,
		// Errors are printed here, once.
		ExitErrHandler: func(*cli.Context, error) {},
	}
}
