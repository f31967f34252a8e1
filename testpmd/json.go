package testpmd

import (
	"encoding/json"
	"strings"
)

// jsonForm gives the row for a show command with the final word "json": it
// prints one object on one line, with the value of the row or the complaint
// under "error".
func (cmd *command) jsonForm() *command {
	value := cmd.json
	if value == nil {
		// It has nothing to show.
		value = func(c *Console, a args) any { cmd.run(c, a); return nil }
	}
	return &command{pattern: cmd.pattern + " json", run: func(c *Console, a args) {
		c.printJSON(func() any { return value(c, a) })
	}}
}

// jsonError is printed in the place of a value that there is not.
type jsonError struct {
	Error string `json:"error"`
}

// printJSON prints what value gives, or what it complains of when that is nil.
func (c *Console) printJSON(value func() any) {
	complaint := c.withoutComplaints(func() {
		if v := value(); v != nil {
			text, err := json.Marshal(v)
			if err != nil {
				c.errorf("%v\n", err)
				return
			}
			c.printf("%s\n", text)
		}
	})
	if complaint != "" {
		text, _ := json.Marshal(jsonError{strings.TrimSpace(complaint)})
		c.printf("%s\n", text)
	}
}

// withoutComplaints calls f and gives the complaints, which are not written.
func (c *Console) withoutComplaints(f func()) string {
	var complaints strings.Builder
	swap := func(w *strings.Builder) func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		old := c.Err
		c.Err = w
		return func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.Err = old
		}
	}
	restore := swap(&complaints)
	defer restore()
	f()
	return complaints.String()
}

// words splits a list of names; an empty one is an empty list, not null.
func words(names string) []string { return append([]string{}, strings.Fields(names)...) }
