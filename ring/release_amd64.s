//go:build !race

#include "textflag.h"

// Every store of an amd64 is a release. What matters here is that the compiler
// moves nothing over the call.

// func ReleaseStore32(addr *uint32, v uint32)
TEXT ·ReleaseStore32(SB), NOSPLIT, $0-12
	MOVQ addr+0(FP), AX
	MOVL v+8(FP), BX
	MOVL BX, (AX)
	RET

// func ReleaseStore64(addr *uint64, v uint64)
TEXT ·ReleaseStore64(SB), NOSPLIT, $0-16
	MOVQ addr+0(FP), AX
	MOVQ v+8(FP), BX
	MOVQ BX, (AX)
	RET
