package main

import (
	"encoding/json"
	"errors"

	"github.com/urfave/cli/v2"

	"vionet/doctor"
	"vionet/pci"
)

// doctorCommand says what keeps this machine's virtio-net functions from
// working and which commands mend it.
func doctorCommand() *cli.Command {
	return &cli.Command{
		Name:  "doctor",
		Usage: "look for what keeps virtio-net functions from working, and say what mends it",
		Description: "Nothing is changed. The exit status is 0 unless something is marked FAIL: it keeps a\n" +
			"function from working that the kernel does not need itself.",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "json", Usage: "write the report as JSON"},
			&cli.StringFlag{Name: "root", Usage: "directory that holds sys, proc, dev and lib", Hidden: true},
		},
		Action: runDoctor,
	}
}

func runDoctor(c *cli.Context) error {
	if c.Args().Present() {
		return errors.New("doctor: it takes no arguments")
	}
	report, err := doctor.Examine(pci.Tree{Root: c.String("root")})
	if err != nil {
		return err
	}
	if c.Bool("json") {
		out := json.NewEncoder(c.App.Writer)
		out.SetIndent("", "  ")
		out.SetEscapeHTML(false) // commands have && and > in them
		err = out.Encode(report)
	} else {
		err = report.WriteText(c.App.Writer)
	}
	if err != nil {
		return err
	}
	if !report.OK {
		return errors.New("doctor: " + report.Summary)
	}
	return nil
}
