/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* The native core with a race in it: race.h. */
#include "../platform_native.h"

static _Thread_local ws_u32 race;
static _Thread_local struct ws_switch *racing;

WS_INLINE ws_u32 ws_race(void) { return race; }
WS_INLINE void ws_race_over(void) { race = 0; }
WS_INLINE struct ws_switch *ws_race_switch(void) { return racing; }

#include "race.h"
#include "../packet.h"

struct ws_verdict ws_process_racing(struct ws_switch *sw, void *packet, ws_u32 length, ws_u16 from_port,
				    ws_u32 race_word);

struct ws_verdict ws_process_racing(struct ws_switch *sw, void *packet, ws_u32 length, ws_u16 from_port,
				    ws_u32 race_word)
{
	race = race_word;
	racing = sw;
	struct ws_verdict verdict;

	ws_decide(sw, packet, (ws_u8 *)packet + length, length, from_port, &verdict);
	return verdict;
}
