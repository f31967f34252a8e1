package bench

import "testing"

func TestQuartiles(t *testing.T) {
	q1, m, q3 := quartiles([]float64{9, 1, 5, 3, 7, 2, 8, 4, 6})
	if q1 != 3 || m != 5 || q3 != 7 {
		t.Errorf("quartiles of 1 to 9: %v %v %v", q1, m, q3)
	}
	if q1, m, q3 := quartiles(nil); q1+m+q3 != 0 {
		t.Error("quartiles of nothing are not 0")
	}
}
