/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Locks of a word: the upper 16 bits name who has it (`item_lock` in wire.h), the rest is its user's. */
#ifndef WAYSIDE_TAKE_H
#define WAYSIDE_TAKE_H

/* Looks at a lock before a packet gives up. */
#define WS_LOCK_TRIES 64

/* Takes a lock. False: somebody else has it, and is slow. */
WS_INLINE int ws_take(struct ws_switch *sw, ws_u64 *lock, ws_u64 *before)
{
	for (int try = 0; try < WS_LOCK_TRIES; try++) {
		*before = ws_word_load(lock);
		if (!ws_item_lock_owner(*before) &&
		    ws_word_cas(lock, *before, ws_item_lock_with_owner(*before, ws_owner(sw))))
			return 1;
	}
	return 0;
}

#endif
