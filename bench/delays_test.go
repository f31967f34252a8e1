package bench

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// upTo are the durations from 1 to n, in disorder.
func upTo(n int) []time.Duration {
	all := make([]time.Duration, n)
	for i, place := range rand.Perm(n) {
		all[place] = time.Duration(i + 1)
	}
	return all
}

func TestSummarise(t *testing.T) {
	for _, c := range []struct {
		n    int
		want delays
	}{
		{0, delays{}},
		{1, delays{least: 1, middle: 1, average: 1, late: 1, most: 1}},
		{1000, delays{least: 1, middle: 501, average: 500, late: 999, most: 1000}},
		{1001, delays{least: 1, middle: 501, average: 501, late: 1000, most: 1001}},
		{5000, delays{least: 1, middle: 2501, average: 2500, late: 4995, most: 5000}},
	} {
		if diff := cmp.Diff(c.want, summarise(upTo(c.n)), cmp.AllowUnexported(delays{})); diff != "" {
			t.Errorf("%d frames (-want +got):\n%s", c.n, diff)
		}
	}
}

func TestOverall(t *testing.T) {
	windows := []delays{
		{least: 5, middle: 7, average: 10, late: 30, most: 90, lost: 1},
		{least: 4, middle: 9, average: 30, late: 50, most: 70},
		{least: 6, middle: 8, average: 20, late: 40, most: 80, lost: 2},
	}
	want := delays{least: 4, middle: 8, average: 20, late: 40, most: 90, lost: 3}
	if diff := cmp.Diff(want, overall(windows), cmp.AllowUnexported(delays{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
