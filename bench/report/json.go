package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// ErrFormat is the error about a file of another format.
var ErrFormat = errors.New("not a report of this format")

// WriteJSON writes the report as an indented JSON object.
func (r Report) WriteJSON(w io.Writer) error {
	r.Format = Format
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false)
	out.SetIndent("", "  ")
	return out.Encode(r)
}

// Read reads a report that WriteJSON has written. Keys that it does not know are
// passed over; a file of a later format is an error that wraps [ErrFormat].
func Read(r io.Reader) (Report, error) {
	var report Report
	if err := json.NewDecoder(r).Decode(&report); err != nil {
		return Report{}, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	if report.Format < 1 || report.Format > Format {
		return Report{}, fmt.Errorf("%w: format %d, this program reads up to %d: draw it with the version that measured it", ErrFormat, report.Format, Format)
	}
	return report, nil
}
