package main

import (
	"bytes"
	"encoding/json"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestVersionTellsTheSource(t *testing.T) {
	stamped := func(modified string) *debug.BuildInfo {
		return &debug.BuildInfo{
			GoVersion: "go1.26.8",
			Main:      debug.Module{Path: "vionet", Version: "v0.1.0"},
			Settings: []debug.BuildSetting{
				{Key: "CGO_ENABLED", Value: "0"}, {Key: "GOARCH", Value: "arm64"}, {Key: "GOOS", Value: "linux"},
				{Key: "vcs", Value: "git"}, {Key: "vcs.revision", Value: "c0ffee"},
				{Key: "vcs.time", Value: "2026-11-30T12:00:00Z"}, {Key: "vcs.modified", Value: modified},
			},
		}
	}
	plain := &debug.BuildInfo{
		GoVersion: "go1.26.8",
		Main:      debug.Module{Path: "vionet", Version: "(devel)"},
		Settings:  []debug.BuildSetting{{Key: "GOARCH", Value: "amd64"}, {Key: "GOOS", Value: "linux"}},
	}
	for _, tt := range []struct {
		info *debug.BuildInfo
		want string
	}{
		{stamped("false"), "vionet v0.1.0\nrevision c0ffee of 2026-11-30T12:00:00Z\ngo1.26.8 linux/arm64\n"},
		{stamped("true"), "vionet v0.1.0\nrevision c0ffee of 2026-11-30T12:00:00Z, with changes\ngo1.26.8 linux/arm64\n"},
		{plain, "vionet (devel)\nrevision unknown\ngo1.26.8 linux/amd64\n"},
	} {
		var out bytes.Buffer
		if err := readBuild(tt.info).write(&out, false); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tt.want, out.String()); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	}
}

// The names in the JSON are what scripts rely on; the values are this binary's.
func TestVersionAsJSON(t *testing.T) {
	out, err := runCommand(versionCommand(), "--json")
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"version", "revision", "time", "modified", "go", "os", "arch"} {
		if _, ok := got[name]; !ok {
			t.Errorf("no %q in %s", name, out)
		}
	}
	if len(got) != 7 {
		t.Errorf("%d names in %s", len(got), out)
	}
	if got["os"] != runtime.GOOS || got["arch"] != runtime.GOARCH || got["go"] != runtime.Version() {
		t.Errorf("another toolchain or machine than %s %s/%s: %s", runtime.Version(), runtime.GOOS, runtime.GOARCH, out)
	}
}

func TestVersionTakesNoArguments(t *testing.T) {
	if _, err := runCommand(versionCommand(), "please"); err == nil || !strings.Contains(err.Error(), "no arguments") {
		t.Errorf("%v", err)
	}
}
