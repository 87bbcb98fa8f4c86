/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* The XDP program with a race in it: race.h. The race word lies in the globals' reserved field. The verifier walks
 * through 868,000 instructions of it, of a million at most (clang 14, Linux 6.18); of the program itself, 368,000. */
#include "../platform_bpf.h"

WS_INLINE struct ws_globals *ws_race_globals(void)
{
	return &globals;
}

WS_INLINE ws_u32 ws_race(void)
{
	struct ws_globals *found = ws_race_globals();
	return found ? (ws_u32)found->reserved : 0;
}

WS_INLINE void ws_race_over(void)
{
	struct ws_globals *found = ws_race_globals();
	if (found)
		found->reserved = 0;
}

/* Look-ups need none here. */
WS_INLINE struct ws_switch *ws_race_switch(void) { return 0; }

#include "race.h"
#include "observe.h"
#include "../wayside.bpf.c"
#include "copied.h"
