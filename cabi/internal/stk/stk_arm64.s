#include "funcdata.h"
#include "textflag.h"

// func Call(f func())
// Not NOSPLIT: the prologue's stack check sees to the room.
TEXT ·Call(SB), 0, $132928-8
	NO_LOCAL_POINTERS
	MOVD f+0(FP), R26
	MOVD (R26), R0
	BL (R0)
	RET
