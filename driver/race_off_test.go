//go:build !race

package driver_test

// raceEnabled shortens the long runs where each access is watched.
const raceEnabled = false
