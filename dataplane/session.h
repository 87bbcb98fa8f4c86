/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Sessions at the switch: node words, heartbeats, and the verdicts that every decision uses.
 *
 *   word    63       56 55                                0
 *          | state     | sequence of the last heartbeat    |
 *
 *          set_node                heartbeat: sequence rises
 *   VACANT ---------> LIVE, 0 --> LIVE, n --> ...
 *     EXPIRED <-------------------- |  controller: the word did not move for lease + grace
 *        '-------- DISMISSED <------'  controller: it does not answer; EXPIRED once its last lease is over
 *
 * Invariants
 *   - A word leaves LIVE by the controller's compare-and-swap alone: a heartbeat that comes too late finds it changed,
 *     is told so, and the node's lease, which runs from acknowledged heartbeats, has ended before.
 *   - Whoever wins a slot for a node reads the node's word *after* winning. The controller sweeps the slots after it
 *     has expired the word. So either the winner sees EXPIRED or the sweep sees the slot.
 *   - Who is DISMISSED gets nothing any more, and keeps what it holds: it may rely on its lease still.
 *   - `oldest` never falls within a session.
 */
#ifndef WAYSIDE_SESSION_H
#define WAYSIDE_SESSION_H

/* Lost compare-and-swaps after which a packet is dropped as lost_race: its sender retransmits. */
#define WS_MAX_TRIES 8

/* One packet's turn at the switch. */
struct ws_turn {
	struct ws_switch *sw;
	void *header;
	void *entry;     /* what follows the header: the first entry, or the body */
	const void *end; /* of the packet. At least one entry or body lies before it */
	struct ws_region *region; /* of the header's namespace */
	struct ws_slot *slot;     /* of the first entry; 0: the memory ends before it */
	struct ws_node *sender;   /* the source, for what nodes say about locks */
	struct ws_node *holder;   /* of every entry, for what a holder asks */
	ws_u32 length;
	ws_u16 source;
	ws_u16 from_port; /* UDP source port */
	int direct;       /* the packet comes from the holder itself: it is no bounce */
	ws_u16 heard;     /* 1 + slot of the key that signed it; 0: nothing is signed */
	/* Of a request of the queue service that is to be granted by way of a third node: */
	ws_u16 third;  /* that node; 0: none */
	ws_u16 fetches; /* bytes that it is asked with */
	/* What handlers say besides their action. In pieces, and here: a structure that is returned is packed into
	 * words, and unpacked by whoever called. */
	struct ws_verdict verdict;
};

/* MurmurHash3's 64-bit finalizer, as `mix` of crates/wire: every bit moves half of the result's. */
WS_INLINE ws_u64 ws_mix(ws_u64 x)
{
	x = (x ^ x >> 33) * 0xff51afd7ed558ccdull;
	x = (x ^ x >> 33) * 0xc4ceb9fe1a85ec53ull;
	return x ^ x >> 33;
}

WS_INLINE enum ws_action ws_drop(struct ws_turn *turn, ws_u8 reason)
{
	ws_count(turn->sw, reason);
	turn->verdict = (struct ws_verdict){ .reason = reason };
	return WS_DROP;
}

/* Nobody is to hear of it. */
WS_INLINE enum ws_action ws_done(struct ws_turn *turn)
{
	ws_count(turn->sw, WS_COUNTER_to_nobody);
	turn->verdict = (struct ws_verdict){ .reason = WS_DROP_REASON_NONE };
	return WS_DROP;
}

WS_INLINE enum ws_action ws_to_sender(struct ws_turn *turn)
{
	ws_count(turn->sw, WS_COUNTER_to_sender);
	turn->verdict.length = (ws_u16)turn->length;
	return WS_TO_SENDER;
}

WS_INLINE enum ws_action ws_to_controller(struct ws_turn *turn)
{
	ws_count(turn->sw, WS_COUNTER_to_controller);
	turn->verdict.length = (ws_u16)turn->length;
	return WS_TO_CONTROLLER;
}

WS_INLINE int ws_is_live(ws_u64 word) { return ws_node_word_state(word) == WS_NODE_STATE_LIVE; }

/* Whether a handle's session lives at this moment. */
WS_INLINE int ws_node_lives(struct ws_switch *sw, ws_u16 handle)
{
	return ws_is_live(ws_word_load(&ws_node_at(sw, handle)->word));
}

/* Whether the session that made a request lives. A handle is given again: its next session is another one. */
WS_INLINE int ws_asker_lives(struct ws_node *node, ws_u64 request)
{
	return ws_is_live(ws_word_load(&node->word)) &&
	       ws_request_id_with_incarnation(request, node->incarnation) == request;
}

/* Delivers to a node's agent port (0) or to the port of one of its threads. */
WS_INLINE enum ws_action ws_to_node(struct ws_turn *turn, ws_u16 handle, ws_u16 port)
{
	ws_count(turn->sw, WS_COUNTER_to_node);
	turn->verdict.length = (ws_u16)turn->length;
	turn->verdict.handle = handle;
	turn->verdict.port = port;
	return WS_TO_NODE;
}

/* Turns the header into one of the switch's own: to a node, with none of what the request's sender put there. */
WS_INLINE void ws_answer_with(struct ws_turn *turn, ws_u8 kind, ws_u16 flags, ws_u16 to)
{
	ws_header_set_version(turn->header, WS_VERSION);
	ws_header_set_kind(turn->header, kind);
	ws_header_set_flags(turn->header, flags);
	ws_header_set_source(turn->header, WS_CONTROLLER_HANDLE);
	ws_header_set_destination(turn->header, to);
	ws_header_set_shard_map(turn->header, ws_half_load(&ws_globals(turn->sw)->shard_map));
	ws_header_set_position(turn->header, 0);
	ws_header_set_tag(turn->header, 0);
}

/* The sender lives in another epoch: tell it ours. A STALE has 64 bytes, as the shortest packet that gets here. */
WS_INLINE enum ws_action ws_tell_stale(struct ws_turn *turn, ws_u32 epoch)
{
	int heartbeat = ws_header_service(turn->header) == WS_SERVICE_FABRIC;

	if (!epoch) /* The memory is empty: there is no epoch to tell yet. */
		return ws_drop(turn, WS_DROP_REASON_STALE_EPOCH);
	ws_answer_with(turn, WS_FABRIC_STALE, 0, turn->source);
	ws_header_set_service(turn->header, WS_SERVICE_FABRIC);
	ws_header_set_count(turn->header, 0);
	ws_header_set_epoch(turn->header, epoch);
	if (!heartbeat) { /* A heartbeat's body goes back as it is. */
		ws_heartbeat_set_sequence(turn->entry, 0);
		ws_heartbeat_set_oldest(turn->entry, 0);
		ws_heartbeat_set_sent_us(turn->entry, 0);
		ws_heartbeat_set_incarnation(turn->entry, 0);
	}
	turn->length = WS_HEADER_BYTES + WS_HEARTBEAT_BYTES;
	ws_count(turn->sw, WS_DROP_REASON_STALE_EPOCH);
	turn->verdict.reason = WS_DROP_REASON_STALE_EPOCH;
	return ws_to_sender(turn);
}

/* Whether slots are decided on: they have been recovered, and no other switch decides on them yet. */
WS_INLINE int ws_serves(struct ws_switch *sw)
{
	return ws_half_load(&ws_globals(sw)->serving) && ws_lease_runs(sw, &ws_globals(sw)->lease);
}

/* The drop reason that forbids a packet's source to send in this namespace, or 0. */
WS_INLINE ws_u8 ws_check_source(struct ws_turn *turn, ws_u16 namespace)
{
	struct ws_node *node = turn->sender = ws_node_at(turn->sw, turn->source);

	switch (ws_node_word_state(ws_word_load(&node->word))) {
	case WS_NODE_STATE_LIVE:
		return node->namespace == namespace ? WS_DROP_REASON_NONE : WS_DROP_REASON_UNKNOWN_NAMESPACE;
	case WS_NODE_STATE_EXPIRED:
	case WS_NODE_STATE_DISMISSED:
		return WS_DROP_REASON_SOURCE_NOT_LIVE;
	default:
		return WS_DROP_REASON_UNKNOWN_SOURCE;
	}
}

/* From one node of a namespace to another. An answer to a holder goes to the thread that waits for it. */
WS_INLINE enum ws_action ws_on_relay(struct ws_turn *turn, ws_u16 port)
{
	ws_u16 destination = ws_header_destination(turn->header);
	struct ws_node *node = ws_node_at(turn->sw, destination);

	if (!ws_is_live(ws_word_load(&node->word)))
		return ws_drop(turn, WS_DROP_REASON_DESTINATION_NOT_LIVE);
	if (node->namespace != ws_header_namespace(turn->header))
		return ws_drop(turn, WS_DROP_REASON_FOREIGN_HOLDER);
	ws_count(turn->sw, WS_COUNTER_relayed);
	return ws_to_node(turn, destination, port);
}

/* The drop reason that forbids requests of a holder that is not the packet's source, or 0. */
WS_INLINE ws_u8 ws_check_holder(struct ws_node *holder, ws_u16 namespace)
{
	if (!ws_is_live(ws_word_load(&holder->word)))
		return WS_DROP_REASON_HOLDER_NOT_LIVE;
	return holder->namespace == namespace ? WS_DROP_REASON_NONE : WS_DROP_REASON_FOREIGN_HOLDER;
}

/* The drop reason that forbids a request of this holder by its age, or 0.
 *
 * An ACQUIRE older than the node's oldest outstanding request is a replay: it would seize or close a slot for nobody.
 * What ends a request may be older: a grant that nobody waits for is given back long after its request went. */
WS_INLINE ws_u8 ws_check_age(struct ws_node *holder, ws_u64 request, int acquires)
{
	const ws_u64 session = 1ull << 40; /* request ids of one incarnation */
	ws_u64 age = request - ws_word_load(&holder->oldest);

	if (acquires ? age >= session : age + session >= 2 * session)
		return WS_DROP_REASON_STALE_REQUEST;
	return WS_DROP_REASON_NONE;
}

/* Raises `oldest`. Losing the race against a concurrent heartbeat is harmless: the next one raises it. */
WS_INLINE void ws_raise_oldest(struct ws_node *node, ws_u64 oldest)
{
	ws_u64 before = ws_word_load(&node->oldest);

	if (oldest - before < 1ull << 40)
		ws_word_cas(&node->oldest, before, oldest);
}

/* Remembers which key a node signs with, once its word took the heartbeat: the controller replaces the other one only
 * then. Two CPUs may write in the wrong order; the next heartbeat rights that, and rotations are minutes apart. */
WS_INLINE void ws_hear(struct ws_turn *turn)
{
	struct ws_keys *keys = turn->heard ? ws_keys_at(turn->sw, turn->source) : 0;

	if (keys && ws_half_load(&keys->heard) != turn->heard)
		ws_half_store(&keys->heard, turn->heard);
}

/* HEARTBEAT: the word takes the sequence. Acknowledged only once the word has it: the lease hangs on that. */
WS_INLINE enum ws_action ws_on_heartbeat(struct ws_turn *turn)
{
	ws_u64 sequence = ws_heartbeat_sequence(turn->entry);
	ws_u64 incarnation = ws_heartbeat_incarnation(turn->entry);
	struct ws_node *node = ws_node_at(turn->sw, turn->source);

	for (int try = 0; try < WS_MAX_TRIES; try++) {
		ws_u64 word = ws_word_load(&node->word);
		if (!ws_is_live(word) || node->incarnation != incarnation) {
			ws_count(turn->sw, WS_COUNTER_session_over);
			ws_answer_with(turn, WS_FABRIC_HEARTBEAT_ACK, WS_HEADER_FLAG_EXPIRED, turn->source);
			return ws_to_sender(turn);
		}
		/* More than 56 bits never come from a session; less or the same is a replay. */
		if (sequence >> 56 || sequence <= ws_node_word_sequence(word))
			return ws_drop(turn, WS_DROP_REASON_STALE_HEARTBEAT);
		if (ws_word_cas(&node->word, word, ws_node_word_with_sequence(word, sequence))) {
			ws_raise_oldest(node, ws_heartbeat_oldest(turn->entry));
			ws_hear(turn);
			ws_count(turn->sw, WS_COUNTER_heartbeat);
			ws_answer_with(turn, WS_FABRIC_HEARTBEAT_ACK, 0, turn->source);
			return ws_to_sender(turn);
		}
	}
	return ws_drop(turn, WS_DROP_REASON_LOST_RACE);
}

#endif
