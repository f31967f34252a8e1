package engine

import "testing"

// Samples gives samples to the tests outside of the package.
func Samples(t testing.TB) (names []string, frames [][]byte) {
	for _, s := range samples(t) {
		names, frames = append(names, s.name), append(frames, s.frame)
	}
	return names, frames
}
