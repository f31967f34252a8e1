package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unicode"

	"github.com/cpuguy83/go-md2man/v2/md2man"
	"github.com/urfave/cli/v2"

	"vionet/testpmd"
)

// manualPage is a page of the manual, in the language of man(7).
type manualPage struct {
	name    string // without the section
	section int
	text    string
}

// file is the name under which man looks for the page.
func (p manualPage) file() string { return fmt.Sprintf("%s.%d", p.name, p.section) }

func manCommand() *cli.Command {
	return &cli.Command{
		Name:        "man",
		Usage:       "print a page of the manual",
		UsageText:   "vionet man [COMMAND]\nvionet man --dir DIR",
		Description: "vionet man testpmd | man -l -\nThe page \"console\" has the commands of the console.",
		Flags:       []cli.Flag{&cli.StringFlag{Name: "dir", Usage: "write all pages into the directory `DIR`"}},
		Action: func(c *cli.Context) error {
			pages := manual(c.App)
			if dir := c.String("dir"); dir != "" {
				if c.Args().Present() {
					return errors.New("man: --dir writes all pages: name none")
				}
				return writePages(dir, pages)
			}
			want := strings.Join(append([]string{"vionet"}, c.Args().Slice()...), "-")
			for _, p := range pages {
				if p.name == want {
					_, err := fmt.Fprint(c.App.Writer, p.text)
					return err
				}
			}
			return fmt.Errorf("man: there is no page %s: see vionet --help for the commands", want)
		},
	}
}

func writePages(dir string, pages []manualPage) error {
	for _, p := range pages {
		if err := os.WriteFile(filepath.Join(dir, p.file()), []byte(p.text), 0o644); err != nil {
			return fmt.Errorf("man: %w", err)
		}
	}
	return nil
}

// manual is the whole manual: a page of the program, one of each command, made
// of what --help prints, and one of the console's commands.
func manual(app *cli.App) []manualPage {
	var commands []*cli.Command
	for _, c := range app.Commands {
		if !c.Hidden && c.Name != "help" {
			commands = append(commands, c)
		}
	}
	pages := []manualPage{programPage(app, commands)}
	for _, c := range commands {
		pages = append(pages, commandPage(c))
	}
	return append(pages, consolePage())
}

// consolePage is the reference of the console's commands, with the head that a
// page needs to be found in place of its title.
func consolePage() manualPage {
	const head = "% vionet-console 7 \"\" vionet vionet\n\n# NAME\n\nvionet-console - the commands of vionet testpmd\n\n# DESCRIPTION\n"
	_, reference, _ := strings.Cut(testpmd.Reference(), "\n")
	return manualPage{"vionet-console", 7, string(md2man.Render([]byte(head + reference)))}
}

func programPage(app *cli.App, commands []*cli.Command) manualPage {
	p := manualPage{name: "vionet", section: 1}
	var b strings.Builder
	begin(&b, p, app.Usage)
	b.WriteString(".SH SYNOPSIS\n.B vionet\n.I command\n[\\fIoptions\\fR]\n")
	b.WriteString(".SH COMMANDS\nEach has a page of its own, and \\-\\-help.\n")
	for _, c := range commands {
		fmt.Fprintf(&b, ".TP\n\\fB%s\\fR\n%s\n", roff(c.Name), roff(c.Usage))
	}
	b.WriteString(".SH EXIT STATUS\n0, or 1 after an error, which stands on the standard error.\n")
	b.WriteString(".SH FILES\n.TP\n.I /etc/default/vionet\\-bind\nfunctions for the service vionet\\-bind to bind at boot\n")
	b.WriteString(".SH SEE ALSO\n")
	for _, c := range commands {
		fmt.Fprintf(&b, ".BR vionet\\-%s (1),\n", roff(c.Name))
	}
	b.WriteString(".BR vionet\\-console (7)\n")
	p.text = b.String()
	return p
}

func commandPage(c *cli.Command) manualPage {
	p := manualPage{name: "vionet-" + c.Name, section: 1}
	var b strings.Builder
	begin(&b, p, c.Usage)
	fmt.Fprintf(&b, ".SH SYNOPSIS\n%s", verbatim(synopsis(c)))
	if c.Description != "" {
		fmt.Fprintf(&b, ".SH DESCRIPTION\n%s", verbatim(c.Description))
	}
	if flags := c.VisibleFlags(); len(flags) > 0 {
		b.WriteString(".SH OPTIONS\n")
		for _, f := range flags {
			names, usage, _ := strings.Cut(f.String(), "\t")
			fmt.Fprintf(&b, ".TP\n\\fB%s\\fR\n%s\n", roff(names), roff(usage))
		}
	}
	if subcommands := c.VisibleCommands(); len(subcommands) > 0 {
		b.WriteString(".SH COMMANDS\nEach has its own \\-\\-help.\n")
		for _, s := range subcommands {
			fmt.Fprintf(&b, ".TP\n\\fB%s\\fR\n%s\n", roff(strings.Join(s.Names(), ", ")), roff(s.Usage))
		}
	}
	b.WriteString(".SH SEE ALSO\n.BR vionet (1)\n")
	p.text = b.String()
	return p
}

// begin writes the head of a page and its section NAME.
func begin(b *strings.Builder, p manualPage, usage string) {
	fmt.Fprintf(b, ".TH %s %d \"\" vionet \"vionet\"\n.SH NAME\n%s \\- %s\n", strings.ToUpper(roff(p.name)), p.section, roff(p.name), roff(usage))
}

// synopsis is how the command is called, a way a line.
func synopsis(c *cli.Command) string {
	if c.UsageText != "" {
		return c.UsageText
	}
	line := "vionet " + c.Name
	if len(c.VisibleFlags()) > 0 || !c.HideHelp {
		line += " [command options]"
	}
	if c.ArgsUsage != "" {
		line += " " + c.ArgsUsage
	}
	return line
}

// verbatim keeps the lines of a help text as they are, but for those that
// announce a part of it ("Ports:"), which become headings.
func verbatim(text string) string {
	var b strings.Builder
	b.WriteString(".nf\n")
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if title, announces := strings.CutSuffix(line, ":"); announces && !strings.HasPrefix(line, " ") {
			fmt.Fprintf(&b, ".fi\n.SS %s\n.nf\n", roff(title))
			continue
		}
		b.WriteString(roff(line) + "\n")
	}
	b.WriteString(".fi\n")
	return b.String()
}

// roff escapes what means something to the formatter: a backslash anywhere, a
// dot or an apostrophe at the start of a line, and the hyphen, which would
// become one that nobody can paste into a shell. Characters beyond ASCII are
// named, since the formatter does not ask for the encoding.
func roff(text string) string {
	var b strings.Builder
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		b.WriteString(`\&`)
	}
	for _, r := range text {
		switch {
		case r == '\\':
			b.WriteString(`\e`)
		case r == '-':
			b.WriteString(`\-`)
		case r > unicode.MaxASCII:
			fmt.Fprintf(&b, `\[u%04X]`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
