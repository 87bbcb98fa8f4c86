/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* The native core on two processors, for the simulator, which has one: before and after every compare-and-swap of a
 * packet's decision somebody else gets a turn, who may decide on other packets or change the memory as the controller
 * does. All decisions are compare-and-swaps of one word, so that whatever two processors can do to each other happens
 * between the read of a word and its swap, or between a swap and what is read after it. */
#include "../platform_native.h"

typedef void (*ws_meanwhile)(void *context, ws_u32 step);

static _Thread_local ws_meanwhile meanwhile;
static _Thread_local void *meanwhile_context;
static _Thread_local ws_u32 meanwhile_step;
/* The core without its second look, to see that somebody notices: 2 from a swap that was won to the next word read,
 * which is the holder's. */
static _Thread_local ws_u32 blind;

WS_INLINE int ws_word_cas_alone(ws_u64 *word, ws_u64 expected, ws_u64 x) { return ws_word_cas(word, expected, x); }

WS_INLINE ws_u64 ws_word_load_alone(ws_u64 *word) { return ws_word_load(word); }

WS_INLINE ws_u64 ws_word_load_watched(ws_u64 *word)
{
	ws_u64 x = ws_word_load_alone(word);

	if (blind != 2)
		return x;
	blind = 1;
	return ws_node_word_with_state(x, WS_NODE_STATE_LIVE);
}

WS_INLINE int ws_word_cas_watched(ws_u64 *word, ws_u64 expected, ws_u64 x)
{
	meanwhile(meanwhile_context, meanwhile_step++);
	int won = ws_word_cas_alone(word, expected, x);
	meanwhile(meanwhile_context, meanwhile_step++);
	if (won && blind)
		blind = 2;
	return won;
}

#define ws_word_cas ws_word_cas_watched
#define ws_word_load ws_word_load_watched

#include "../packet.h"

struct ws_verdict ws_process_meanwhile(struct ws_switch *sw, void *packet, ws_u32 length, ws_u16 from_port,
				       ws_u32 is_blind, ws_meanwhile turn, void *context);

/* As ws_process. `turn` may call ws_process, but not this again. */
struct ws_verdict ws_process_meanwhile(struct ws_switch *sw, void *packet, ws_u32 length, ws_u16 from_port,
				       ws_u32 is_blind, ws_meanwhile turn, void *context)
{
	struct ws_verdict verdict;

	meanwhile = turn;
	meanwhile_context = context;
	meanwhile_step = 0;
	blind = is_blind != 0;
	ws_decide(sw, packet, (ws_u8 *)packet + length, length, from_port, &verdict);
	return verdict;
}
