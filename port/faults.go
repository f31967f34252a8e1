package port

// Faulter is a port that tells, to anybody at any time, which of its queues have
// stopped for good. All ports of this module do.
type Faulter interface {
	// Faults gives what RxQueue.Err and TxQueue.Err say of the queues that there
	// are now, by their numbers; both lists are empty on a stopped port. Any
	// goroutine may call it, also while packets move and while the port is
	// started, stopped or closed.
	Faults() (rx, tx []error)
}

// FaultsOf is what queues say.
func FaultsOf[Q interface{ Err() error }](queues []Q) (errs []error) {
	for _, q := range queues {
		errs = append(errs, q.Err())
	}
	return errs
}
