package report

import "slices"

// Quartiles are where the middle half of several measurements lies.
type Quartiles struct {
	Q1     float64 `json:"q1"`
	Median float64 `json:"median"`
	Q3     float64 `json:"q3"`
}

// QuartilesOf gives the quartiles of v, which it leaves as it is; zeros for none.
func QuartilesOf(v []float64) Quartiles {
	if len(v) == 0 {
		return Quartiles{}
	}
	v = slices.Sorted(slices.Values(v))
	return Quartiles{v[len(v)/4], v[len(v)/2], v[3*len(v)/4]}
}
