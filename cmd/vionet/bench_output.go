package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"vionet/bench/report"
	"vionet/bench/report/picture"
)

// outputFlags say where the results of a benchmark go, besides the terminal.
func outputFlags() []cli.Flag {
	return []cli.Flag{
		&cli.PathFlag{Name: "json", Usage: "write the results to `FILE`, for bench render"},
		&cli.PathFlag{Name: "markdown", Usage: "write them as Markdown to `FILE`"},
		&cli.PathFlag{Name: "pictures", Usage: "draw them into `DIR`, as SVG and PNG"},
		&cli.PathFlag{Name: "docs", Usage: "put them into BENCHMARKS.md in `DIR`, between its marks, and pictures below DIR/bench"},
	}
}

// writeOutputs prints a report as text and writes what the flags ask for.
func writeOutputs(c *cli.Context, r report.Report) error {
	errs := []error{r.WriteText(c.App.Writer)}
	if name := c.Path("json"); name != "" {
		errs = append(errs, writeFile(name, r.WriteJSON))
	}
	var pictures map[string]string
	if dir := c.Path("pictures"); dir != "" {
		names, err := picture.WriteAll(dir, r)
		errs = append(errs, err)
		pictures = names
	}
	if name := c.Path("markdown"); name != "" {
		errs = append(errs, writeMarkdown(name, c.Path("pictures"), pictures, r))
	}
	if dir := c.Path("docs"); dir != "" {
		errs = append(errs, writeDocs(dir, r))
	}
	return errors.Join(errs...)
}

// writeFile has a file written.
func writeFile(name string, write func(io.Writer) error) error {
	var b bytes.Buffer
	if err := write(&b); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return os.WriteFile(name, b.Bytes(), 0o644)
}

// writeMarkdown writes a page that shows the pictures in dir.
func writeMarkdown(name, dir string, pictures map[string]string, r report.Report) error {
	way, err := filepath.Rel(filepath.Dir(name), dir)
	if err != nil {
		return err
	}
	return writeFile(name, func(w io.Writer) error { return r.WriteMarkdown(w, below(way, pictures)) })
}

// below puts the files' names below a directory, as addresses.
func below(dir string, names map[string]string) map[string]string {
	addresses := map[string]string{}
	for table, name := range names {
		addresses[table] = path.Join(filepath.ToSlash(dir), name)
	}
	return addresses
}

// picturesBelow is the place of the pictures in the documents.
const picturesBelow = "bench"

// writeDocs brings the page about benchmarks up to date.
func writeDocs(dir string, r report.Report) error {
	page := filepath.Join(dir, "BENCHMARKS.md")
	old, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	// Whether the page can take the section is known before anything is drawn.
	if _, err := report.Splice(string(old), ""); err != nil {
		return fmt.Errorf("%s: %w", page, err)
	}
	pictures, err := picture.WriteAll(filepath.Join(dir, picturesBelow), r)
	if err != nil {
		return err
	}
	var section bytes.Buffer
	if err := r.WriteMarkdown(&section, below(picturesBelow, pictures)); err != nil {
		return err
	}
	text, err := report.Splice(string(old), section.String())
	if err != nil {
		return err
	}
	return os.WriteFile(page, []byte(text), 0o644)
}

// renderCommand draws results again.
func renderCommand() *cli.Command {
	return &cli.Command{
		Name: "render", Usage: "show the results of an earlier run, without measuring", ArgsUsage: "RESULTS.json",
		Flags: outputFlags(),
		Action: func(c *cli.Context) error {
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
			return writeOutputs(c, r)
		},
	}
}
