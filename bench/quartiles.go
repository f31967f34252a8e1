package bench

import "slices"

// quartiles gives the first quartile, the median and the third of v.
func quartiles(v []float64) (q1, median, q3 float64) {
	if len(v) == 0 {
		return 0, 0, 0
	}
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/4], v[len(v)/2], v[3*len(v)/4]
}

func medianOf(v []float64) float64 {
	_, m, _ := quartiles(v)
	return m
}
