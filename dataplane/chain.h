/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * The chain service, after NetChain: what a switch decides on a key. One function a message; docs/chain.md is the
 * contract.
 *
 *   client --WRITE, DELETE--> head --APPLY--> middle --APPLY--> tail --ANSWER--> client
 *   client ----------------------------READ-------------------> tail --ANSWER--> client
 *
 * Invariants
 *   - An item's version only rises: by epoch, then by sequence. Heads count sequences; whoever comes after a head takes
 *     what is newer than its own, and passes on whatever came, so no switch is behind the one after it (K3).
 *   - A write has one effect (K2): a lane remembers its latest request and what became of it, and moves along the chain
 *     with the item. The same request again is no write: what the item is now goes down the chain, with the old result.
 *     An older request is dropped.
 *   - A write is decided in the epoch in which it was first sent, or not at all: what a lane knows is of its switch's
 *     chain as it was then, and may be lost with it.
 *   - Nothing is written but under the item's lock, and then under the lane's; and only if, with both, the group's
 *     place is still the one that the packet was checked against. So who changes a place, and then takes every lock
 *     once, knows that nothing of before comes after.
 *   - Whatever failed is answered by the tail too, with what the head had: nobody hears of a version that is not there.
 *   - A value read is answered only if, after it was read, the group's place was the same and the serving lease ran.
 *   - A version that is taken in a group that is watched has its number in the journal before the item's lock is given
 *     back, and is told after: one key's versions have rising numbers, and what is told can be read.
 *   - A leased version is written only if its writer's session lives after the item's lock was taken. Whoever looks for
 *     leases that are over does so once the session is, and under the lock: either the writer sees the one, or he sees
 *     the other.
 *   - A head writes nothing to a key that is leaving: the switches behind it may have removed it.
 */
#ifndef WAYSIDE_CHAIN_H
#define WAYSIDE_CHAIN_H

#include "seal.h"
#include "take.h"

/* What a packet of the chain service is about. */
struct ws_link {
	void *op; /* an operation, or an effect: the same fields at the same places */
	struct ws_group *group;
	ws_u64 place; /* of the group, as the packet was checked against it */
	ws_u64 name;  /* of the key's item, as far as the packet tells it: */
	ws_u64 name_mask;
	ws_u16 owner; /* handle of the owner of the version that is told; 0: it is not leased */
};

/* An item and a lane under their locks. */
struct ws_held {
	struct ws_item *item;
	struct ws_lane *lane;
	ws_u64 item_lock; /* as it was before it was taken */
	ws_u64 lane_lock;
	struct ws_record *record; /* of the version taken; 0: nobody is to be told */
};

/* What became of a write, as its lane remembers it. */
struct ws_result {
	ws_u64 epoch;
	ws_u64 sequence;
	ws_u8 outcome;
};

_Static_assert(WS_OPERATION_BYTES == WS_EFFECT_BYTES && WS_OPERATION_BYTES == 2 * WS_ENTRY_BYTES, "two units");
_Static_assert(WS_OPERATION_KEY_LOW_AT == WS_EFFECT_KEY_LOW_AT && WS_OPERATION_REQUEST_AT == WS_EFFECT_REQUEST_AT &&
		       WS_OPERATION_GROUP_AT == WS_EFFECT_GROUP_AT && WS_OPERATION_CLIENT_AT == WS_EFFECT_CLIENT_AT &&
		       WS_OPERATION_REPLY_PORT_AT == WS_EFFECT_REPLY_PORT_AT &&
		       WS_OPERATION_LENGTH_AT == WS_EFFECT_LENGTH_AT && WS_OPERATION_LANE_AT == WS_EFFECT_LANE_AT &&
		       WS_OPERATION_FLAGS_AT == WS_EFFECT_FLAGS_AT,
	       "an operation becomes its effect in place");
_Static_assert(WS_WATCH_BYTES == WS_OPERATION_BYTES && WS_WATCH_REQUEST_AT == WS_OPERATION_REQUEST_AT &&
		       WS_WATCH_GROUP_AT == WS_OPERATION_GROUP_AT && WS_WATCH_CLIENT_AT == WS_OPERATION_CLIENT_AT &&
		       WS_WATCH_REPLY_PORT_AT == WS_OPERATION_REPLY_PORT_AT &&
		       WS_WATCH_LENGTH_AT == WS_OPERATION_LENGTH_AT,
	       "a watch is checked, and refused, as an operation");

WS_INLINE int ws_is_head(ws_u64 place) { return !ws_group_place_previous(place); }
WS_INLINE int ws_is_tail(ws_u64 place) { return !ws_group_place_next(place); }

/* A block of a packet's value; 0 where it would end behind the packet. */
WS_INLINE void *ws_block_at(struct ws_turn *turn, ws_u32 block)
{
	return ws_entry_at(turn->entry, turn->end, WS_OPERATION_BYTES / WS_ENTRY_BYTES + block);
}

/* The first blocks of a packet's value become a version's. */
WS_INLINE void ws_copy_in(struct ws_turn *turn, ws_u64 *value, ws_u32 blocks)
{
	for (ws_u32 block = 0; block < WS_MAX_VALUE_BYTES / WS_BLOCK_BYTES; block++) {
		const ws_u8 *from = ws_block_at(turn, block);
		if (block >= blocks || !from)
			break;
		for (ws_u32 word = 0; word < WS_BLOCK_BYTES / 8; word++)
			ws_word_store(&value[block * (WS_BLOCK_BYTES / 8) + word], ws_load64(from + word * 8));
	}
}

/* A version's value becomes the packet's. */
WS_INLINE void ws_copy_out(struct ws_turn *turn, ws_u64 *value, ws_u32 blocks)
{
	for (ws_u32 block = 0; block < WS_MAX_VALUE_BYTES / WS_BLOCK_BYTES; block++) {
		ws_u8 *to = ws_block_at(turn, block);
		if (block >= blocks || !to)
			break;
		for (ws_u32 word = 0; word < WS_BLOCK_BYTES / 8; word++)
			ws_store64(to + word * 8, ws_word_load(&value[block * (WS_BLOCK_BYTES / 8) + word]));
	}
}

WS_INLINE struct ws_version ws_load_version(struct ws_item *item, ws_u32 which)
{
	return (struct ws_version){ ws_word_load(&item->versions[which].sequence),
				    ws_word_load(&item->versions[which].shape),
				    ws_word_load(&item->versions[which].owner) };
}

/* Another name of the same key is another key: who asks for it is told that it is missing, and by the daemon why. */
WS_INLINE int ws_is_key(struct ws_item *item, const struct ws_link *link)
{
	return ws_word_load(&item->key_high) == ws_operation_key_high(link->op) &&
	       ws_word_load(&item->key_low) == ws_operation_key_low(link->op) &&
	       (ws_word_load(&item->name) & link->name_mask) == link->name;
}

/* The item of a packet's key, or 0. It may be another key's by the time that it is used. */
WS_INLINE struct ws_item *ws_find_item(struct ws_turn *turn, const struct ws_link *link)
{
	struct ws_store *store = ws_store(turn->sw);
	ws_u64 hash = ws_key_hash(store->seed, ws_operation_key_high(link->op), ws_operation_key_low(link->op),
				  ws_operation_group(link->op));

	for (ws_u32 choice = 0; choice < 2; choice++) {
		ws_u32 at = choice ? ws_second_bucket(hash) : ws_first_bucket(hash);
		struct ws_bucket *bucket = ws_bucket_at(turn->sw, at & store->bucket_mask);
		for (ws_u32 i = 0; bucket && i < WS_BUCKET_PLACES; i++) {
			ws_u64 place = ws_word_load(&bucket->places[i]);
			if (!(ws_u32)place || place >> 32 != hash >> 32)
				continue;
			struct ws_item *item = ws_item_at(turn->sw, (ws_u32)place);
			if (item && ws_is_key(item, link))
				return item;
		}
	}
	return 0;
}

/* Gives both locks back; the item's with what it is to be now. The item's first: whoever dies in between leaves a lane
 * that remembers what did happen. Then the version is told, by a compare-and-swap: all that was written is seen with
 * it. */
WS_INLINE void ws_give_back(struct ws_held *held)
{
	ws_word_store(&held->item->lock, held->item_lock);
	ws_word_store(&held->lane->lock, held->lane_lock);
	if (held->record) {
		ws_u64 own = ws_word_load(&held->record->lock);
		ws_word_cas(&held->record->lock, own, own & WS_RECORD_NUMBER);
	}
}

enum ws_taking {
	WS_TAKEN,
	WS_BUSY_LOCK,  /* somebody else has one, and is slow */
	WS_GONE,       /* the item is another key's by now */
	WS_RELOCATED,  /* the group's place is another one by now */
};

/* Takes an item's lock, then a lane's, and looks again at what may have changed before. */
WS_INLINE enum ws_taking ws_take_both(struct ws_turn *turn, struct ws_link *link, struct ws_held *held)
{
	if (!ws_take(turn->sw, &held->item->lock, &held->item_lock))
		return WS_BUSY_LOCK;
	if (!ws_take(turn->sw, &held->lane->lock, &held->lane_lock)) {
		ws_word_store(&held->item->lock, held->item_lock);
		return WS_BUSY_LOCK;
	}
	enum ws_taking taking = !ws_is_key(held->item, link)			   ? WS_GONE
				: ws_word_load(&link->group->place) != link->place ? WS_RELOCATED
										   : WS_TAKEN;
	if (taking != WS_TAKEN)
		ws_give_back(held);
	return taking;
}

/* The version that the item has. */
WS_INLINE ws_u32 ws_which(ws_u64 item_lock) { return (ws_u32)ws_item_lock_which(item_lock); }

/* Takes the record of the next number. 0: somebody slow has it, or who drew a later number: it is counted, and whoever
 * reads the journal begins anew. */
WS_INLINE struct ws_record *ws_take_record(struct ws_switch *sw)
{
	ws_u64 number = ws_word_next(&ws_store(sw)->drawn) & WS_RECORD_NUMBER;
	struct ws_record *record = ws_record_at(sw, number);

	if (!record)
		return 0;
	ws_u64 last = ws_word_load(&record->lock);
	if (!ws_item_lock_owner(last) && last < number &&
	    ws_word_cas(&record->lock, last, ws_item_lock_with_owner(number, ws_owner(sw))))
		return record;
	ws_word_add(&ws_store(sw)->torn, 1);
	return 0;
}

/* Notes in the journal what the item has taken: its other version, which is to count. No function of its own: three
 * frames, one in the other, have no room on the stack that kernels before 6.8 count (tests/stack.rs). */
WS_INLINE void ws_note(struct ws_record *record, struct ws_item *item, ws_u32 which)
{
	ws_word_store(&record->key_high, ws_word_load(&item->key_high));
	ws_word_store(&record->key_low, ws_word_load(&item->key_low));
	ws_word_store(&record->name, ws_word_load(&item->name));
	ws_word_store(&record->before_sequence, ws_word_load(&item->versions[!which].sequence));
	ws_word_store(&record->before_shape, ws_word_load(&item->versions[!which].shape));
	ws_word_store(&record->sequence, ws_word_load(&item->versions[which].sequence));
	ws_word_store(&record->shape, ws_word_load(&item->versions[which].shape));
	for (ws_u32 word = 0; word < WS_VALUE_WORDS; word++)
		ws_word_store(&record->value[word], ws_word_load(&item->values[which][word]));
}

/* Writes the packet's value as a new version, which counts from when the lock is given back. */
WS_INLINE void ws_write_version(struct ws_turn *turn, struct ws_link *link, struct ws_held *held,
				struct ws_version version)
{
	ws_u32 other = !ws_which(held->item_lock);

	ws_copy_in(turn, held->item->values[other], ws_blocks(ws_version_length(version)));
	ws_word_store(&held->item->versions[other].sequence, version.sequence);
	ws_word_store(&held->item->versions[other].shape, version.shape);
	ws_word_store(&held->item->versions[other].owner, version.owner);
	held->record = ws_half_load(&link->group->watched) ? ws_take_record(turn->sw) : 0;
	if (held->record)
		ws_note(held->record, held->item, other);
	held->item_lock = ws_item_lock_with_changes(held->item_lock, ws_item_lock_changes(held->item_lock) + 1);
	held->item_lock = ws_item_lock_with_which(held->item_lock, other);
}

/* The lane's lock says meanwhile whose result this is. Should we die here, the item's other version counts if, and only
 * if, the lane has come to remember that very request. */
WS_INLINE void ws_remember(struct ws_turn *turn, struct ws_held *held, ws_u64 request, struct ws_result result)
{
	struct ws_lane *lane = held->lane;

	ws_word_store(&lane->lock, ws_item_lock_with_owner(request, ws_owner(turn->sw)));
	ws_word_store(&lane->own_sequence, result.sequence);
	ws_half_store(&lane->own_epoch, (ws_u32)result.epoch);
	ws_half_store(&lane->outcome, result.outcome);
	ws_word_store(&lane->request, request);
}

/* Whether a request came after the one that its lane remembers: ids of a client rise, and none is 0. */
WS_INLINE int ws_is_later(ws_u64 request, ws_u64 remembered)
{
	return request && (!remembered || request - remembered - 1 < 1ull << 63);
}

/* Ends the packet behind so many blocks. */
WS_INLINE void ws_end_after(struct ws_turn *turn, ws_u32 blocks)
{
	ws_header_set_count(turn->header, (ws_u8)blocks);
	turn->length = WS_HEADER_BYTES + WS_OPERATION_BYTES + blocks * WS_BLOCK_BYTES;
}

/* The packet tells of a version; its header does once it is made. */
WS_INLINE void ws_show_version(struct ws_link *link, struct ws_version version)
{
	void *effect = link->op;

	ws_effect_set_sequence(effect, version.sequence);
	ws_effect_set_epoch(effect, (ws_u32)ws_version_epoch(version));
	ws_effect_set_length(effect, (ws_u16)ws_version_length(version));
	ws_effect_set_flags(effect, ws_version_flags(version));
	ws_effect_set_owner(effect, (ws_u32)ws_lease_owner_incarnation(version.owner));
	link->owner = (ws_u16)ws_lease_owner_handle(version.owner);
}

WS_INLINE void ws_show_result(void *effect, struct ws_result result)
{
	ws_effect_set_own_sequence(effect, result.sequence);
	ws_effect_set_own_epoch(effect, (ws_u32)result.epoch);
	ws_effect_set_outcome(effect, result.outcome);
}

/* This switch's handle among the others. */
WS_INLINE ws_u16 ws_own_handle(struct ws_switch *sw) { return (ws_u16)ws_half_load(&ws_store(sw)->handle); }

/* ANSWER to the client, with so many blocks of value. From the chain, and not from the client itself: to its thread. */
WS_INLINE enum ws_action ws_answer_client(struct ws_turn *turn, struct ws_link *link, ws_u32 blocks)
{
	ws_u16 client = ws_effect_client(link->op);

	ws_answer_with(turn, WS_CHAIN_ANSWER, 0, client);
	ws_header_set_position(turn->header, link->owner);
	/* A switch that asks for itself hears who answers. */
	if (ws_node_at(turn->sw, client)->namespace == WS_FELLOWS)
		ws_header_set_source(turn->header, ws_own_handle(turn->sw));
	ws_end_after(turn, blocks);
	if (turn->source == client)
		return ws_to_sender(turn);
	if (!ws_node_lives(turn->sw, client))
		return ws_drop(turn, WS_DROP_REASON_DESTINATION_NOT_LIVE);
	return ws_to_node(turn, client, ws_effect_reply_port(link->op));
}

/* An answer without a version: not here, or not now. */
WS_INLINE enum ws_action ws_refuse_client(struct ws_turn *turn, struct ws_link *link, ws_u8 outcome, ws_u32 length)
{
	ws_show_version(link, ws_version_of(0, 0, length, 0));
	ws_show_result(link->op, (struct ws_result){ .outcome = outcome });
	return ws_answer_client(turn, link, 0);
}

/* From any switch of the chain: the head has the key, and a daemon was lost on its way. */
WS_INLINE enum ws_action ws_tell_missing(struct ws_turn *turn, struct ws_link *link)
{
	ws_count(turn->sw, WS_COUNTER_missing);
	return ws_refuse_client(turn, link, WS_OUTCOME_MISSING, 0);
}

/* The value is longer than the packet has blocks for it. */
WS_INLINE enum ws_action ws_tell_no_room(struct ws_turn *turn, struct ws_link *link, struct ws_version version)
{
	ws_count(turn->sw, WS_COUNTER_no_room);
	return ws_refuse_client(turn, link, WS_OUTCOME_NO_ROOM, ws_version_length(version));
}

/* The serving lease is over: another switch may serve, and this one may again. */
WS_INLINE enum ws_action ws_tell_later(struct ws_turn *turn, struct ws_link *link)
{
	ws_count(turn->sw, WS_COUNTER_recovering);
	return ws_refuse_client(turn, link, WS_OUTCOME_RECOVERING, 0);
}

/* The sender knows another chain than this switch does. */
WS_INLINE enum ws_action ws_tell_moved(struct ws_turn *turn, struct ws_link *link)
{
	ws_count(turn->sw, WS_COUNTER_moved);
	ws_header_set_epoch(turn->header, (ws_u32)ws_group_place_epoch(link->place));
	return ws_refuse_client(turn, link, WS_OUTCOME_MOVED, 0);
}

/* The packet has the item's version, and the value if it fits. False: it does not. */
WS_INLINE int ws_show_item(struct ws_turn *turn, struct ws_item *item, ws_u32 which, struct ws_version version)
{
	ws_u32 blocks = ws_blocks(ws_version_length(version));

	if (blocks > ws_header_count(turn->header))
		return 0;
	ws_copy_out(turn, item->values[which], blocks);
	return 1;
}

/* On to the next switch of the chain, or to the client if this is the tail. The packet has the version's value. */
WS_INLINE enum ws_action ws_pass_on(struct ws_turn *turn, struct ws_link *link, struct ws_version version,
				    struct ws_result result)
{
	ws_u32 blocks = ws_blocks(ws_version_length(version));
	ws_u16 next = (ws_u16)ws_group_place_next(link->place);

	ws_show_version(link, version);
	ws_show_result(link->op, result);
	if (!next) /* Who wrote knows what. */
		return ws_answer_client(turn, link, result.outcome == WS_OUTCOME_DONE ? 0 : blocks);
	ws_answer_with(turn, WS_CHAIN_APPLY, 0, next);
	ws_header_set_position(turn->header, link->owner);
	ws_header_set_source(turn->header, ws_own_handle(turn->sw));
	ws_end_after(turn, blocks);
	if (!ws_node_lives(turn->sw, next))
		return ws_drop(turn, WS_DROP_REASON_DESTINATION_NOT_LIVE);
	return ws_to_node(turn, next, 0);
}

/* Whether a write's condition holds of the item as it is. */
WS_INLINE int ws_condition_holds(const void *op, struct ws_item *item, ws_u32 which, struct ws_version version)
{
	int present = ws_version_flags(version) & WS_VALUE_FLAG_PRESENT;
	ws_u64 expected = ws_operation_expected(op);

	switch (ws_operation_condition(op)) {
	case WS_CONDITION_NONE:
		return 1;
	case WS_CONDITION_VERSION:
		return present && version.sequence == expected &&
		       ws_version_epoch(version) == ws_operation_expected_epoch(op);
	case WS_CONDITION_ABSENT:
		return !present;
	case WS_CONDITION_WORD: {
		ws_u32 length = ws_version_length(version);
		ws_u64 word = length ? ws_word_load(&item->values[which][0]) : 0;
		/* What lies behind a short value is not of it. */
		if (length < 8)
			word = length ? word >> (64 - 8 * length) << (64 - 8 * length) : 0;
		return word == expected;
	}
	default:
		return 0;
	}
}

/* What becomes of a write that the head has not seen before. `*version` is the item's, before and after. */
WS_INLINE struct ws_result ws_decide_write(struct ws_turn *turn, struct ws_link *link, struct ws_held *held,
					   struct ws_version *version)
{
	ws_u64 epoch = ws_group_place_epoch(link->place);
	int deletes = ws_header_kind(turn->header) == WS_CHAIN_DELETE;

	if (!ws_condition_holds(link->op, held->item, ws_which(held->item_lock), *version)) {
		ws_count(turn->sw, WS_COUNTER_unmet);
		return (struct ws_result){ ws_version_epoch(*version), version->sequence, WS_OUTCOME_UNMET };
	}
	ws_u16 leased = ws_operation_flags(link->op) & WS_VALUE_FLAG_LEASED;
	*version = ws_version_of(epoch, ws_word_next(&link->group->sequence),
				 deletes ? 0 : ws_operation_length(link->op), deletes ? 0 : WS_VALUE_FLAG_PRESENT | leased);
	if (leased && !deletes)
		version->owner = ws_owner_of_lease(turn->source, (ws_u32)ws_node_at(turn->sw, turn->source)->incarnation);
	ws_write_version(turn, link, held, *version);
	ws_count(turn->sw, WS_COUNTER_written);
	return (struct ws_result){ epoch, version->sequence, WS_OUTCOME_DONE };
}

/* WRITE, DELETE: at the head. */
WS_INLINE enum ws_action ws_on_write(struct ws_turn *turn, struct ws_link *link)
{
	ws_u64 request = ws_operation_request(link->op);
	ws_u32 lane = ws_operation_lane(link->op);
	struct ws_held held = { .item = ws_find_item(turn, link) };

	if (!held.item)
		return ws_tell_missing(turn, link);
	held.lane = ws_lane_at(turn->sw, turn->source * WS_MAX_LANES + lane);
	if (lane >= WS_MAX_LANES || !held.lane)
		return ws_drop(turn, WS_DROP_REASON_BAD_LANE);
	switch (ws_take_both(turn, link, &held)) {
	case WS_TAKEN:
		break;
	case WS_GONE:
		return ws_tell_missing(turn, link);
	default: /* Sent again, it finds things settled. */
		return ws_drop(turn, WS_DROP_REASON_LOST_RACE);
	}
	struct ws_version version = ws_load_version(held.item, ws_which(held.item_lock));
	if (ws_version_flags(version) & WS_VALUE_FLAG_LEAVING) {
		ws_give_back(&held);
		return ws_tell_missing(turn, link);
	}
	if (ws_operation_flags(link->op) & WS_VALUE_FLAG_LEASED && !ws_node_lives(turn->sw, turn->source)) {
		ws_give_back(&held);
		return ws_drop(turn, WS_DROP_REASON_SOURCE_NOT_LIVE);
	}
	ws_u64 remembered = ws_word_load(&held.lane->request);
	struct ws_result result;
	int repeated = request && request == remembered;

	if (!repeated && !ws_is_later(request, remembered)) {
		ws_give_back(&held);
		return ws_drop(turn, WS_DROP_REASON_STALE_REQUEST);
	}
	if (repeated) {
		ws_count(turn->sw, WS_COUNTER_repeated);
		result = (struct ws_result){ ws_half_load(&held.lane->own_epoch),
					     ws_word_load(&held.lane->own_sequence),
					     (ws_u8)ws_half_load(&held.lane->outcome) };
	} else {
		result = ws_decide_write(turn, link, &held, &version);
	}
	/* What this packet did not write, it must carry all the same: it may be what the next switch lacks. */
	int shown = (!repeated && result.outcome == WS_OUTCOME_DONE) ||
		    ws_show_item(turn, held.item, ws_which(held.item_lock), version);
	if (shown && !repeated)
		ws_remember(turn, &held, request, result);
	ws_give_back(&held);
	if (!shown)
		return ws_tell_no_room(turn, link, version);
	return ws_pass_on(turn, link, version, result);
}

/* APPLY: at whoever comes after the head. */
WS_INLINE enum ws_action ws_on_apply(struct ws_turn *turn, struct ws_link *link)
{
	ws_u64 request = ws_effect_request(link->op);
	ws_u32 lane = ws_effect_lane(link->op);
	struct ws_version version = ws_version_of(ws_effect_epoch(link->op), ws_effect_sequence(link->op),
						  ws_effect_length(link->op), ws_effect_flags(link->op));
	if (ws_version_flags(version) & WS_VALUE_FLAG_LEASED)
		version.owner = ws_owner_of_lease(ws_header_position(turn->header), ws_effect_owner(link->op));
	struct ws_result result = { ws_effect_own_epoch(link->op), ws_effect_own_sequence(link->op),
				    ws_effect_outcome(link->op) };
	struct ws_held held = { .item = ws_find_item(turn, link) };

	if (!held.item)
		return ws_tell_missing(turn, link);
	held.lane = ws_lane_at(turn->sw, ws_effect_client(link->op) * WS_MAX_LANES + lane);
	if (lane >= WS_MAX_LANES || !held.lane)
		return ws_drop(turn, WS_DROP_REASON_BAD_LANE);
	switch (ws_take_both(turn, link, &held)) {
	case WS_TAKEN:
		break;
	case WS_GONE:
		return ws_tell_missing(turn, link);
	default:
		return ws_drop(turn, WS_DROP_REASON_LOST_RACE);
	}
	if (ws_is_newer(version, ws_load_version(held.item, ws_which(held.item_lock)))) {
		ws_write_version(turn, link, &held, version);
		ws_count(turn->sw, WS_COUNTER_applied);
	} else {
		ws_count(turn->sw, WS_COUNTER_overtaken);
	}
	if (ws_is_later(request, ws_word_load(&held.lane->request)))
		ws_remember(turn, &held, request, result);
	ws_give_back(&held);
	return ws_pass_on(turn, link, version, result);
}

/* Reads an item into the packet, all of it at one time. The outcome; or -1: it changed again and again. */
WS_INLINE int ws_read_item(struct ws_turn *turn, struct ws_link *link, struct ws_item *item,
			   struct ws_version *version)
{
	for (int try = 0; try < WS_MAX_TRIES; try++) {
		ws_u64 lock = ws_word_load(&item->lock);
		if (!ws_is_key(item, link))
			return WS_OUTCOME_MISSING;
		*version = ws_load_version(item, ws_which(lock));
		int shown = ws_show_item(turn, item, ws_which(lock), *version);
		ws_read_barrier();
		/* A writer that is at work on the other version does no harm. */
		if (ws_item_lock_with_owner(ws_word_load(&item->lock), 0) == ws_item_lock_with_owner(lock, 0))
			return shown ? WS_OUTCOME_DONE : WS_OUTCOME_NO_ROOM;
	}
	return -1;
}

/* READ: at the tail. That there is no such key is an answer as any other. */
WS_INLINE enum ws_action ws_on_read(struct ws_turn *turn, struct ws_link *link)
{
	struct ws_item *item = ws_find_item(turn, link);
	struct ws_version version = { 0 };
	int outcome = item ? ws_read_item(turn, link, item, &version) : WS_OUTCOME_MISSING;

	if (outcome == WS_OUTCOME_MISSING) /* The others have passed one. */
		ws_read_barrier();
	if (outcome < 0 || ws_word_load(&link->group->place) != link->place)
		return ws_drop(turn, WS_DROP_REASON_LOST_RACE);
	if (!ws_lease_runs(turn->sw, &ws_store(turn->sw)->lease))
		return ws_tell_later(turn, link);
	if (outcome == WS_OUTCOME_MISSING)
		return ws_tell_missing(turn, link);
	if (outcome == WS_OUTCOME_NO_ROOM)
		return ws_tell_no_room(turn, link, version);
	ws_count(turn->sw, WS_COUNTER_read);
	ws_show_version(link, version);
	ws_show_result(link->op, (struct ws_result){ ws_version_epoch(version), version.sequence, WS_OUTCOME_DONE });
	return ws_answer_client(turn, link, ws_blocks(ws_version_length(version)));
}

/* What comes from the switch before this one. */
WS_INLINE enum ws_action ws_on_predecessor(struct ws_turn *turn, struct ws_link *link)
{
	if (ws_is_head(link->place) || turn->source != ws_group_place_previous(link->place) ||
	    !ws_node_lives(turn->sw, turn->source))
		return ws_drop(turn, WS_DROP_REASON_WRONG_PLACE);
	if (ws_group_place_epoch(link->place) != ws_header_epoch(turn->header))
		return ws_drop(turn, WS_DROP_REASON_STALE_EPOCH);
	if (!ws_lease_runs(turn->sw, &ws_store(turn->sw)->lease))
		return ws_drop(turn, WS_DROP_REASON_NOT_SERVING);
	if (ws_header_kind(turn->header) == WS_CHAIN_INSTALL)
		return ws_to_controller(turn);
	return ws_on_apply(turn, link);
}

/* What a client asks. */
WS_INLINE enum ws_action ws_on_client(struct ws_turn *turn, struct ws_link *link)
{
	ws_u8 kind = ws_header_kind(turn->header);

	if (ws_operation_client(link->op) != turn->source)
		return ws_drop(turn, WS_DROP_REASON_FOREIGN_HOLDER);
	ws_operation_set_reply_port(link->op, turn->from_port);
	ws_u64 epoch = ws_group_place_epoch(link->place);
	if (!epoch || epoch != ws_header_epoch(turn->header))
		return ws_tell_moved(turn, link);
	int of_tail = kind == WS_CHAIN_READ || kind == WS_CHAIN_WATCH;
	if (of_tail ? !ws_is_tail(link->place) : !ws_is_head(link->place))
		return ws_drop(turn, WS_DROP_REASON_WRONG_PLACE);
	if (!ws_lease_runs(turn->sw, &ws_store(turn->sw)->lease))
		return ws_tell_later(turn, link);
	switch (kind) {
	case WS_CHAIN_READ:
		return ws_on_read(turn, link);
	case WS_CHAIN_INSERT:
	case WS_CHAIN_WATCH:
		return ws_to_controller(turn);
	default:
		if (ws_operation_first_epoch(link->op) && ws_operation_first_epoch(link->op) != epoch)
			return ws_refuse_client(turn, link, WS_OUTCOME_UNSURE, 0);
		return ws_on_write(turn, link);
	}
}

/* Whether a packet's value or name is longer than its blocks, or than may be: only those of INSERT and WATCH may be
 * more than a value's. */
WS_INLINE int ws_is_long(struct ws_turn *turn, ws_u8 kind)
{
	ws_u32 length = ws_operation_length(turn->entry);

	if (kind == WS_CHAIN_INSERT || kind == WS_CHAIN_INSTALL || kind == WS_CHAIN_WATCH)
		return length > (ws_u32)ws_header_count(turn->header) * WS_BLOCK_BYTES ||
		       (!length && kind != WS_CHAIN_WATCH);
	if (ws_header_count(turn->header) > WS_MAX_VALUE_BYTES / WS_BLOCK_BYTES)
		return 1;
	return kind != WS_CHAIN_READ && (length > WS_MAX_VALUE_BYTES || ws_blocks(length) > ws_header_count(turn->header));
}

/* What switches and controllers have to say to each other is for the daemon, and from nobody else: their handles are
 * those of a namespace that no client has. */
WS_INLINE enum ws_action ws_on_fellow(struct ws_turn *turn)
{
	ws_u8 reason = ws_check_source(turn, WS_FELLOWS);

	return reason ? ws_drop(turn, reason) : ws_to_controller(turn);
}

/* A tail answers the switch that has ended a lease. */
WS_INLINE int ws_is_fellows(ws_u8 kind)
{
	return (kind >= WS_CHAIN_PLACE && kind <= WS_CHAIN_COPY) || kind == WS_CHAIN_REMOVE || kind == WS_CHAIN_REMOVED ||
	       kind == WS_CHAIN_ANSWER;
}

/* A function of its own, as ws_tag_of is: inlined, it would cost the packets of other services their registers. */
static __attribute__((noinline)) enum ws_action ws_chain(struct ws_turn *turn)
{
	ws_u8 kind = ws_header_kind(turn->header);
	struct ws_link link = { .op = turn->entry };

	if ((const ws_u8 *)turn->entry + WS_OPERATION_BYTES > (const ws_u8 *)turn->end)
		return ws_drop(turn, WS_DROP_REASON_BAD_LENGTH);
	if (kind == WS_CHAIN_ROUTES || kind == WS_CHAIN_EVENT) /* The daemon's. */
		return ws_drop(turn, WS_DROP_REASON_UNKNOWN_KIND);
	if (ws_is_fellows(kind))
		return ws_on_fellow(turn);
	int from_switch = kind == WS_CHAIN_APPLY || kind == WS_CHAIN_INSTALL;
	ws_u8 reason = from_switch ? 0 : ws_check_source(turn, ws_header_namespace(turn->header));
	if (reason)
		return ws_drop(turn, reason);
	if (kind == WS_CHAIN_MAP)
		return ws_to_controller(turn);
	if (ws_is_long(turn, kind))
		return ws_drop(turn, WS_DROP_REASON_BAD_VALUE);
	link.group = ws_group_at(turn->sw, ws_operation_group(link.op));
	link.place = ws_word_load(&link.group->place);
	link.name = ws_item_name(ws_operation_group(link.op), from_switch ? 0 : ws_operation_check(link.op));
	link.name_mask = from_switch ? WS_ITEM_GROUP : ~0ull;
	if (ws_half_load(&link.group->namespace) != ws_header_namespace(turn->header))
		return ws_drop(turn, WS_DROP_REASON_UNKNOWN_GROUP);
	return from_switch ? ws_on_predecessor(turn, &link) : ws_on_client(turn, &link);
}

#endif
