/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * A packet's way through the switch: everything is checked before any state is touched, then one function decides.
 *
 *   ws_process -> ws_check_structure   length, magic, version, kind, count; nothing of the switch is read
 *              -> ws_find_slot         asks the memory for it: what is checked meanwhile takes as long
 *              -> ws_check_tag         while authentication is on
 *              -> fabric: HEARTBEAT -> ws_on_heartbeat; what is the controller's goes to the controller
 *              -> lock:   ws_check_source, then ws_check_requests for what a holder asks, ws_admits for an ACQUIRE,
 *                                               ws_refuse if it is too much
 *                                               -> fission.h
 *                                               or on to the destination, or to the controller
 *              -> chain:  chain.h;  queue: queue.h
 *              -> ws_seal              while authentication is on
 *
 * Invariant: a packet that is dropped by a check leaves slots, node words and regions byte for byte as they were, and
 * counts under its reason (one over its namespace's budget in the region as well).
 */
#ifndef WAYSIDE_PACKET_H
#define WAYSIDE_PACKET_H

#include "budget.h"
#include "chain.h"
#include "fission.h"
#include "queue.h"
#include "trace.h"

/* The drop reason of bytes that are no packet of this protocol, or 0. `end` bounds what may be read. */
WS_INLINE ws_u8 ws_check_structure(const void *packet, const void *end, ws_u32 length)
{
	if (length < WS_HEADER_BYTES || (const ws_u8 *)packet + WS_HEADER_BYTES > (const ws_u8 *)end)
		return WS_DROP_REASON_TOO_SHORT;
	if (ws_header_magic(packet) != WS_MAGIC)
		return WS_DROP_REASON_BAD_MAGIC;
	if (ws_header_version(packet) >> 4 != WS_MAJOR)
		return WS_DROP_REASON_FOREIGN_VERSION;
	ws_u8 service = ws_header_service(packet);
	ws_u8 count = ws_header_count(packet);
	if (service != WS_SERVICE_FABRIC && service != WS_SERVICE_LOCK && service != WS_SERVICE_QUEUE &&
	    service != WS_SERVICE_CHAIN)
		return WS_DROP_REASON_UNKNOWN_SERVICE;
	ws_u32 bytes = ws_packet_bytes(service, ws_header_kind(packet), count);
	if (!bytes)
		return WS_DROP_REASON_UNKNOWN_KIND;
	if (!ws_count_fits(service, ws_header_kind(packet), count))
		return WS_DROP_REASON_BAD_COUNT;
	/* An entry and the shortest body are equally long: whoever gets past here may read one. */
	if (length != bytes || (const ws_u8 *)packet + WS_HEADER_BYTES + WS_ENTRY_BYTES > (const ws_u8 *)end)
		return WS_DROP_REASON_BAD_LENGTH;
	return WS_DROP_REASON_NONE;
}
_Static_assert(WS_ENTRY_BYTES == WS_HEARTBEAT_BYTES, "the shortest body is an entry's length");

WS_INLINE int ws_is_enrol(const void *packet)
{
	return ws_header_service(packet) == WS_SERVICE_FABRIC && ws_header_kind(packet) == WS_FABRIC_ENROL;
}

/* What nodes and the controller say about sessions. ENROL and LEAVE come from nodes that the switch does not know (any
 * more): the controller keeps the sessions, and judges. */
WS_INLINE enum ws_action ws_on_fabric(struct ws_turn *turn)
{
	ws_u32 epoch = ws_half_load(&ws_globals(turn->sw)->epoch);

	switch (ws_header_kind(turn->header)) {
	case WS_FABRIC_ENROL:
	case WS_FABRIC_LEAVE:
	case WS_FABRIC_DOWN_ACK:
	case WS_FABRIC_TURN_ACK:
	case WS_FABRIC_POLICY_ACK:
		return ws_to_controller(turn);
	case WS_FABRIC_HEARTBEAT:
		if (!epoch || ws_header_epoch(turn->header) != epoch)
			return ws_tell_stale(turn, epoch);
		/* A lease that is acknowledged here must not outlast what another switch waits for before it serves. */
		if (!ws_lease_runs(turn->sw, &ws_globals(turn->sw)->lease))
			return ws_drop(turn, WS_DROP_REASON_NOT_SERVING);
		return ws_on_heartbeat(turn);
	default:
		return ws_drop(turn, WS_DROP_REASON_UNKNOWN_KIND);
	}
}

/* Checks one request of a packet and, where the holder itself sent it, stamps the port that the answer goes to. The
 * drop reason, or 0. */
WS_INLINE ws_u8 ws_check_request(struct ws_turn *turn, void *entry, ws_u16 holder)
{
	ws_u8 reason = WS_DROP_REASON_NONE;

	if (ws_entry_slot(entry) >= turn->region->count)
		return WS_DROP_REASON_BAD_SLOT;
	if (ws_entry_holder(entry) != holder)
		return WS_DROP_REASON_FOREIGN_HOLDER;
	if (holder != turn->source) /* which has been checked */
		reason = ws_check_holder(turn->holder, ws_header_namespace(turn->header));
	if (!reason)
		reason = ws_check_age(turn->holder, ws_entry_request(entry),
				      ws_header_kind(turn->header) == WS_LOCK_ACQUIRE);
	if (!reason && turn->direct)
		ws_entry_set_reply_port(entry, turn->from_port);
	return reason;
}

/* Checks every request of a packet. The drop reason, or 0 with `turn->holder` and `turn->direct` set. */
WS_INLINE ws_u8 ws_check_requests(struct ws_turn *turn, ws_u8 count)
{
	ws_u16 holder = ws_entry_holder(turn->entry);

	turn->direct = holder == turn->source && ws_header_position(turn->header) == 0;
	turn->holder = holder == turn->source ? turn->sender : ws_node_at(turn->sw, holder);
	/* The first entry is always there, and mostly the only one: no loop for it. */
	ws_u8 reason = ws_check_request(turn, turn->entry, holder);
	for (ws_u32 i = 1; count > 1 && !reason && i < WS_MAX_ENTRIES; i++) {
		void *entry = ws_entry_at(turn->entry, turn->end, i);
		if (i >= count || !entry)
			break;
		reason = ws_check_request(turn, entry, holder);
	}
	if (reason)
		return reason;
	return turn->slot ? WS_DROP_REASON_NONE : WS_DROP_REASON_BAD_SLOT;
}

/* What a holder asks. A release speaks of one slot: its agent is one node. */
WS_INLINE enum ws_action ws_on_request(struct ws_turn *turn)
{
	ws_u8 count = ws_header_count(turn->header);
	int acquires = ws_header_kind(turn->header) == WS_LOCK_ACQUIRE;

	if (!acquires && count != 1)
		return ws_drop(turn, WS_DROP_REASON_BAD_COUNT);
	ws_u8 reason = ws_check_requests(turn, count);
	if (reason)
		return ws_drop(turn, reason);
	if (acquires && !ws_admits(turn, count))
		return ws_refuse(turn, count, 0);
	if (!ws_serves(turn->sw))
		return ws_tell_recovering(turn);
	if (!acquires)
		return ws_on_release(turn);
	return count == 1 ? ws_on_acquire(turn) : ws_on_acquire_batch(turn, count);
}

/* What an agent changes. Entries after the first are waiters for the new agent, and none of the switch's business. */
WS_INLINE enum ws_action ws_on_change(struct ws_turn *turn)
{
	if (ws_entry_slot(turn->entry) >= turn->region->count || !turn->slot)
		return ws_drop(turn, WS_DROP_REASON_BAD_SLOT);
	if (!ws_serves(turn->sw))
		return ws_tell_recovering(turn);
	return ws_on_retenure(turn);
}

/* Finds the namespace, and the slot that a packet of the lock service asks about, and asks the memory for that: what
 * comes next takes about as long. Nothing of the packet has been checked against the memory yet: the slot may be
 * another namespace's. */
WS_INLINE void ws_find_slot(struct ws_turn *turn)
{
	const ws_u32 kinds = 1 << WS_LOCK_ACQUIRE | 1 << WS_LOCK_RELEASE | 1 << WS_LOCK_CANCEL | 1 << WS_LOCK_DOWNGRADE |
			     1 << WS_LOCK_RETENURE | 1 << WS_LOCK_FREE;

	turn->region = ws_region_at(turn->sw, ws_header_namespace(turn->header));
	if (ws_header_service(turn->header) != WS_SERVICE_LOCK || !(kinds >> ws_header_kind(turn->header) & 1))
		return;
	turn->slot = ws_slot_at(turn->sw, turn->region->base + ws_entry_slot(turn->entry));
	if (turn->slot)
		ws_expect(&turn->slot->w0);
}

WS_INLINE enum ws_action ws_on_lock(struct ws_turn *turn)
{
	ws_u32 epoch = ws_half_load(&ws_globals(turn->sw)->epoch);
	ws_u16 namespace = ws_header_namespace(turn->header);

	if (!epoch || ws_header_epoch(turn->header) != epoch)
		return ws_tell_stale(turn, epoch);
	ws_u8 reason = ws_check_source(turn, namespace);
	if (reason)
		return ws_drop(turn, reason);
	if (!turn->region->count)
		return ws_drop(turn, WS_DROP_REASON_UNKNOWN_NAMESPACE);

	switch (ws_header_kind(turn->header)) {
	case WS_LOCK_ACQUIRE:
	case WS_LOCK_RELEASE:
	case WS_LOCK_CANCEL:
	case WS_LOCK_DOWNGRADE:
		return ws_on_request(turn);
	case WS_LOCK_RETENURE:
		return ws_on_change(turn);
	case WS_LOCK_FREE:
		return ws_on_free(turn, ws_header_count(turn->header));
	case WS_LOCK_GRANT:
	case WS_LOCK_BUSY:
	case WS_LOCK_RELEASED:
		return ws_on_relay(turn, ws_entry_reply_port(turn->entry));
	case WS_LOCK_QUEUE:
	case WS_LOCK_QUEUED:
		return ws_on_relay(turn, 0);
	case WS_LOCK_GAP:
	case WS_LOCK_REPORT:
	case WS_LOCK_ADOPTED:
		return ws_to_controller(turn);
	default: /* JOIN, RETENURED, FREED, RECOVERING are the switch's; CENSUS, ADOPT the controller's. */
		return ws_drop(turn, WS_DROP_REASON_UNKNOWN_KIND);
	}
}

/* The services whose decision is a function of its own. */
WS_INLINE enum ws_action ws_on_other(struct ws_turn *turn)
{
	struct ws_turn own = *turn; /* whose address is known there; the others' turn needs none */

	/* The verifier is to walk through them once, whatever it knows of the packet's length by now. */
	own.length = (ws_u32)ws_veil(turn->header, turn->length);
	enum ws_action action = ws_header_service(turn->header) == WS_SERVICE_CHAIN ? ws_chain(&own) : ws_queue_packet(&own);

	turn->verdict.reason = (ws_u8)ws_veil(turn->header, own.verdict.reason);
	turn->verdict.handle = (ws_u16)ws_veil(turn->header, own.verdict.handle);
	turn->verdict.port = (ws_u16)ws_veil(turn->header, own.verdict.port);
	turn->verdict.length = (ws_u16)ws_veil(turn->header, own.verdict.length);
	turn->verdict.copy = (ws_u16)ws_veil(turn->header, own.verdict.copy);
	turn->length = own.length;
	return (enum ws_action)(ws_veil(turn->header, action) & 3);
}

WS_INLINE enum ws_action ws_dispatch(struct ws_turn *turn)
{
	ws_trace_begin(turn);
	switch (ws_header_service(turn->header)) {
	case WS_SERVICE_LOCK:
		return ws_on_lock(turn);
	case WS_SERVICE_CHAIN:
	case WS_SERVICE_QUEUE:
		return ws_on_other(turn);
	default:
		return ws_on_fabric(turn);
	}
}

/* What becomes of a packet, of which nothing has been checked yet. */
WS_INLINE enum ws_action ws_judge(struct ws_turn *turn)
{
	ws_u8 reason = ws_check_structure(turn->header, turn->end, turn->length);
	int authenticated = ws_half_load(&ws_globals(turn->sw)->authenticated) != 0;

	/* Only the controller can tell a node of another version which one is spoken here; or a secure connection does. */
	if (reason == WS_DROP_REASON_FOREIGN_VERSION && !authenticated && ws_is_enrol(turn->header) &&
	    turn->length <= WS_MAX_PACKET_BYTES) {
		ws_count(turn->sw, reason);
		turn->verdict.reason = reason;
		return ws_to_controller(turn);
	}
	if (reason)
		return ws_drop(turn, reason);
	turn->source = ws_header_source(turn->header);
	ws_find_slot(turn);
	if (!authenticated)
		return ws_dispatch(turn);
	reason = ws_is_enrol(turn->header) ? WS_DROP_REASON_ENROL_IN_CLEAR : ws_check_tag(turn);
	return reason ? ws_drop(turn, reason) : ws_seal(turn, ws_dispatch(turn));
}

/* Decides one packet, which lies between `packet` and `end`, and rewrites it in place. `length` is what the sender
 * sent; `end` may lie behind it (a frame may be padded), and nothing beyond it is touched. */
WS_INLINE void ws_decide(struct ws_switch *sw, void *packet, const void *end, ws_u32 length, ws_u16 from_port,
			 struct ws_verdict *verdict)
{
	struct ws_turn turn = {
		.sw = sw,
		.header = packet,
		.entry = (ws_u8 *)packet + WS_HEADER_BYTES,
		.end = end,
		.length = length,
		.from_port = from_port,
	};
	enum ws_action action = ws_judge(&turn);

	ws_trace_end(&turn, action);
	*verdict = turn.verdict;
	verdict->action = (ws_u8)action;
}

/* Makes a copy of a packet with `copy` in its verdict what it is to be: of a GRANT by join the JOIN for its agent, of
 * what the queue service says the answer to whoever asked. False: it must not be sent. */
WS_INLINE int ws_make_copy(struct ws_switch *sw, void *packet, const void *end, ws_u32 length)
{
	if (ws_header_service(packet) == WS_SERVICE_LOCK)
		ws_make_join(packet);
	else if (!ws_make_answer(packet, end))
		return 0;
	if (!ws_half_load(&ws_globals(sw)->authenticated))
		return 1;
	ws_u16 agent = ws_header_destination(packet);
	if (ws_sign(sw, agent, packet, (ws_u8 *)packet + WS_HEADER_BYTES, end, length))
		return 1;
	ws_count(sw, WS_DROP_REASON_NO_KEY);
	return 0;
}

#endif
