/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* For tests: the platform with a moment between winning a slot and looking again. After a packet's first successful
 * compare-and-swap a node expires, and if asked for the slot takes a join meanwhile. Or the packet loses every race.
 * Everything else is the platform's.
 *
 * Whoever includes this has defined ws_race() -> the race word of this packet, and ws_race_over(), and
 * ws_race_node(handle). The word: 15..0 the node that expires, 16 the slot takes a join, 17 every race is lost. */
#ifndef WAYSIDE_RACE_H
#define WAYSIDE_RACE_H

WS_INLINE int ws_word_cas_alone(ws_u64 *word, ws_u64 expected, ws_u64 x) { return ws_word_cas(word, expected, x); }

WS_INLINE int ws_word_cas_racing(ws_u64 *word, ws_u64 expected, ws_u64 x)
{
	ws_u32 race = ws_race();

	if (race >> 17 || !ws_word_cas_alone(word, expected, x))
		return 0;
	if (race) {
		struct ws_node *node = ws_race_node((ws_u16)race);
		ws_race_over();
		if (node)
			ws_word_store(&node->word, ws_node_word_with_state(node->word, WS_NODE_STATE_EXPIRED));
		if (race >> 16)
			ws_word_store(word, x + (1ull << 32));
	}
	return 1;
}

#define ws_word_cas ws_word_cas_racing

#endif
