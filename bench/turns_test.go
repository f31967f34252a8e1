package bench

import (
	"slices"
	"testing"
)

// Ratios are those of neighbouring windows, and a window in which the other did
// nothing has none.
func TestRatios(t *testing.T) {
	of := []sample{{rate: 2}, {rate: 9}, {rate: 8}}
	against := []sample{{rate: 1}, {rate: 0}, {rate: 4}}
	if got := ratios(of, against, sample.packets); !slices.Equal(got, []float64{2, 2}) {
		t.Errorf("ratios %v, want 2 and 2", got)
	}
}

func TestComparison(t *testing.T) {
	against := []sample{{rate: 1e6}, {rate: 2e6}, {rate: 4e6}, {rate: 4e6}}
	of := []sample{{rate: 1e6}, {rate: 4e6}, {rate: 12e6}, {rate: 16e6}}
	if got, want := comparison(against, of), "4.00 | 12.00 | 2.00 | **3.00** | 4.00"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
