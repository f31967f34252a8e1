package capture

import "time"

// Clock gives the times of packets: the time of day when it was made, and what has
// gone by since on the monotonic clock. Whoever sets the machine's clock meanwhile
// makes no packet come before an earlier one.
type Clock struct{ begin time.Time }

// NewClock makes a clock that is right now.
func NewClock() Clock { return Clock{time.Now()} }

// Now is the time of a packet that passes at this moment. Any goroutine may call it.
func (c Clock) Now() time.Time { return c.begin.Add(time.Since(c.begin)) }
