#include "funcdata.h"
#include "textflag.h"

// func Call(f func())
// Not NOSPLIT: the prologue's stack check sees to the room. The wrapper that
// brings Go's callers here leaves the registers as Go functions want them.
TEXT ·Call(SB), 0, $132928-8
	NO_LOCAL_POINTERS
	MOVQ f+0(FP), DX
	MOVQ (DX), AX
	CALL AX
	RET
