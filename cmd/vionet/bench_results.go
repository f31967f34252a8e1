package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/urfave/cli/v2"

	"vionet/bench/report"
	"vionet/bench/report/picture"
)

// resultFlags say where results go.
func resultFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "text", Usage: "write the results as text to `FILE` (default: standard output)"},
		&cli.StringFlag{Name: "json", Usage: "write the results as JSON to `FILE`"},
		&cli.StringFlag{Name: "markdown", Usage: "write the results as Markdown to `FILE`, pictures beside it"},
		&cli.StringFlag{Name: "docs", Usage: "put the results into BENCHMARKS.md of `DIR` between its marks, pictures below bench/"},
	}
}

// writeResults writes a report wherever the command line wants it. What can't be
// written somewhere is written elsewhere all the same: it took long to measure.
func writeResults(c *cli.Context, r report.Report) error {
	var errs []error
	text := c.String("text")
	if text == "" {
		errs = append(errs, r.WriteText(c.App.Writer))
	}
	for _, file := range []struct {
		path  string
		write func(path string) error
	}{
		{text, func(path string) error { return writeFile(path, r.WriteText) }},
		{c.String("json"), func(path string) error { return writeFile(path, r.WriteJSON) }},
		{c.String("markdown"), func(path string) error { return writeMarkdown(path, r) }},
		{c.String("docs"), func(dir string) error { return writeDocs(dir, r) }},
	} {
		if file.path != "" {
			errs = append(errs, file.write(file.path))
		}
	}
	return errors.Join(errs...)
}

// writeFile writes a file, and makes the directories that lead to it.
func writeFile(path string, write func(io.Writer) error) error {
	var b bytes.Buffer
	if err := write(&b); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, b.Bytes(), 0o644)
}

// picturesOf draws a report into a directory, and gives the pictures' addresses for a
// page beside that directory.
func picturesOf(dir string, r report.Report) (map[string]string, error) {
	names, err := picture.WriteAll(dir, r)
	for table, name := range names {
		names[table] = filepath.ToSlash(filepath.Join(filepath.Base(dir), name))
	}
	return names, err
}

// writeMarkdown writes a page, with its pictures in a directory of the page's name.
func writeMarkdown(path string, r report.Report) error {
	pictures, err := picturesOf(strings.TrimSuffix(path, filepath.Ext(path)), r)
	if err != nil {
		return err
	}
	return writeFile(path, func(w io.Writer) error { return r.WriteMarkdown(w, pictures) })
}

// writeDocs replaces the figures in BENCHMARKS.md of a directory, and the pictures
// below it.
func writeDocs(dir string, r report.Report) error {
	page := filepath.Join(dir, "BENCHMARKS.md")
	before, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	pictures, err := picturesOf(filepath.Join(dir, "bench"), r)
	if err != nil {
		return err
	}
	var section bytes.Buffer
	if err := r.WriteMarkdown(&section, pictures); err != nil {
		return err
	}
	after, err := report.Splice(string(before), section.String())
	if err != nil {
		return fmt.Errorf("%s: %w", page, err)
	}
	return os.WriteFile(page, []byte(after), 0o644)
}

// buildCommit is the commit that the program was built from, "" if it does not know.
func buildCommit() string {
	info, _ := debug.ReadBuildInfo()
	var commit, changed string
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			commit = s.Value[:min(12, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			changed = " with changes"
		}
	}
	if commit == "" {
		return ""
	}
	return commit + changed
}

// commandLine is the command that made a report, without the program's directory.
func commandLine(c *cli.Context) string {
	words := []string{c.Command.HelpName}
	for _, name := range c.LocalFlagNames() {
		words = append(words, fmt.Sprintf("--%s=%v", name, c.Value(name)))
	}
	return strings.Join(words, " ")
}
