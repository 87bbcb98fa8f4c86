/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Lock fission: what the switch decides on a slot. One function a message; docs/protocol.md is the contract.
 *
 *   w0   63 62   61          60       59      44 43      32 31                    0
 *       | state | transferred | tryable | agent    | joins    | tenure              |
 *   w1   63                          44 43                                        0
 *       | tenure, low 20 bits          | name hash                                  |
 *
 *                    ACQUIRE exclusive (agent = holder)
 *          .------------------------------------------------------.
 *          |         ACQUIRE shared         ACQUIRE exclusive      v
 *       UNHELD ---------------------> OPEN -----------------> MANAGED
 *        ^  ^                         |  ^ join: joins + 1     |  ^
 *        |  |   RETENURE free         |  |  RETENURE reopen    |  |  RETENURE renew, CLAIM (joins kept)
 *        |  '--------- tenure + 1 ----'  '---- tenure + 1 -----+  '---- tenure + 1
 *        '------------ tenure + 1 -----------------------------'
 *       RETENURE transfer: OPEN or MANAGED under another agent, tenure + 1.     FROZEN: by the controller alone.
 *       FREE is RETENURE free, of several slots.
 *
 * Invariants
 *   - w0 changes by one compare-and-swap against the w0 that was decided on. Lost 8 times: dropped, nothing changed.
 *   - tenure never falls. It rises by 1 with every RETENURE and every undo, and stays otherwise.
 *   - OPEN never returns within a tenure: an agent that was told MANAGED may rely on it until it moves on itself.
 *   - joins = ordinals granted in this tenure, each exactly once (a claim keeps the count of the tenure before).
 *   - agent is 0 exactly if UNHELD or FROZEN, and only the agent moves a slot on (source, tenure, joins).
 *   - w1 is a hint, written after w0 is won. It counts only if its tenure matches w0's, and only a BUSY hangs on it.
 *   - A slot at the highest tenure can move no more: it counts as FROZEN, and asking for it tells the controller.
 */
#ifndef WAYSIDE_FISSION_H
#define WAYSIDE_FISSION_H

#include "seal.h"

/* The 44 bits by which w1 remembers a name. */
WS_INLINE ws_u64 ws_name_hash(ws_u64 name) { return ws_mix(name) >> 20; }

WS_INLINE ws_u64 ws_slot_word(ws_u64 state, ws_u64 transferred, ws_u64 tryable, ws_u64 agent, ws_u64 joins,
			      ws_u64 tenure)
{
	return state << 62 | transferred << 61 | tryable << 60 | agent << 44 | joins << 32 | tenure;
}

WS_INLINE ws_u64 ws_hint_word(ws_u64 tenure, ws_u64 name_hash)
{
	return ws_slot_w1_with_name_hash(ws_slot_w1_with_tenure(0, tenure), name_hash);
}

/* What w1 is to be while a slot of this tenure is of the entry's name alone. */
WS_INLINE ws_u64 ws_hint_of(const void *entry, ws_u64 tenure)
{
	return ws_hint_word(tenure, ws_name_hash(ws_entry_name(entry)));
}

/* Whether every hold of the slot, as w0 shows it, is of the entry's name. */
WS_INLINE int ws_only_name(struct ws_slot *slot, ws_u64 w0, const void *entry)
{
	return ws_slot_w0_tryable(w0) && ws_word_load(&slot->w1) == ws_hint_of(entry, ws_slot_w0_tenure(w0));
}

/* The slot as an entry carries it. */
WS_INLINE void ws_show_slot(void *entry, ws_u64 w0)
{
	ws_entry_set_tenure(entry, (ws_u32)w0);
	ws_entry_set_slot_bits(entry, (ws_u16)(w0 >> 48 & 0xf000) | (ws_u16)ws_slot_w0_joins(w0));
}

/* Flags that a sender may set in a request; the others are the switch's. */
WS_INLINE ws_u8 ws_wish(void *entry)
{
	return ws_entry_flags(entry) & (WS_ENTRY_FLAG_EXCLUSIVE | WS_ENTRY_FLAG_TRY);
}

/* An answer about the first entry goes to its holder: back the way the packet came if the holder itself sent it. */
WS_INLINE enum ws_action ws_answer_holder(struct ws_turn *turn, ws_u8 kind, ws_u16 flags)
{
	ws_u16 holder = ws_entry_holder(turn->entry);

	ws_answer_with(turn, kind, flags, holder);
	return turn->direct ? ws_to_sender(turn) : ws_to_node(turn, holder, ws_entry_reply_port(turn->entry));
}

/* Not now: the switch or this slot is being recovered. */
WS_INLINE enum ws_action ws_tell_recovering(struct ws_turn *turn)
{
	ws_u8 kind = ws_header_kind(turn->header);

	ws_count(turn->sw, WS_COUNTER_recovering);
	if (kind != WS_LOCK_RETENURE && kind != WS_LOCK_FREE)
		return ws_answer_holder(turn, WS_LOCK_RECOVERING, 0);
	ws_answer_with(turn, WS_LOCK_RECOVERING, 0, turn->source);
	return ws_to_sender(turn);
}

/* A try is refused, or (RETRY) a request hopped too often. `holder` becomes the agent, for people. */
WS_INLINE enum ws_action ws_tell_busy(struct ws_turn *turn, ws_u64 w0, ws_u16 flags)
{
	ws_count(turn->sw, WS_COUNTER_busy);
	enum ws_action action = ws_answer_holder(turn, WS_LOCK_BUSY, flags);
	ws_entry_set_holder(turn->entry, (ws_u16)ws_slot_w0_agent(w0));
	return action;
}

/* Nobody else can settle this slot: the packet becomes a GAP about it. */
WS_INLINE enum ws_action ws_tell_controller(struct ws_turn *turn, ws_u64 w0)
{
	ws_count(turn->sw, WS_COUNTER_gap);
	ws_answer_with(turn, WS_LOCK_GAP, 0, WS_CONTROLLER_HANDLE);
	ws_header_set_count(turn->header, 1);
	turn->length = WS_HEADER_BYTES + WS_ENTRY_BYTES;
	ws_show_slot(turn->entry, w0);
	ws_entry_set_holder(turn->entry, (ws_u16)ws_slot_w0_agent(w0));
	return ws_to_controller(turn);
}

/* Whether a request may be sent on to the slot's agent. Asked before the request changes the slot: one that is dropped
 * must have changed nothing. */
WS_INLINE int ws_can_forward(struct ws_turn *turn, ws_u64 w0)
{
	return ws_header_position(turn->header) < WS_MAX_HOPS && ws_node_lives(turn->sw, (ws_u16)ws_slot_w0_agent(w0));
}

/* A request that may not: it hopped too often, or the agent has expired and its slots are about to be swept. */
WS_INLINE enum ws_action ws_refuse_forward(struct ws_turn *turn, ws_u64 w0)
{
	if (ws_header_position(turn->header) >= WS_MAX_HOPS)
		return ws_tell_busy(turn, w0, WS_HEADER_FLAG_RETRY);
	return ws_drop(turn, WS_DROP_REASON_DESTINATION_NOT_LIVE);
}

/* Sends a request on to the slot's agent. */
WS_INLINE enum ws_action ws_forward(struct ws_turn *turn, ws_u64 w0)
{
	ws_u16 agent = (ws_u16)ws_slot_w0_agent(w0);

	ws_count(turn->sw, WS_COUNTER_forwarded);
	ws_header_set_destination(turn->header, agent);
	return ws_to_node(turn, agent, 0);
}

WS_INLINE int ws_is_frozen(ws_u64 w0) { return ws_slot_w0_state(w0) == WS_SLOT_STATE_FROZEN; }
WS_INLINE int ws_is_exhausted(ws_u64 w0) { return ws_slot_w0_tenure(w0) == WS_MAX_TENURE; }

enum ws_seizure {
	WS_SEIZED,
	WS_RACED,  /* w0 was another one by then; nothing changed */
	WS_UNDONE, /* won for a node that had just expired: UNHELD again */
	WS_STUCK,  /* that, but the slot moved on meanwhile: only a census can tell */
};

/* UNHELD to held by the entry's holder, if the slot still is `w0`. `*won` is the slot after it. */
WS_INLINE enum ws_seizure ws_seize(struct ws_turn *turn, struct ws_slot *slot, void *entry, ws_u64 w0, ws_u64 *won)
{
	ws_u64 tenure = ws_slot_w0_tenure(w0);
	ws_u8 wish = ws_wish(entry);
	ws_u64 state = wish & WS_ENTRY_FLAG_EXCLUSIVE ? WS_SLOT_STATE_MANAGED : WS_SLOT_STATE_OPEN;

	*won = ws_slot_word(state, 0, 1, ws_entry_holder(entry), 0, tenure);
	if (!ws_word_cas(&slot->w0, w0, *won))
		return WS_RACED;
	if (!ws_is_live(ws_word_load(&turn->holder->word))) {
		ws_u64 undone = ws_slot_word(WS_SLOT_STATE_UNHELD, 0, 0, 0, 0, tenure + 1);
		return ws_word_cas(&slot->w0, *won, undone) ? WS_UNDONE : WS_STUCK;
	}
	ws_word_store(&slot->w1, ws_hint_of(entry, tenure));
	ws_show_slot(entry, *won);
	ws_entry_set_flags(entry, wish | WS_ENTRY_FLAG_AGENCY);
	ws_entry_set_sequence(entry, 0);
	ws_count(turn->sw, WS_COUNTER_granted);
	return WS_SEIZED;
}

/* A shared grant on an OPEN slot, already counted in `w0`: a GRANT to the holder, a JOIN to the agent. Where the holder
 * has just expired the agent alone hears of the ordinal, which would be a gap otherwise. */
WS_INLINE enum ws_action ws_grant_join(struct ws_turn *turn, ws_u64 w0)
{
	ws_u16 agent = (ws_u16)ws_slot_w0_agent(w0);
	ws_u16 holder = ws_entry_holder(turn->entry);
	ws_u8 flags = ws_wish(turn->entry) | WS_ENTRY_FLAG_JOINED;

	ws_count(turn->sw, WS_COUNTER_joined);
	ws_show_slot(turn->entry, w0);
	ws_entry_set_sequence(turn->entry, 0);
	if (!ws_is_live(ws_word_load(&turn->holder->word))) {
		ws_answer_with(turn, WS_LOCK_JOIN, 0, agent);
		ws_header_set_source(turn->header, holder);
		ws_entry_set_flags(turn->entry, flags | WS_ENTRY_FLAG_DEAD);
		return ws_to_node(turn, agent, 0);
	}
	ws_entry_set_flags(turn->entry, flags);
	enum ws_action action = ws_answer_holder(turn, WS_LOCK_GRANT, 0);
	ws_header_set_source(turn->header, agent);
	ws_count(turn->sw, WS_COUNTER_copied);
	turn->verdict.copy = agent;
	return action;
}

/* Turns a copy of a GRANT by join into the JOIN for its agent. */
WS_INLINE void ws_make_join(void *header)
{
	ws_u16 agent = ws_header_source(header);

	ws_header_set_kind(header, WS_LOCK_JOIN);
	ws_header_set_source(header, ws_header_destination(header));
	ws_header_set_destination(header, agent);
}

/* ACQUIRE of one name. */
WS_INLINE enum ws_action ws_on_acquire(struct ws_turn *turn)
{
	struct ws_slot *slot = turn->slot;
	ws_u8 wish = ws_wish(turn->entry);
	int exclusive = wish & WS_ENTRY_FLAG_EXCLUSIVE;

	ws_entry_set_flags(turn->entry, wish);
	for (int try = 0; try < WS_MAX_TRIES; try++) {
		ws_u64 w0 = ws_word_load(&slot->w0);
		ws_u64 won;

		if (ws_is_frozen(w0))
			return ws_tell_recovering(turn);
		if (ws_is_exhausted(w0))
			return ws_tell_controller(turn, w0);
		if (ws_slot_w0_state(w0) == WS_SLOT_STATE_UNHELD) {
			switch (ws_seize(turn, slot, turn->entry, w0, &won)) {
			case WS_SEIZED:
				return ws_answer_holder(turn, WS_LOCK_GRANT, 0);
			case WS_UNDONE:
				return ws_drop(turn, WS_DROP_REASON_NOT_GRANTED);
			case WS_STUCK:
				return ws_tell_controller(turn, won);
			case WS_RACED:
				continue;
			}
		}
		int open = ws_slot_w0_state(w0) == WS_SLOT_STATE_OPEN;
		int only_name = ws_only_name(slot, w0, turn->entry);
		if (open && !exclusive && ws_slot_w0_joins(w0) < WS_MAX_JOINS) {
			won = ws_slot_w0_with_joins(w0, ws_slot_w0_joins(w0) + 1);
			won = ws_slot_w0_with_tryable(won, only_name);
			if (ws_word_cas(&slot->w0, w0, won))
				return ws_grant_join(turn, won);
			continue;
		}
		if (wish & WS_ENTRY_FLAG_TRY && only_name && !(open && !exclusive))
			return ws_tell_busy(turn, w0, 0);
		if (!ws_can_forward(turn, w0))
			return ws_refuse_forward(turn, w0);
		/* Readers first: the slot stays OPEN, and its agent closes it when it wants to. */
		if (open && exclusive && turn->region->policy != WS_POLICY_READ_PREFERRING) {
			won = ws_slot_w0_with_state(w0, WS_SLOT_STATE_MANAGED);
			if (!ws_word_cas(&slot->w0, w0, won))
				continue;
			ws_count(turn->sw, WS_COUNTER_closed);
			w0 = won;
		}
		ws_show_slot(turn->entry, w0);
		return ws_forward(turn, w0);
	}
	return ws_drop(turn, WS_DROP_REASON_LOST_RACE);
}

/* ACQUIRE of several names by one holder: in order, up to the first that is not simply UNHELD. One GRANT goes back;
 * entries without AGENCY were not decided, and the client asks for them singly. Every entry has been checked. */
WS_INLINE enum ws_action ws_on_acquire_batch(struct ws_turn *turn, ws_u8 count)
{
	int deciding = 1;

	for (ws_u32 i = 0; i < WS_MAX_ENTRIES; i++) {
		void *entry = ws_entry_at(turn->entry, turn->end, i);
		if (i >= count || !entry)
			break;
		ws_entry_set_flags(entry, ws_wish(entry));
		struct ws_slot *slot = ws_slot_at(turn->sw, turn->region->base + ws_entry_slot(entry));
		if (!slot || !deciding)
			continue;
		ws_u64 w0 = ws_word_load(&slot->w0);
		ws_u64 won;
		if (ws_slot_w0_state(w0) != WS_SLOT_STATE_UNHELD || ws_is_exhausted(w0)) {
			deciding = 0;
			continue;
		}
		switch (ws_seize(turn, slot, entry, w0, &won)) {
		case WS_SEIZED:
			break;
		case WS_RACED: /* Somebody wants it too: like a held one. */
			deciding = 0;
			break;
		case WS_UNDONE: /* What was granted before was won while the node lived: the sweep finds it. */
			return ws_drop(turn, WS_DROP_REASON_NOT_GRANTED);
		case WS_STUCK:
			ws_entry_set_name(turn->entry, ws_entry_name(entry));
			ws_entry_set_request(turn->entry, ws_entry_request(entry));
			ws_entry_set_slot(turn->entry, ws_entry_slot(entry));
			return ws_tell_controller(turn, won);
		}
	}
	return ws_answer_holder(turn, WS_LOCK_GRANT, 0);
}

/* RELEASE, CANCEL, DOWNGRADE: the agent keeps the books, and of an UNHELD slot there is nothing left to give back. */
WS_INLINE enum ws_action ws_on_release(struct ws_turn *turn)
{
	ws_u64 w0 = ws_word_load(&turn->slot->w0);

	if (ws_is_frozen(w0))
		return ws_tell_recovering(turn);
	if (ws_is_exhausted(w0))
		return ws_tell_controller(turn, w0);
	if (ws_slot_w0_state(w0) == WS_SLOT_STATE_UNHELD) {
		ws_count(turn->sw, WS_COUNTER_released);
		return ws_answer_holder(turn, WS_LOCK_RELEASED, 0);
	}
	if (!ws_can_forward(turn, w0))
		return ws_refuse_forward(turn, w0);
	/* RELEASE and DOWNGRADE speak of their own grant's tenure and ordinal; a CANCEL knows none. */
	if (ws_header_kind(turn->header) == WS_LOCK_CANCEL)
		ws_show_slot(turn->entry, w0);
	return ws_forward(turn, w0);
}

/* The answer to a RETENURE: its outcome, and the slot as it is, in one entry. */
WS_INLINE enum ws_action ws_tell_retenured(struct ws_turn *turn, ws_u64 w0, ws_u16 flags)
{
	ws_answer_with(turn, WS_LOCK_RETENURED, flags, turn->source);
	ws_header_set_count(turn->header, 1);
	turn->length = WS_HEADER_BYTES + WS_ENTRY_BYTES;
	ws_show_slot(turn->entry, w0);
	ws_entry_set_holder(turn->entry, (ws_u16)ws_slot_w0_agent(w0));
	return ws_to_sender(turn);
}

/* The slot has a new agent: its GRANT, from the old one, with the waiters that came along. A node that expired between
 * check and change is the controller's to clean up; the old agent's retransmissions remind it. */
WS_INLINE enum ws_action ws_grant_transfer(struct ws_turn *turn, ws_u64 w0)
{
	ws_u16 agent = (ws_u16)ws_slot_w0_agent(w0);
	ws_u16 waiters = ws_header_position(turn->header);

	if (!ws_node_lives(turn->sw, agent))
		return ws_tell_controller(turn, w0);
	ws_answer_with(turn, WS_LOCK_GRANT, 0, agent);
	ws_header_set_source(turn->header, turn->source);
	ws_header_set_position(turn->header, waiters);
	ws_show_slot(turn->entry, w0);
	ws_entry_set_flags(turn->entry, ws_wish(turn->entry) | WS_ENTRY_FLAG_AGENCY);
	ws_entry_set_sequence(turn->entry, 0);
	return ws_to_node(turn, agent, ws_entry_reply_port(turn->entry));
}

/* CLAIM by the named agent that never heard of its agency: the joins stay, as their ordinals are what it must learn. */
WS_INLINE ws_u64 ws_claimed(ws_u64 w0)
{
	return ws_slot_word(WS_SLOT_STATE_MANAGED, 1, 0, ws_slot_w0_agent(w0), ws_slot_w0_joins(w0),
			    ws_slot_w0_tenure(w0) + 1);
}

/* What the first entry of a RETENURE asks for. */
struct ws_change {
	ws_u64 tenure; /* the condition */
	ws_u64 joins;
	ws_u64 state; /* the slot after it */
	ws_u64 tryable;
	ws_u16 agent;
	ws_u16 is_claim;
};

WS_INLINE struct ws_change ws_read_change(struct ws_turn *turn)
{
	ws_u16 bits = ws_entry_slot_bits(turn->entry);

	return (struct ws_change){
		.tenure = ws_entry_tenure(turn->entry),
		.joins = ws_slot_bits_joins(bits),
		.state = ws_slot_bits_state(bits),
		.tryable = ws_slot_bits_tryable(bits),
		.agent = ws_entry_holder(turn->entry),
		.is_claim = (ws_header_flags(turn->header) & WS_HEADER_FLAG_CLAIM) != 0,
	};
}

/* Whether a change can be asked for: to UNHELD (agent 0 or the source), or to OPEN or MANAGED under some agent. */
WS_INLINE int ws_is_possible(const struct ws_change *change, ws_u16 source)
{
	if (change->is_claim)
		return 1;
	if (change->state == WS_SLOT_STATE_UNHELD)
		return change->agent == WS_CONTROLLER_HANDLE || change->agent == source;
	return change->state != WS_SLOT_STATE_FROZEN && change->agent != WS_CONTROLLER_HANDLE;
}

/* The slot after a change that applies. */
WS_INLINE ws_u64 ws_changed(const struct ws_change *change, ws_u64 w0, ws_u16 source)
{
	if (change->is_claim)
		return ws_claimed(w0);
	if (change->state == WS_SLOT_STATE_UNHELD)
		return ws_slot_word(WS_SLOT_STATE_UNHELD, 0, 0, 0, 0, change->tenure + 1);
	return ws_slot_word(change->state, change->agent != source, change->tryable, change->agent, 0,
			    change->tenure + 1);
}

/* A RETENURE whose condition does not hold: its own result may be why (the answer was lost, or this is a copy). */
WS_INLINE enum ws_action ws_retenure_over(struct ws_turn *turn, const struct ws_change *change, ws_u64 w0)
{
	int own_result = ws_slot_w0_tenure(w0) == change->tenure + 1 && ws_slot_w0_transferred(w0) &&
			 ws_slot_w0_state(w0) != WS_SLOT_STATE_UNHELD;

	if (own_result && change->is_claim && ws_slot_w0_agent(w0) == turn->source) {
		ws_count(turn->sw, WS_COUNTER_claim_repeated);
		return ws_tell_retenured(turn, w0, WS_HEADER_FLAG_APPLIED);
	}
	if (own_result && !change->is_claim && change->agent != turn->source && ws_slot_w0_agent(w0) == change->agent) {
		ws_count(turn->sw, WS_COUNTER_transfer_repeated);
		return ws_grant_transfer(turn, w0);
	}
	ws_count(turn->sw, WS_COUNTER_retenure_stale);
	return ws_tell_retenured(turn, w0, WS_HEADER_FLAG_STALE_TENURE);
}

/* A RETENURE that has just changed the slot. */
WS_INLINE enum ws_action ws_retenure_applied(struct ws_turn *turn, const struct ws_change *change, ws_u64 w0)
{
	if (change->state != WS_SLOT_STATE_UNHELD && ws_slot_w0_tryable(w0))
		ws_word_store(&turn->slot->w1, ws_hint_of(turn->entry, ws_slot_w0_tenure(w0)));
	if (!change->is_claim && change->state != WS_SLOT_STATE_UNHELD && change->agent != turn->source) {
		ws_count(turn->sw, WS_COUNTER_transferred);
		return ws_grant_transfer(turn, w0);
	}
	ws_count(turn->sw, change->is_claim                        ? WS_COUNTER_claimed
			   : change->state == WS_SLOT_STATE_UNHELD ? WS_COUNTER_freed
			   : change->state == WS_SLOT_STATE_OPEN   ? WS_COUNTER_reopened
								   : WS_COUNTER_renewed);
	return ws_tell_retenured(turn, w0, WS_HEADER_FLAG_APPLIED);
}

/* RETENURE: the one conditional change, by the slot's agent.
 *
 * A transfer that was refused as DEAD must never be applied: its agent goes on in the same tenure. So a late copy of it
 * may not take the next session of that handle for the heir. Looked at once: whoever dies after that is found when the
 * slot is won. */
WS_INLINE enum ws_action ws_on_retenure(struct ws_turn *turn)
{
	struct ws_slot *slot = turn->slot;
	struct ws_change change = ws_read_change(turn);
	struct ws_node *heir = ws_node_at(turn->sw, change.agent);
	int transfers = !change.is_claim && change.state != WS_SLOT_STATE_UNHELD && change.agent != turn->source;
	int is_dead = transfers && !ws_asker_lives(heir, ws_entry_request(turn->entry));

	if (!ws_is_possible(&change, turn->source))
		return ws_drop(turn, WS_DROP_REASON_BAD_STATE);
	if (transfers && !is_dead && heir->namespace != ws_header_namespace(turn->header))
		return ws_drop(turn, WS_DROP_REASON_FOREIGN_HOLDER);
	for (int try = 0; try < WS_MAX_TRIES; try++) {
		ws_u64 w0 = ws_word_load(&slot->w0);

		if (ws_is_frozen(w0))
			return ws_tell_recovering(turn);
		if (ws_is_exhausted(w0))
			return ws_tell_controller(turn, w0);
		int current = ws_slot_w0_state(w0) != WS_SLOT_STATE_UNHELD && ws_slot_w0_agent(w0) == turn->source &&
			      ws_slot_w0_tenure(w0) == change.tenure;
		if (!current || (change.is_claim && ws_slot_w0_transferred(w0)))
			return ws_retenure_over(turn, &change, w0);
		if (!change.is_claim && ws_slot_w0_joins(w0) != change.joins) {
			ws_count(turn->sw, WS_COUNTER_retenure_refused);
			return ws_tell_retenured(turn, w0, WS_HEADER_FLAG_REFUSED);
		}
		if (is_dead) {
			ws_count(turn->sw, WS_COUNTER_retenure_refused);
			return ws_tell_retenured(turn, w0, WS_HEADER_FLAG_REFUSED | WS_HEADER_FLAG_DEAD);
		}
		ws_u64 changed = ws_changed(&change, w0, turn->source);
		if (ws_word_cas(&slot->w0, w0, changed))
			return ws_retenure_applied(turn, &change, changed);
	}
	return ws_drop(turn, WS_DROP_REASON_LOST_RACE);
}

/* An entry of FREE: RETENURE *free* of its slot, under the same condition, tried once. Whether that freed it; the entry
 * has the slot as it is then. */
WS_INLINE int ws_free(struct ws_switch *sw, struct ws_slot *slot, void *entry, ws_u16 source)
{
	ws_u64 w0 = ws_word_load(&slot->w0);
	ws_u64 tenure = ws_entry_tenure(entry);
	ws_u64 joins = ws_slot_bits_joins(ws_entry_slot_bits(entry));
	ws_u64 freed = ws_slot_word(WS_SLOT_STATE_UNHELD, 0, 0, 0, 0, tenure + 1);
	int held = ws_slot_w0_state(w0) != WS_SLOT_STATE_UNHELD && !ws_is_frozen(w0) && !ws_is_exhausted(w0);
	int is_its = held && ws_slot_w0_agent(w0) == source && ws_slot_w0_tenure(w0) == tenure &&
		     ws_slot_w0_joins(w0) == joins && ws_word_cas(&slot->w0, w0, freed);

	ws_count(sw, is_its ? WS_COUNTER_freed : WS_COUNTER_free_over);
	w0 = is_its ? freed : w0;
	ws_show_slot(entry, w0);
	ws_entry_set_holder(entry, (ws_u16)ws_slot_w0_agent(w0));
	return is_its;
}

/* Entries of a FREE behind the first. */
struct ws_frees {
	struct ws_switch *sw;
	void *entry; /* the first */
	const void *end;
	ws_u32 base;  /* of the namespace's slots, */
	ws_u32 slots; /* and how many these are */
	ws_u16 source;
	ws_u8 reason; /* why none of them may be freed */
	ws_u8 missed; /* one at least was not freed */
};

/* The drop reason of an entry, or 0. */
WS_INLINE ws_u8 ws_check_free(struct ws_frees *frees, const void *entry)
{
	if (ws_entry_slot(entry) >= frees->slots || !ws_slot_at(frees->sw, frees->base + ws_entry_slot(entry)))
		return WS_DROP_REASON_BAD_SLOT;
	return ws_entry_holder(entry) == frees->source ? WS_DROP_REASON_NONE : WS_DROP_REASON_FOREIGN_HOLDER;
}

static inline long ws_check_next_free(ws_u32 index, struct ws_frees *frees)
{
	void *entry = ws_entry_at(frees->entry, frees->end, index + 1);

	frees->reason = entry ? ws_check_free(frees, entry) : WS_DROP_REASON_BAD_SLOT;
	return frees->reason != WS_DROP_REASON_NONE; /* 0 or 1: the verifier insists */
}

static inline long ws_free_next(ws_u32 index, struct ws_frees *frees)
{
	void *entry = ws_entry_at(frees->entry, frees->end, index + 1);
	struct ws_slot *slot = entry ? ws_slot_at(frees->sw, frees->base + ws_entry_slot(entry)) : 0;

	if (!slot || !ws_free(frees->sw, slot, entry, frees->source))
		frees->missed = 1;
	return 0;
}

/* The other entries of a FREE: none of them if one has a `reason`, which is the result then. A function of its own:
 * inlined, the compiler would keep what it needs of the turn in memory for every packet. */
static __attribute__((noinline, unused)) int ws_free_others(struct ws_frees *frees, ws_u32 others)
{
	ws_repeat(others, ws_check_next_free, frees);
	if (frees->reason)
		return frees->reason;
	ws_repeat(others, ws_free_next, frees);
	return WS_DROP_REASON_NONE;
}

/* FREE: slots of which an agent is rid. QUIET: it wants no answer where all of them are freed by it, and asks later
 * what became of them. */
WS_INLINE enum ws_action ws_on_free(struct ws_turn *turn, ws_u8 count)
{
	struct ws_frees frees = {
		.sw = turn->sw,
		.entry = turn->entry,
		.end = turn->end,
		.base = turn->region->base,
		.slots = turn->region->count,
		.source = turn->source,
	};

	if (!turn->slot || ws_entry_slot(turn->entry) >= frees.slots)
		return ws_drop(turn, WS_DROP_REASON_BAD_SLOT);
	if (ws_entry_holder(turn->entry) != turn->source)
		return ws_drop(turn, WS_DROP_REASON_FOREIGN_HOLDER);
	if (!ws_serves(turn->sw))
		return ws_tell_recovering(turn);
	int reason = count > 1 ? ws_free_others(&frees, count - 1u) : WS_DROP_REASON_NONE;
	/* Named once more: the verifier does not know what it can be. */
	if (reason)
		return ws_drop(turn, reason == WS_DROP_REASON_BAD_SLOT ? WS_DROP_REASON_BAD_SLOT
								       : WS_DROP_REASON_FOREIGN_HOLDER);
	int all = ws_free(turn->sw, turn->slot, turn->entry, turn->source) && !frees.missed;
	if (all && ws_header_flags(turn->header) & WS_HEADER_FLAG_QUIET)
		return ws_done(turn);
	ws_answer_with(turn, WS_LOCK_FREED, 0, turn->source);
	return ws_to_sender(turn);
}

#endif
