package testpmd

import (
	"math"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// collectorSlack is the memory in bytes that the console may use up, while packets are
// forwarded, before garbage is collected.
const collectorSlack = 64 << 20

// collector keeps the garbage collector off as long as somebody holds it.
var collector struct {
	sync.Mutex
	holders int
	percent int // as it was before
	limit   int64
}

// holdCollector keeps the garbage collector from running until release is called, for
// the time in which packets are forwarded. Forwarding makes no garbage, but Go
// collects every two minutes even so, and each time stops all cores. The console does
// make some: a limit of memory has it collected when it is worth it. Whoever
// sets GOGC or GOMEMLIMIT in the environment decides, and nothing is held.
func holdCollector() (release func()) {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return func() {}
	}
	c := &collector
	c.Lock()
	defer c.Unlock()
	if c.holders++; c.holders == 1 {
		c.limit = debug.SetMemoryLimit(int64(memoryInUse() + collectorSlack))
		c.percent = debug.SetGCPercent(-1)
	}
	return sync.OnceFunc(func() {
		c.Lock()
		defer c.Unlock()
		if c.holders--; c.holders == 0 {
			debug.SetGCPercent(c.percent)
			debug.SetMemoryLimit(c.limit)
		}
	})
}

// memoryInUse is what a limit of memory is compared with, in bytes.
func memoryInUse() uint64 {
	m := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(m)
	if m[0].Value.Kind() != metrics.KindUint64 || m[1].Value.Kind() != metrics.KindUint64 {
		return math.MaxInt64 - collectorSlack // a runtime that does not say: no limit
	}
	return m[0].Value.Uint64() - m[1].Value.Uint64()
}
