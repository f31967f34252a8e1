#include "textflag.h"

// func prefetchRead(first *[]byte, n int)
TEXT ·prefetchRead(SB), NOSPLIT, $0-16
	MOVQ  first+0(FP), AX
	MOVQ  n+8(FP), CX
	TESTQ CX, CX
	JZ    readDone

read:
	MOVQ       (AX), BX
	PREFETCHT0 (BX)
	ADDQ       $24, AX // the size of a slice
	DECQ       CX
	JNZ        read

readDone:
	RET

// func prefetchWrite(first *[]byte, n int)
TEXT ·prefetchWrite(SB), NOSPLIT, $0-16
	MOVQ  first+0(FP), AX
	MOVQ  n+8(FP), CX
	TESTQ CX, CX
	JZ    writeDone

write:
	MOVQ (AX), BX
	BYTE $0x0f; BYTE $0x0d; BYTE $0x0b             // PREFETCHW (BX), which the assembler does not know
	BYTE $0x0f; BYTE $0x0d; BYTE $0x4b; BYTE $0x40 // PREFETCHW 64(BX)
	ADDQ $24, AX
	DECQ CX
	JNZ  write

writeDone:
	RET
