package capture

import "fmt"

// Direction is a packet's way through a port.
type Direction int

// Directions.
const (
	Rx Direction = iota // received
	Tx                  // sent
)

// String gives "rx" or "tx".
func (d Direction) String() string {
	if d == Tx {
		return "tx"
	}
	return "rx"
}

// Source is where captured packets come from: a queue, in one direction.
type Source struct {
	Dir         Direction // received or sent
	Port, Queue int       // numbers
}

// String is the name of the source's interface in a file, such as "port0-rx-q1".
func (s Source) String() string { return fmt.Sprintf("port%d-%s-q%d", s.Port, s.Dir, s.Queue) }
