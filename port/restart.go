package port

// Restarter is a Port that can be brought back after its device broke or asked
// for a reset.
type Restarter interface {
	// Restart stops the port and starts it again with the same configuration,
	// filters and modes. No burst may be under way.
	Restart() error
}
