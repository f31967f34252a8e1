package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime/debug"

	"github.com/urfave/cli/v2"
)

// build says what the program was built from. Its JSON names are stable.
type build struct {
	Version  string `json:"version"`  // of the module; "(devel)" when the build knew none
	Revision string `json:"revision"` // of the source; "" when unknown, as the next two
	Time     string `json:"time"`     // of that revision, RFC 3339
	Modified bool   `json:"modified"` // the source had changes on top of it
	Go       string `json:"go"`
	OS       string `json:"os"`
	Arch     string `json:"arch"`
}

func versionCommand() *cli.Command {
	return &cli.Command{
		Name:        "version",
		Usage:       "say which version this is and what it was built from",
		Description: "The revision is known when the go command found one where it built the program.",
		Flags:       []cli.Flag{&cli.BoolFlag{Name: "json", Usage: "write it as JSON"}},
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return errors.New("version: it takes no arguments")
			}
			info, ok := debug.ReadBuildInfo()
			if !ok {
				return errors.New("version: the program carries no build information: build it with the go command, in module mode")
			}
			return readBuild(info).write(c.App.Writer, c.Bool("json"))
		},
	}
}

// readBuild picks out of the build information what a bug report needs.
func readBuild(info *debug.BuildInfo) build {
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	return build{
		Version:  info.Main.Version,
		Revision: settings["vcs.revision"],
		Time:     settings["vcs.time"],
		Modified: settings["vcs.modified"] == "true",
		Go:       info.GoVersion,
		OS:       settings["GOOS"],
		Arch:     settings["GOARCH"],
	}
}

func (b build) write(w io.Writer, asJSON bool) error {
	if asJSON {
		out := json.NewEncoder(w)
		out.SetIndent("", "  ")
		return out.Encode(b)
	}
	_, err := fmt.Fprintf(w, "vionet %s\n%s\n%s %s/%s\n", b.Version, b.source(), b.Go, b.OS, b.Arch)
	return err
}

// source is the line about the source.
func (b build) source() string {
	switch {
	case b.Revision == "":
		return "revision unknown"
	case b.Modified:
		return fmt.Sprintf("revision %s of %s, with changes", b.Revision, b.Time)
	}
	return fmt.Sprintf("revision %s of %s", b.Revision, b.Time)
}
