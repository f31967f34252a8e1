package lab

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
)

// stationTimeout is how long a station lives, unless Config.Timeout says
// otherwise.
const stationTimeout = 3 * time.Minute

// Station boots a guest whose one function belongs to Linux's own driver, and
// that is a station with the address prefix on an IPv4 network: see Command
// station, which runs in it. It is a Boot that returns when the station is up.
// The configuration's NICs and Arguments count, and what the fields beside them
// leave open is made small.
func Station(t testing.TB, prefix string, cfg Config) *Guest {
	t.Helper()
	binary, err := Build(t.Context(), t.TempDir(), "./scripts/lab/station")
	if err != nil {
		t.Fatal(err)
	}
	cfg.Program = []string{"/bin/station", prefix}
	cfg.Files = map[string]string{"/bin/station": binary}
	cfg.Driver, cfg.Modules, cfg.NoIOMMU = "none", VirtioModules, true
	if cfg.Memory == 0 {
		cfg.Memory = 256
	}
	if cfg.Hugepages == 0 {
		cfg.Hugepages = -1
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = stationTimeout
	}
	g := Boot(t, cfg)
	if err := g.StationIsUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	return g
}

// StationIsUp waits until a station that boots, or boots again, is up.
func (g *Guest) StationIsUp(ctx context.Context) error {
	_, err := g.Expect(ctx, "station is up\n")
	return err
}

// Ask gives a station a command and returns its answer without "ok".
func (g *Guest) Ask(ctx context.Context, format string, args ...any) (string, error) {
	command := fmt.Sprintf(format, args...)
	if err := g.Send(command); err != nil {
		return "", err
	}
	for {
		line, err := g.Expect(ctx, "\n")
		if err != nil {
			return "", fmt.Errorf("after %q: %w", command, err)
		}
		if answer, ok := strings.CutPrefix(line, "ok"); ok {
			return strings.TrimSpace(answer), nil
		}
		if reason, failed := strings.CutPrefix(line, "failed "); failed {
			return "", fmt.Errorf("%s: %s", command, strings.TrimSpace(reason))
		}
	}
}
