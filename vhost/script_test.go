package vhost

import (
	"encoding/binary"
	"os"
	"time"
)

// script is a fuzzer's input, read as a list of decisions. Behind its end every
// decision is 0.
type script struct{ rest []byte }

func (s *script) done() bool { return len(s.rest) == 0 }

func (s *script) bytes(n int) []byte {
	b := make([]byte, n)
	s.rest = s.rest[copy(b, s.rest):]
	return b
}

func (s *script) u8() int     { return int(s.bytes(1)[0]) }
func (s *script) u16() uint16 { return binary.LittleEndian.Uint16(s.bytes(2)) }
func (s *script) u32() uint32 { return binary.LittleEndian.Uint32(s.bytes(4)) }
func (s *script) u64() uint64 { return binary.LittleEndian.Uint64(s.bytes(8)) }

// pick is a number below n, which is at most 256.
func (s *script) pick(n int) int { return s.u8() % n }

func (s *script) flip() bool { return s.u8()&1 != 0 }

// watchdog ends the process with all its stacks when an input takes for ever.
// The fuzzer itself would wait for it.
func watchdog() (stop func()) {
	timer := time.AfterFunc(time.Minute, func() {
		panic("process " + os.Args[0] + ": this input has taken a minute")
	})
	return func() { timer.Stop() }
}
