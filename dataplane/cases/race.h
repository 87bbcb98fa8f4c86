/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* For tests: the platform with a moment between winning a word and looking again. After a packet's first successful
 * compare-and-swap, or what it reads before its first read barrier, something happens. Or the packet loses every race.
 * Everything else is the platform's.
 *
 * Whoever includes this has defined ws_race() -> the race word of this packet, and ws_race_over(), and
 * ws_race_switch() -> the switch as the platform's look-ups want it. The word:
 *
 *   15..0  a number: of the node that expires, where none of 18 to 21 is set
 *   16     the slot takes a join
 *   17     every race is lost: no compare-and-swap succeeds, and what happens at a barrier happens at every one
 *   18     the group of that number gets a place of the next epoch
 *   19     the item of that number is no key's any more
 *   20     the item of that number is turned to its other version
 *   21     the serving lease ends */
#ifndef WAYSIDE_RACE_H
#define WAYSIDE_RACE_H

WS_INLINE int ws_word_cas_alone(ws_u64 *word, ws_u64 expected, ws_u64 x) { return ws_word_cas(word, expected, x); }
WS_INLINE void ws_read_barrier_alone(void) { ws_read_barrier(); }

static __attribute__((noinline)) int ws_race_strike(ws_u32 race)
{
	struct ws_switch *sw = ws_race_switch();
	ws_u16 number = (ws_u16)race;

	if (!(race >> 18)) {
		struct ws_node *node = ws_node_at(sw, number);
		ws_word_store(&node->word, ws_node_word_with_state(node->word, WS_NODE_STATE_EXPIRED));
	}
	if (race >> 18 & 1) {
		struct ws_group *group = ws_group_at(sw, number);
		ws_word_store(&group->place, group->place + (1ull << 32));
	}
	struct ws_item *item = race >> 19 & 3 ? ws_item_at(sw, number) : 0;
	if (item && race >> 19 & 1)
		ws_word_store(&item->name, 0);
	if (item && race >> 20 & 1)
		ws_word_store(&item->lock, (item->lock + 2) ^ 1);
	if (race >> 21 & 1)
		ws_globals(sw)->lease = ws_store(sw)->lease = (struct ws_lease){ 1, 1 };
	return 0;
}

WS_INLINE int ws_word_cas_racing(ws_u64 *word, ws_u64 expected, ws_u64 x)
{
	ws_u32 race = ws_race();

	if (race >> 17 & 1 || !ws_word_cas_alone(word, expected, x))
		return 0;
	if (race) {
		ws_race_over();
		ws_race_strike(race);
		if (race >> 16 & 1)
			ws_word_store(word, x + (1ull << 32));
	}
	return 1;
}

WS_INLINE void ws_read_barrier_racing(void)
{
	ws_u32 race = ws_race();

	ws_read_barrier_alone();
	if (!race)
		return;
	if (!(race >> 17 & 1))
		ws_race_over();
	ws_race_strike(race);
}

#define ws_word_cas ws_word_cas_racing
#define ws_read_barrier ws_read_barrier_racing

#endif
