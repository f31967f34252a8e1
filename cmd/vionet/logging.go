package main

import (
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/rs/zerolog"
)

// newLogger makes the program's logger. On a console a line is the bare
// message; "json" gives one object a line, with time and level.
func newLogger(w io.Writer, format string, levels []string) (*slog.Logger, error) {
	level, err := logLevel(levels)
	if err != nil {
		return nil, err
	}
	if format == "json" {
		return slog.New(zerolog.NewSlogHandler(zerolog.New(w).Level(level).With().Timestamp().Logger())), nil
	}
	bare := zerolog.ConsoleWriter{Out: w, NoColor: true, PartsOrder: []string{zerolog.MessageFieldName}}
	return slog.New(zerolog.NewSlogHandler(zerolog.New(bare).Level(level))), nil
}

// logLevels are the names and numbers that --log-level takes.
var logLevels = map[string]zerolog.Level{
	"emergency": zerolog.PanicLevel, "1": zerolog.PanicLevel,
	"alert": zerolog.FatalLevel, "2": zerolog.FatalLevel,
	"critical": zerolog.FatalLevel, "3": zerolog.FatalLevel,
	"error": zerolog.ErrorLevel, "4": zerolog.ErrorLevel,
	"warning": zerolog.WarnLevel, "5": zerolog.WarnLevel,
	"notice": zerolog.InfoLevel, "6": zerolog.InfoLevel,
	"info": zerolog.InfoLevel, "7": zerolog.InfoLevel,
	"debug": zerolog.DebugLevel, "8": zerolog.DebugLevel,
}

// logLevel gives the level of the last --log-level. A component in front of it
// ("pmd.net.virtio.*:debug") is accepted; there is one level for all.
func logLevel(options []string) (zerolog.Level, error) {
	level := zerolog.InfoLevel
	for _, o := range options {
		name := o[strings.LastIndexAny(o, ":,")+1:]
		l, ok := logLevels[name]
		if !ok {
			return 0, fmt.Errorf("log-level %s invalid - must be emergency, alert, critical, error, warning, notice, info, debug, or 1 to 8", o)
		}
		level = l
	}
	return level, nil
}
