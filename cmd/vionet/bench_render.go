package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/urfave/cli/v2"

	"vionet/bench/report"
)

// renderCommand shows results again.
func renderCommand() *cli.Command {
	return &cli.Command{
		Name: "render", Usage: "show the results of an earlier run, without measuring", ArgsUsage: "RESULTS.json",
		Flags: resultFlags(), Action: benchRender,
	}
}

func benchRender(c *cli.Context) error {
	if c.NArg() != 1 {
		return errors.New("bench render: name one file of results, as bench --json writes it")
	}
	f, err := os.Open(c.Args().First())
	if err != nil {
		return fmt.Errorf("bench render: %w", err)
	}
	defer f.Close()
	r, err := report.Read(f)
	if err != nil {
		return fmt.Errorf("bench render: %s: %w", f.Name(), err)
	}
	return writeResults(c, r)
}
