/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Tags: whose packet this is, and for whom an answer is meant. docs/security.md says against what.
 *
 *   node --- up key of the node ---> checked, decided --- down key of whoever receives it ---> node
 *
 * A handle has two slots of keys, so that keys can change while packets are under way. The header's flag KEY says which
 * slot the tag was made with, the low bit of `rotation` with which slot packets to that handle are signed.
 *
 * Invariants
 *   - A tag covers the whole packet, its own field taken as 0. Packets that are signed have whole entries behind their
 *     header: nothing of one is left out.
 *   - A packet is believed only under a key that stood there whole: `written` of its slot is even, and the same before
 *     the key was read and after the tag was found right. The controller makes it odd before it touches the key.
 *   - Nothing leaves unsigned. Who has no key gets nothing, and that is counted.
 */
#ifndef WAYSIDE_SEAL_H
#define WAYSIDE_SEAL_H

#include "session.h"

WS_INLINE void ws_sip_entry(struct ws_sip *sip, const void *entry)
{
	ws_sip_word(sip, ws_sip_load(entry, 0));
	ws_sip_word(sip, ws_sip_load(entry, 1));
	ws_sip_word(sip, ws_sip_load(entry, 2));
	ws_sip_word(sip, ws_sip_load(entry, 3));
}

/* A tag under way. */
struct ws_sip_walk {
	struct ws_sip sip;
	void *entry; /* the first, which has been taken */
	const void *end;
};

/* Takes the next entry. Not 0: there is none. */
static inline long ws_sip_next(ws_u32 index, struct ws_sip_walk *walk)
{
	void *at = ws_entry_at(walk->entry, walk->end, index + 1);

	if (!at)
		return 1;
	ws_sip_entry(&walk->sip, at);
	return 0;
}

/* Tag of a packet of `length` bytes, which are a header and whole entries (or a body as long as one).
 *
 * A function of its own: inlined, the compiler keeps its walk in registers for packets that are not signed, too. */
static __attribute__((noinline, unused)) ws_u64 ws_tag_of(const struct ws_key *key, const void *header, void *entry,
							   const void *end, ws_u32 length)
{
	struct ws_sip sip = ws_sip_begin(*key);
	ws_u32 others = length / WS_ENTRY_BYTES - 2;

	ws_sip_word(&sip, ws_sip_load(header, 0));
	ws_sip_word(&sip, ws_sip_load(header, 1));
	ws_sip_word(&sip, ws_sip_load(header, 2));
	ws_sip_word(&sip, 0); /* the tag's own place */
	/* The first entry is always there, and mostly the only one: no loop for it. */
	ws_sip_entry(&sip, entry);
	if (others) {
		struct ws_sip_walk walk = { .sip = sip, .entry = entry, .end = end };
		ws_repeat(others, ws_sip_next, &walk);
		sip = walk.sip;
	}
	return ws_sip_end(&sip, (ws_u64)length << 56);
}
_Static_assert(WS_HEADER_BYTES == 32 && WS_ENTRY_BYTES == 32, "words of a packet");

WS_INLINE struct ws_key ws_read_key(struct ws_key *key)
{
	return (struct ws_key){ { ws_word_load(&key->halves[0]), ws_word_load(&key->halves[1]) } };
}

/* Whether a slot holds a key, by its `written`. */
WS_INLINE int ws_is_whole(ws_u32 written) { return written && !(written & 1); }

/* The drop reason of a packet whose sender did not sign it, or 0 with `turn->heard` set. */
WS_INLINE ws_u8 ws_check_tag(struct ws_turn *turn)
{
	struct ws_keys *keys = ws_keys_at(turn->sw, turn->source);
	ws_u32 slot = (ws_header_flags(turn->header) & WS_HEADER_FLAG_KEY) != 0;

	if (!keys || turn->length % WS_ENTRY_BYTES)
		return WS_DROP_REASON_BAD_TAG;
	ws_u32 written = ws_half_load(&keys->written[slot]);
	if (!ws_is_whole(written))
		return WS_DROP_REASON_BAD_TAG;
	struct ws_key key = ws_read_key(&keys->of[slot].up);
	ws_u64 tag = ws_tag_of(&key, turn->header, turn->entry, turn->end, turn->length);
	if (tag != ws_header_tag(turn->header) || ws_half_load(&keys->written[slot]) != written)
		return WS_DROP_REASON_BAD_TAG;
	turn->heard = (ws_u16)(1 + slot);
	return WS_DROP_REASON_NONE;
}

/* Signs a packet for the handle that is to receive it; false if that has no key. */
WS_INLINE int ws_sign(struct ws_switch *sw, ws_u16 receiver, void *header, void *entry, const void *end, ws_u32 length)
{
	struct ws_keys *keys = ws_keys_at(sw, receiver);

	if (!keys)
		return 0;
	ws_u32 slot = ws_half_load(&keys->rotation) & 1;
	if (!ws_is_whole(ws_half_load(&keys->written[slot])))
		return 0;
	ws_u16 others = ws_header_flags(header) & (ws_u16)~WS_HEADER_FLAG_KEY;
	ws_header_set_flags(header, others | (slot ? WS_HEADER_FLAG_KEY : 0));
	struct ws_key key = ws_read_key(&keys->of[slot].down);
	ws_header_set_tag(header, ws_tag_of(&key, header, entry, end, length));
	return 1;
}

/* The action, with its packet signed for whoever is to get it. The controller shares the switch's memory: what is
 * handed to it has been checked, and crosses no network. */
WS_INLINE enum ws_action ws_seal(struct ws_turn *turn, enum ws_action action)
{
	if (action != WS_TO_SENDER && action != WS_TO_NODE)
		return action;
	ws_u16 receiver = action == WS_TO_NODE ? turn->verdict.handle : turn->source;
	if (!ws_sign(turn->sw, receiver, turn->header, turn->entry, turn->end, turn->length))
		return ws_drop(turn, WS_DROP_REASON_NO_KEY);
	return action;
}

#endif
