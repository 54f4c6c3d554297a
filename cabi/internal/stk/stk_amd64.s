#include "textflag.h"

// func Reserve()
// Not NOSPLIT: the prologue's stack check is the purpose.
TEXT ·Reserve(SB), 0, $32768-0
	RET
