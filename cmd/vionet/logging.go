package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"

	"github.com/rs/zerolog"
)

// logs is the program's logger, whose level can change while it runs. There is
// one level for all kinds of messages.
type logs struct {
	*slog.Logger
	level slog.LevelVar
}

// newLogs makes the logger. On a console a line is the bare message; "json"
// gives one object a line, with time and level.
func newLogs(w io.Writer, format string, levels []string) (*logs, error) {
	l := &logs{}
	for _, option := range levels {
		// A component in front ("pmd.net.virtio.*:debug") changes nothing.
		if err := l.set(option[strings.LastIndexAny(option, ":,")+1:]); err != nil {
			return nil, fmt.Errorf("log-level %s invalid - %w", option, err)
		}
	}
	var handler slog.Handler
	if format == "json" {
		handler = zerolog.NewSlogHandler(zerolog.New(w).With().Timestamp().Logger())
	} else {
		bare := zerolog.ConsoleWriter{Out: w, NoColor: true, PartsOrder: []string{zerolog.MessageFieldName}}
		handler = zerolog.NewSlogHandler(zerolog.New(bare))
	}
	l.Logger = slog.New(leveled{handler, &l.level})
	return l, nil
}

// logLevels are the names of the levels 1 to 8, and what they let through.
var logLevels = []struct {
	name  string
	level slog.Level
}{
	{"emergency", slog.LevelError + 3}, {"alert", slog.LevelError + 2}, {"critical", slog.LevelError + 1},
	{"error", slog.LevelError}, {"warning", slog.LevelWarn}, {"notice", slog.LevelInfo}, {"info", slog.LevelInfo},
	{"debug", slog.LevelDebug},
}

// set changes the level to that of a name or number.
func (l *logs) set(text string) error {
	for i, known := range logLevels {
		if text == known.name || text == strconv.Itoa(i+1) {
			l.level.Set(known.level)
			return nil
		}
	}
	return fmt.Errorf("must be emergency, alert, critical, error, warning, notice, info, debug, or 1 to 8")
}

// setNumbered is set for the console, which names a kind of messages, too.
func (l *logs) setNumbered(_ string, level int) error { return l.set(strconv.Itoa(level)) }

// list is what the console shows of the levels.
func (l *logs) list() []string {
	name := ""
	for _, known := range logLevels {
		if known.level == l.level.Level() {
			name = known.name
		}
	}
	return []string{"global log level is " + name}
}

// leveled is a handler with a level that can change.
type leveled struct {
	slog.Handler
	level *slog.LevelVar
}

func (h leveled) Enabled(_ context.Context, level slog.Level) bool { return level >= h.level.Level() }

func (h leveled) WithAttrs(attrs []slog.Attr) slog.Handler {
	return leveled{h.Handler.WithAttrs(attrs), h.level}
}

func (h leveled) WithGroup(name string) slog.Handler {
	return leveled{h.Handler.WithGroup(name), h.level}
}
