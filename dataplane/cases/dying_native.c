/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* The native core in a thread that dies: after so many stores, of any kind, nothing more of its packet's decision gets
 * into the memory. For tests of what the next process finds there. */
#include "../platform_native.h"

static _Thread_local ws_u32 left;

WS_INLINE int ws_lives(void)
{
	if (!left)
		return 0;
	left--;
	return 1;
}

WS_INLINE void ws_word_store_alone(ws_u64 *word, ws_u64 x) { ws_word_store(word, x); }
WS_INLINE void ws_half_store_alone(ws_u32 *half, ws_u32 x) { ws_half_store(half, x); }
WS_INLINE ws_u64 ws_word_next_alone(ws_u64 *word) { return ws_word_next(word); }
WS_INLINE int ws_word_cas_alone(ws_u64 *word, ws_u64 expected, ws_u64 x) { return ws_word_cas(word, expected, x); }

WS_INLINE void ws_word_store_dying(ws_u64 *word, ws_u64 x)
{
	if (ws_lives())
		ws_word_store_alone(word, x);
}

WS_INLINE void ws_half_store_dying(ws_u32 *half, ws_u32 x)
{
	if (ws_lives())
		ws_half_store_alone(half, x);
}

WS_INLINE ws_u64 ws_word_next_dying(ws_u64 *word) { return ws_lives() ? ws_word_next_alone(word) : 0; }

WS_INLINE int ws_word_cas_dying(ws_u64 *word, ws_u64 expected, ws_u64 x)
{
	return ws_lives() && ws_word_cas_alone(word, expected, x);
}

#define ws_word_store ws_word_store_dying
#define ws_half_store ws_half_store_dying
#define ws_word_next ws_word_next_dying
#define ws_word_cas ws_word_cas_dying

#include "../packet.h"

struct ws_verdict ws_process_dying(struct ws_switch *sw, void *packet, ws_u32 length, ws_u16 from_port, ws_u32 stores);

/* As ws_process, but only its first `stores` stores are done. The verdict is of no use if there are more. */
struct ws_verdict ws_process_dying(struct ws_switch *sw, void *packet, ws_u32 length, ws_u16 from_port, ws_u32 stores)
{
	struct ws_verdict verdict;

	left = stores;
	ws_decide(sw, packet, (ws_u8 *)packet + length, length, from_port, &verdict);
	return verdict;
}
