// Package testcase has a loop with one bounds check, one call and one write
// barrier, for the test that they are found.
package testcase

// Scatter puts each value at its place.
func Scatter(table, values []*int, places []int) {
	values = values[:len(places)]
	for i, at := range places {
		if at < 0 {
			note(at)
			continue
		}
		table[at] = values[i]
	}
}

// Noted is the last place that was none.
var Noted int

//go:noinline
func note(at int) { Noted = at }
