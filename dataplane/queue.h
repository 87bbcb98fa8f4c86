/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * The queue service, after NetLock: what a switch decides on a lock whose queue it keeps. One function a message;
 * docs/queue.md is the contract, cells.h the memory.
 *
 *   holder --RELEASE--> switch --GRANT--> next in the queue        lock server --PUSH--> switch --PUSHED--> lock server
 *                         '--RELEASED--> holder
 *
 * Invariants
 *   - head <= granted <= tail <= head + size, and none of them falls. Below granted every cell that is not over holds;
 *     those that do are one exclusive, or all shared. From granted on nobody holds.
 *   - `granted` passes one ticket at a time: grants are in the order of tickets, and no ticket is granted twice.
 *   - A cell becomes over by its own holder, which names its request and, in a RELEASE, its ticket, or says by its
 *     `oldest` that it has none so old; or by the end of its session.
 *   - While `given` and `settled` differ only pushes get cells; a push is taken if its number is the next one. Where no
 *     lock server lives there are no pushes: what was given is settled.
 *   - Nothing is written but under the queue's lock. Each store makes one step true, in an order in which whoever dies
 *     in between leaves the queue before or after that step; `holding` can be counted anew.
 *   - A node's word is read under the lock before a cell is given to it, or a grant. Whoever gives its handle to
 *     another session has seen the word expire, and takes every lock after that: so it finds what was given before.
 *   - A packet grants one request at most. Whoever is granted with MORE asks for the one behind.
 *   - What a third node says reaches a holder only while that holds, and changes nothing.
 *   - Where a lock server lives nobody gets a cell by an ACQUIRE with a priority but who is granted at once: tickets
 *     know none, so its server is to have the lock.
 */
#ifndef WAYSIDE_QUEUE_H
#define WAYSIDE_QUEUE_H

#include "budget.h"
#include "fission.h"
#include "take.h"

/* What a packet of the queue service is about: a queue under its lock. */
struct ws_line {
	struct ws_switch *sw;
	struct ws_queue *queue;
	ws_u64 request; /* whose cell is looked for: */
	ws_u64 holder;
	ws_u64 ticket;  /* where it was found; 0: nowhere */
	ws_u64 granted; /* the ticket that this packet has granted; 0: none */
	int passes;     /* it grants nobody, and passes only what is over */
};

/* What a packet about a queue is answered, unless it has led to a grant. */
enum ws_say {
	WS_SAY_AGAIN,      /* GRANT again: it holds */
	WS_SAY_REMIND,     /* GRANT again, to the oldest holder, which may not know that it holds */
	WS_SAY_WAITING,
	WS_SAY_RELEASED,
	WS_SAY_BUSY,
	WS_SAY_OVERFLOW,   /* on to the lock server, with an order */
	WS_SAY_PASS,       /* on to the lock server, which may know of it */
	WS_SAY_RECOVERING,
	WS_SAY_PUSHED,
};

WS_INLINE ws_u64 ws_tail(struct ws_line *line) { return ws_word_load(&line->queue->tail); }
WS_INLINE ws_u64 ws_head(struct ws_line *line) { return ws_word_load(&line->queue->head); }

/* A ticket's cell; 0 where the memory ends before it, which cannot be. */
WS_INLINE struct ws_cell *ws_cell_of(struct ws_switch *sw, struct ws_queue *queue, ws_u64 ticket)
{
	ws_u32 size = ws_half_load(&queue->size);

	return size ? ws_cell_at(sw, ws_half_load(&queue->left) + (ws_u32)(ticket % size)) : 0;
}

/* Free cells. */
WS_INLINE ws_u64 ws_room(struct ws_line *line)
{
	return ws_half_load(&line->queue->size) - (ws_tail(line) - ws_head(line));
}

/* Whether the lock is its lock server's, though it has a queue. */
WS_INLINE int ws_is_lent(struct ws_queue *queue) { return ws_half_load(&queue->stage) >= WS_STAGE_HANDED; }

/* Whether no request gets a cell any more. */
WS_INLINE int ws_drains(struct ws_line *line) { return ws_half_load(&line->queue->stage) != WS_STAGE_HERE; }

/* Whether the lock server has nothing more. */
WS_INLINE int ws_is_settled(struct ws_line *line)
{
	return ws_word_load(&line->queue->given) == ws_word_load(&line->queue->settled);
}

WS_INLINE int ws_is_queue_of(struct ws_queue *queue, ws_u64 name, ws_u16 namespace)
{
	return ws_word_load(&queue->name) == name && ws_half_load(&queue->namespace) == namespace &&
	       ws_half_load(&queue->size);
}

/* The queue of a name, or 0: the lock is not the switch's. It may be another's by the time that it is used. */
WS_INLINE struct ws_queue *ws_find_queue(struct ws_turn *turn, ws_u64 name)
{
	struct ws_directory *directory = ws_directory(turn->sw);
	ws_u16 namespace = ws_header_namespace(turn->header);
	ws_u64 hash = ws_key_hash(directory->seed, name, 0, namespace);

	for (ws_u32 choice = 0; choice < 2; choice++) {
		ws_u32 at = choice ? ws_second_bucket(hash) : ws_first_bucket(hash);
		struct ws_bucket *bucket = ws_names_at(turn->sw, at & directory->bucket_mask);
		for (ws_u32 i = 0; bucket && i < WS_BUCKET_PLACES; i++) {
			ws_u64 place = ws_word_load(&bucket->places[i]);
			if (!(ws_u32)place || place >> 32 != hash >> 32)
				continue;
			struct ws_queue *queue = ws_queue_at(turn->sw, (ws_u32)place);
			if (queue && ws_is_queue_of(queue, name, namespace))
				return queue;
		}
	}
	return 0;
}

/* The lock server of a name's part, or 0: it has none. */
WS_INLINE ws_u16 ws_server_of(struct ws_turn *turn, ws_u64 name)
{
	struct ws_servers *servers = ws_servers_at(turn->sw, ws_header_namespace(turn->header));
	ws_u16 count = *(volatile ws_u16 *)&servers->count;
	ws_u64 at = count ? ws_name_hash(name) % count : 0;

	return count && at < WS_SERVERS ? *(volatile ws_u16 *)&servers->of[at] : 0;
}

/* The same, or 0 where its session is over. */
WS_INLINE ws_u16 ws_live_server_of(struct ws_turn *turn, ws_u64 name)
{
	ws_u16 server = ws_server_of(turn, name);

	return server && ws_node_lives(turn->sw, server) ? server : 0;
}

/* ---- the queue ---- */

/* One look at a cell. Not 0: it is the one that is looked for. */
static inline long ws_look_at(ws_u32 index, struct ws_line *line)
{
	ws_u64 ticket = ws_head(line) + index;
	struct ws_cell *cell = ws_cell_of(line->sw, line->queue, ticket);

	if (!cell)
		return 1;
	ws_u64 who = ws_word_load(&cell->who);
	if (ws_word_load(&cell->request) != line->request || ws_cell_who_holder(who) != line->holder ||
	    ws_cell_who_over(who))
		return 0;
	line->ticket = ticket;
	return 1;
}

/* Finds the cell of a request: by its ticket, or, where that is 0, among all. */
WS_INLINE void ws_find_cell(struct ws_line *line, ws_u64 ticket)
{
	ws_u64 head = ws_head(line);
	ws_u64 used = ws_tail(line) - head;

	if (ticket) {
		if (ticket - head < used)
			ws_look_at((ws_u32)(ticket - head), line);
	} else if (used) {
		ws_u32 looks = (ws_u32)(used < WS_MAX_CELLS ? used : WS_MAX_CELLS);
		ws_repeat(looks, ws_look_at, line);
	}
}

/* Whether a request of this mode may hold beside those that do. */
WS_INLINE int ws_may_hold(struct ws_line *line, int exclusive)
{
	ws_u64 holding = ws_word_load(&line->queue->holding);

	return !ws_queue_holding_holders(holding) || (!exclusive && !ws_queue_holding_exclusive(holding));
}

/* Ends a request: from here on it is over. */
WS_INLINE void ws_end(struct ws_line *line, ws_u64 ticket)
{
	struct ws_cell *cell = ws_cell_of(line->sw, line->queue, ticket);

	if (!cell)
		return;
	ws_word_store(&cell->who, ws_cell_who_with_over(ws_word_load(&cell->who), 1));
	if (ticket >= ws_word_load(&line->queue->granted))
		return;
	ws_u64 holding = ws_word_load(&line->queue->holding);
	ws_u64 others = ws_queue_holding_holders(holding) - 1;
	ws_word_store(&line->queue->holding, others ? ws_queue_holding_with_holders(holding, others) : 0);
}

/* Whether a ticket's request is over; where its node's session is, or the node has no request so old any more, it is
 * from here on. The latter is a late copy's cell, whose grant was lost: nobody else may come to remind its node. One
 * that is DISMISSED waits no more, and holds until its last lease is over. */
WS_INLINE int ws_is_over(struct ws_line *line, ws_u64 ticket)
{
	struct ws_cell *cell = ws_cell_of(line->sw, line->queue, ticket);
	ws_u64 who = cell ? ws_word_load(&cell->who) : 0;

	if (!cell || ws_cell_who_over(who))
		return cell != 0;
	struct ws_node *node = ws_node_at(line->sw, (ws_u16)ws_cell_who_holder(who));
	ws_u64 state = ws_node_word_state(ws_word_load(&node->word));
	if (state == WS_NODE_STATE_LIVE && !ws_check_age(node, ws_word_load(&cell->request), 1))
		return 0;
	if (state == WS_NODE_STATE_DISMISSED && ticket < ws_word_load(&line->queue->granted))
		return 0;
	ws_end(line, ticket);
	return 1;
}

/* One step on, as docs/queue.md has it. Not 0: that was the last. */
static inline long ws_step_on(ws_u32 index, struct ws_line *line)
{
	struct ws_queue *queue = line->queue;
	ws_u64 head = ws_word_load(&queue->head);
	ws_u64 granted = ws_word_load(&queue->granted);

	(void)index;
	if (head < granted && ws_is_over(line, head)) {
		ws_word_store(&queue->head, head + 1);
		return 0;
	}
	if (granted >= ws_word_load(&queue->tail))
		return 1;
	if (ws_is_over(line, granted)) {
		ws_word_store(&queue->granted, granted + 1);
		return 0;
	}
	struct ws_cell *next = ws_cell_of(line->sw, queue, granted);
	if (!next)
		return 1;
	int exclusive = (int)ws_cell_who_exclusive(ws_word_load(&next->who));
	if (line->passes || !ws_may_hold(line, exclusive))
		return 1;
	ws_u64 holding = ws_word_load(&queue->holding);
	holding = ws_queue_holding_with_holders(holding, ws_queue_holding_holders(holding) + 1);
	ws_word_store(&queue->granted, granted + 1);
	ws_word_store(&queue->holding, ws_queue_holding_with_exclusive(holding, exclusive));
	line->granted = granted;
	return 1;
}

/* Goes on: head and granted pass what is over, and the next is granted if it may be. Every step but the last passes a
 * cell for ever: packets take two steps a ticket, all together. */
WS_INLINE void ws_go_on(struct ws_line *line)
{
	ws_repeat(2 * WS_MAX_CELLS + 1, ws_step_on, line);
}

/* Whether the one behind the holders may be granted, or has to be passed. */
WS_INLINE int ws_has_more(struct ws_line *line)
{
	ws_u64 granted = ws_word_load(&line->queue->granted);

	if (granted >= ws_tail(line))
		return 0;
	struct ws_cell *next = ws_cell_of(line->sw, line->queue, granted);
	ws_u64 who = next ? ws_word_load(&next->who) : 0;
	return next && (ws_cell_who_over(who) || ws_may_hold(line, (int)ws_cell_who_exclusive(who)));
}

/* A cell at the tail, of which there must be one free. Whoever dies before the last store has given none. */
WS_INLINE void ws_line_up(struct ws_line *line, ws_u64 port, int exclusive)
{
	ws_u64 tail = ws_tail(line);
	struct ws_cell *cell = ws_cell_of(line->sw, line->queue, tail);

	if (!cell)
		return;
	ws_u64 who = ws_cell_who_with_reply_port(ws_cell_who_with_holder(0, line->holder), port);
	ws_word_store(&cell->request, line->request);
	ws_word_store(&cell->who, ws_cell_who_with_exclusive(who, exclusive));
	ws_word_store(&line->queue->tail, tail + 1);
	line->ticket = tail;
}

/* ---- what is said ---- */

/* The packet tells of the queue's counters. */
WS_INLINE void ws_show_queue(void *attempt, struct ws_line *line)
{
	ws_attempt_set_number(attempt, ws_word_load(&line->queue->pushed));
	ws_attempt_set_order(attempt, ws_word_load(&line->queue->given));
	ws_attempt_set_room(attempt, (ws_u16)ws_room(line));
}

/* Back to whoever asked. */
WS_INLINE enum ws_action ws_tell(struct ws_turn *turn, ws_u8 kind, ws_u16 flags)
{
	ws_answer_with(turn, kind, flags, turn->source);
	return ws_to_sender(turn);
}

WS_INLINE enum ws_action ws_tell_not_now(struct ws_turn *turn, ws_u8 kind, ws_u16 flags)
{
	ws_count(turn->sw, kind == WS_QUEUE_BUSY ? WS_COUNTER_busy : WS_COUNTER_recovering);
	return ws_tell(turn, kind, flags);
}

/* On to the lock server of the name, with an order or, where it is not for the switch to say, without. */
WS_INLINE enum ws_action ws_pass_to_server(struct ws_turn *turn, ws_u16 server, ws_u64 order)
{
	ws_count(turn->sw, order ? WS_COUNTER_queue_overflowed : WS_COUNTER_queue_passed);
	ws_attempt_set_order(turn->entry, order);
	ws_header_set_destination(turn->header, server);
	return ws_to_node(turn, server, 0);
}

/* The answer that a packet of this kind gets by a copy of a GRANT that it has led to; 0: none. */
WS_INLINE ws_u8 ws_answer_of(ws_u8 cause)
{
	switch (cause) {
	case WS_QUEUE_RELEASE:
	case WS_QUEUE_CANCEL:
		return WS_QUEUE_RELEASED;
	case WS_QUEUE_PUSH:
	case WS_QUEUE_SETTLE:
		return WS_QUEUE_PUSHED;
	default:
		return 0;
	}
}

/* In place of the bytes that a third node is asked with: none was found. */
#define WS_NOBODY_THERE 0xffffu

/* A GRANT of the request that this packet asks for, by way of the third node that it names. What came has been cut to
 * an ACQUIRE's length, and what it asks that node for lies behind. */
WS_INLINE enum ws_action ws_tell_by_third(struct ws_turn *turn)
{
	ws_u8 blocks = (ws_u8)((turn->fetches + WS_BLOCK_BYTES - 1) / WS_BLOCK_BYTES);
	struct ws_node *third = ws_node_at(turn->sw, turn->third);

	ws_header_set_kind(turn->header, WS_QUEUE_FETCH);
	ws_header_set_count(turn->header, blocks);
	ws_header_set_destination(turn->header, turn->third);
	ws_fetch_set_incarnation(turn->entry, third->incarnation);
	ws_attempt_set_number(turn->entry, 0);
	ws_attempt_set_order(turn->entry, 0);
	ws_fetch_set_length(turn->entry, turn->fetches);
	ws_attempt_set_cause(turn->entry, WS_QUEUE_FETCH);
	turn->length += blocks * WS_BLOCK_BYTES;
	return ws_to_node(turn, turn->third, 0);
}

/* GRANT of a ticket that is granted: to its holder's thread, to the holder's agent port where it is reminded, or back
 * to who asks for just that. What came is answered by a copy, if it is to be answered at all. */
WS_INLINE enum ws_action ws_tell_granted(struct ws_turn *turn, struct ws_line *line, ws_u64 ticket, int reminds)
{
	struct ws_cell *cell = ws_cell_of(turn->sw, line->queue, ticket);
	ws_u8 cause = ws_header_kind(turn->header);
	ws_u64 who = cell ? ws_word_load(&cell->who) : 0;
	ws_u64 request = cell ? ws_word_load(&cell->request) : 0;
	ws_u16 holder = (ws_u16)ws_cell_who_holder(who);
	ws_u8 flags = ws_cell_who_exclusive(who) ? WS_QUEUE_FLAG_EXCLUSIVE : 0;
	int own = !ws_answer_of(cause) && holder == turn->source && request == ws_attempt_request(turn->entry);

	if (ticket + 1 == ws_word_load(&line->queue->granted) && ws_has_more(line))
		flags |= WS_QUEUE_FLAG_MORE;
	ws_attempt_set_over(turn->entry, ws_answer_of(cause) == WS_QUEUE_RELEASED ? ws_attempt_request(turn->entry) : 0);
	ws_attempt_set_request(turn->entry, request);
	ws_attempt_set_ticket(turn->entry, ticket);
	ws_attempt_set_holder(turn->entry, holder);
	ws_attempt_set_reply_port(turn->entry, (ws_u16)ws_cell_who_reply_port(who));
	ws_attempt_set_flags(turn->entry, flags);
	ws_attempt_set_cause(turn->entry, cause);
	ws_answer_with(turn, WS_QUEUE_GRANT, 0, holder);
	if (own && turn->third)
		return ws_tell_by_third(turn);
	if (own) {
		if (turn->fetches == WS_NOBODY_THERE)
			ws_attempt_set_cause(turn->entry, WS_QUEUE_FETCH);
		return ws_to_sender(turn);
	}
	if (ws_answer_of(cause)) {
		ws_header_set_source(turn->header, turn->source);
		ws_count(turn->sw, WS_COUNTER_copied);
		turn->verdict.copy = turn->source;
	}
	return ws_to_node(turn, holder, reminds ? 0 : (ws_u16)ws_cell_who_reply_port(who));
}

/* Turns a copy into what it tells: of a GRANT RELEASED or PUSHED for who asked, of the others ROOM for the lock server.
 * False: the packet is not one of these. */
WS_INLINE int ws_make_answer(void *packet, const void *end)
{
	ws_u8 *attempt = (ws_u8 *)packet + WS_HEADER_BYTES;
	ws_u16 receiver = ws_header_source(packet);

	if (attempt + WS_ATTEMPT_BYTES > (const ws_u8 *)end)
		return 0;
	ws_u8 kind = ws_header_kind(packet) == WS_QUEUE_GRANT ? ws_answer_of(ws_attempt_cause(attempt)) : WS_QUEUE_ROOM;
	ws_header_set_kind(packet, kind);
	ws_header_set_source(packet, WS_CONTROLLER_HANDLE);
	ws_header_set_destination(packet, receiver);
	return kind != 0;
}

/* What goes to the asker goes to the lock server too, as ROOM, where nobody is in the queue and it has more. */
WS_INLINE enum ws_action ws_tell_room_too(struct ws_turn *turn, struct ws_line *line, ws_u16 server,
					  enum ws_action action)
{
	if (server && ws_tail(line) == ws_head(line) && !ws_is_settled(line)) {
		ws_header_set_source(turn->header, server);
		ws_count(turn->sw, WS_COUNTER_copied);
		turn->verdict.copy = server;
	}
	return action;
}

/* The request is over. */
WS_INLINE enum ws_action ws_tell_released(struct ws_turn *turn, struct ws_line *line, ws_u16 server)
{
	ws_attempt_set_over(turn->entry, line->request);
	return ws_tell_room_too(turn, line, server, ws_tell(turn, WS_QUEUE_RELEASED, 0));
}

/* Whether the oldest holder is there to be reminded. */
WS_INLINE int ws_can_remind(struct ws_line *line)
{
	ws_u64 head = ws_head(line);
	struct ws_cell *cell = ws_cell_of(line->sw, line->queue, head);

	return cell && head < ws_word_load(&line->queue->granted) &&
	       ws_node_lives(line->sw, (ws_u16)ws_cell_who_holder(ws_word_load(&cell->who)));
}

/* The queue is full, or not to be used: with the next order, to the lock server. */
WS_INLINE enum ws_action ws_overflow(struct ws_turn *turn, struct ws_line *line, ws_u16 server)
{
	/* A queue that drains may have neither holders nor waiters: who tries comes again. */
	int is_empty = ws_drains(line) && ws_is_settled(line) && ws_head(line) == ws_tail(line);

	if (ws_attempt_flags(turn->entry) & WS_QUEUE_FLAG_TRY) {
		enum ws_action action = ws_tell_not_now(turn, WS_QUEUE_BUSY, is_empty ? WS_HEADER_FLAG_RETRY : 0);
		/* If the server has nothing after all, nobody but who tries may be left for it to hear that from. */
		return ws_tell_room_too(turn, line, server, action);
	}
	if (!server)
		return ws_tell_not_now(turn, WS_QUEUE_BUSY, WS_HEADER_FLAG_RETRY);
	ws_u64 order = ws_word_load(&line->queue->given) + 1;
	ws_word_store(&line->queue->given, order);
	if (ws_attempt_cause(turn->entry)) /* The controller sees to it that the lock becomes its server's. */
		ws_half_store(&line->queue->ranked, ws_half_load(&line->queue->ranked) + 1);
	return ws_pass_to_server(turn, server, order);
}

/* The one end of every packet about a queue. */
WS_INLINE enum ws_action ws_answer_line(struct ws_turn *turn, struct ws_line *line, enum ws_say say, ws_u16 server)
{
	int push = ws_header_kind(turn->header) == WS_QUEUE_PUSH;

	if (say == WS_SAY_PASS) /* Nobody has been granted anything. */
		return ws_pass_to_server(turn, server, 0);
	ws_show_queue(turn->entry, line);
	/* Nobody but those who find no room may be left to ask. */
	if (say == WS_SAY_OVERFLOW && !server && !(ws_attempt_flags(turn->entry) & WS_QUEUE_FLAG_TRY))
		say = WS_SAY_REMIND;
	if (!line->granted && say == WS_SAY_REMIND && !ws_can_remind(line))
		say = push ? WS_SAY_PUSHED : line->ticket ? WS_SAY_WAITING : WS_SAY_OVERFLOW;
	if (line->granted || say == WS_SAY_AGAIN || say == WS_SAY_REMIND) {
		ws_u64 ticket = line->granted		? line->granted
				: say == WS_SAY_REMIND	? ws_head(line)
							: line->ticket;
		ws_count(turn->sw, line->granted ? WS_COUNTER_queue_granted : WS_COUNTER_queue_granted_again);
		return ws_tell_granted(turn, line, ticket, !line->granted && say == WS_SAY_REMIND);
	}
	switch (say) {
	case WS_SAY_WAITING:
		ws_count(turn->sw, WS_COUNTER_queue_waiting);
		ws_attempt_set_ticket(turn->entry, line->ticket);
		return ws_tell(turn, WS_QUEUE_QUEUED, 0);
	case WS_SAY_RELEASED:
		return ws_tell_released(turn, line, server);
	case WS_SAY_BUSY:
		return ws_tell_not_now(turn, WS_QUEUE_BUSY, 0);
	case WS_SAY_OVERFLOW:
		return ws_overflow(turn, line, server);
	case WS_SAY_RECOVERING:
		return ws_tell_not_now(turn, WS_QUEUE_RECOVERING, 0);
	default:
		return ws_tell(turn, WS_QUEUE_PUSHED, 0);
	}
}

/* ---- messages ---- */

/* A cell for a request that has none, or why not. Whose priority matters, since it would wait, is the lock server's to
 * put in order: a cell is a place for good. */
WS_INLINE enum ws_say ws_try_to_line_up(struct ws_turn *turn, struct ws_line *line, ws_u16 server)
{
	ws_u8 flags = ws_attempt_flags(turn->entry);
	int exclusive = (flags & WS_QUEUE_FLAG_EXCLUSIVE) != 0;
	int waits;

	if (ws_drains(line) || !ws_is_settled(line) || !ws_room(line))
		return WS_SAY_OVERFLOW;
	if (ws_tail(line) > WS_LAST_TICKET)
		return WS_SAY_RECOVERING;
	waits = ws_word_load(&line->queue->granted) != ws_tail(line) || !ws_may_hold(line, exclusive);
	if (waits && flags & WS_QUEUE_FLAG_TRY)
		return WS_SAY_BUSY;
	if (waits && server && ws_attempt_cause(turn->entry))
		return WS_SAY_OVERFLOW;
	ws_line_up(line, turn->from_port, exclusive);
	return WS_SAY_WAITING;
}

/* ACQUIRE. */
WS_INLINE enum ws_say ws_on_queue_acquire(struct ws_turn *turn, struct ws_line *line, ws_u16 server)
{
	int named = ws_attempt_ticket(turn->entry) != 0;

	if (!line->ticket && named)
		return WS_SAY_RELEASED;
	if (!line->ticket) {
		/* What goes on to the lock server must not end as another one's GRANT: it would be nowhere until it is sent
		 * again. Those who wait here ask again themselves, and the server pushes. */
		line->passes = server && (ws_drains(line) || !ws_is_settled(line) || !ws_room(line));
		ws_go_on(line); /* Who tries finds nobody in its way who is over. */
		enum ws_say say = ws_try_to_line_up(turn, line, server);
		if (say != WS_SAY_OVERFLOW)
			line->passes = 0;
		return say;
	}
	/* The thread that asks again may be another one by now. */
	struct ws_cell *cell = ws_cell_of(turn->sw, line->queue, line->ticket);
	if (cell)
		ws_word_store(&cell->who, ws_cell_who_with_reply_port(ws_word_load(&cell->who), turn->from_port));
	if (line->ticket < ws_word_load(&line->queue->granted))
		return WS_SAY_AGAIN;
	return named ? WS_SAY_REMIND : WS_SAY_WAITING;
}

/* RELEASE and CANCEL. */
WS_INLINE enum ws_say ws_on_queue_release(struct ws_turn *turn, struct ws_line *line, ws_u16 server)
{
	int cancels = ws_header_kind(turn->header) == WS_QUEUE_CANCEL;

	if (line->ticket) {
		ws_count(turn->sw, WS_COUNTER_queue_released);
		ws_end(line, line->ticket);
	} else if (cancels && server && !ws_is_settled(line)) {
		return WS_SAY_PASS; /* It may wait there. */
	}
	return WS_SAY_RELEASED;
}

/* NEXT: where nobody is next the asker hears of its own request once more. */
WS_INLINE enum ws_say ws_on_next(struct ws_line *line)
{
	if (!line->ticket)
		return WS_SAY_RELEASED;
	return line->ticket < ws_word_load(&line->queue->granted) ? WS_SAY_AGAIN : WS_SAY_WAITING;
}

/* Whether a request that comes from the lock server is one of a session that lives, and that still waits for such. */
WS_INLINE int ws_is_asked_for(struct ws_turn *turn)
{
	struct ws_node *holder = ws_node_at(turn->sw, ws_attempt_holder(turn->entry));

	return !ws_check_holder(holder, ws_header_namespace(turn->header)) &&
	       !ws_check_age(holder, ws_attempt_request(turn->entry), 1);
}

/* PUSH. Whoever dies between giving the cell and counting the push has given a cell, which is found when the push comes
 * again. */
WS_INLINE enum ws_say ws_on_push(struct ws_turn *turn, struct ws_line *line)
{
	ws_u64 order = ws_attempt_order(turn->entry);

	if (ws_attempt_number(turn->entry) != ws_word_load(&line->queue->pushed) + 1)
		return WS_SAY_PUSHED;
	if (!ws_room(line) || ws_drains(line) || ws_tail(line) > WS_LAST_TICKET)
		return WS_SAY_REMIND;
	if (!line->ticket && ws_is_asked_for(turn))
		ws_line_up(line, ws_attempt_reply_port(turn->entry),
			   (ws_attempt_flags(turn->entry) & WS_QUEUE_FLAG_EXCLUSIVE) != 0);
	if (order > ws_word_load(&line->queue->settled))
		ws_word_store(&line->queue->settled, order);
	ws_word_store(&line->queue->pushed, ws_attempt_number(turn->entry));
	ws_count(turn->sw, WS_COUNTER_queue_pushed);
	return WS_SAY_PUSHED;
}

/* SETTLE. */
WS_INLINE enum ws_say ws_on_settle(struct ws_turn *turn, struct ws_line *line)
{
	ws_u64 order = ws_attempt_order(turn->entry);

	if (ws_attempt_number(turn->entry) == ws_word_load(&line->queue->pushed) &&
	    order > ws_word_load(&line->queue->settled))
		ws_word_store(&line->queue->settled, order);
	return WS_SAY_PUSHED;
}

/* What is asked about a lock of a server that is not there. Whoever holds by it is not told that this is over: the next
 * one will know. Who gives back is told that it is done, or would ask for ever. */
WS_INLINE enum ws_action ws_tell_without_server(struct ws_turn *turn)
{
	ws_u8 kind = ws_header_kind(turn->header);
	int tries = (ws_attempt_flags(turn->entry) & WS_QUEUE_FLAG_TRY) != 0;

	if (kind == WS_QUEUE_RELEASE || kind == WS_QUEUE_CANCEL) {
		ws_attempt_set_over(turn->entry, ws_attempt_request(turn->entry));
		return ws_tell(turn, WS_QUEUE_RELEASED, 0);
	}
	if (kind == WS_QUEUE_ACQUIRE && tries && !ws_attempt_ticket(turn->entry))
		return ws_tell_not_now(turn, WS_QUEUE_BUSY, 0);
	return ws_drop(turn, WS_DROP_REASON_NO_SERVER);
}

/* What is asked about a lock that is its server's: where it was here before, the server hears with it from which ticket
 * on it grants, whether it knows of the move or not. */
WS_INLINE enum ws_action ws_on_lent(struct ws_turn *turn, struct ws_line *line, ws_u16 server, int of_server)
{
	if (of_server)
		return ws_drop(turn, WS_DROP_REASON_NO_QUEUE);
	if (!server)
		return ws_tell_without_server(turn);
	if (ws_half_load(&line->queue->stage) == WS_STAGE_HANDED)
		ws_attempt_set_over(turn->entry, ws_tail(line));
	return ws_pass_to_server(turn, server, 0);
}

/* FETCHED, of a third node to a holder: only while that holds, and what of it is the switch's to say is what the cell
 * says. Nothing changes here: who is next is for those who want the lock. */
WS_INLINE enum ws_action ws_tell_fetched(struct ws_turn *turn, struct ws_line *line)
{
	ws_u64 ticket = ws_attempt_ticket(turn->entry);

	if (ws_is_lent(line->queue) || ws_half_load(&line->queue->epoch) != ws_header_epoch(turn->header))
		return ws_drop(turn, WS_DROP_REASON_NO_QUEUE);
	struct ws_cell *cell = ws_cell_of(turn->sw, line->queue, ticket);
	ws_u64 who = cell ? ws_word_load(&cell->who) : 0;
	int holds = cell && ticket >= ws_head(line) && ticket < ws_word_load(&line->queue->granted);
	if (!holds || ws_cell_who_over(who) || ws_cell_who_holder(who) != line->holder ||
	    ws_word_load(&cell->request) != line->request)
		return ws_drop(turn, WS_DROP_REASON_STALE_REQUEST);
	ws_u16 port = (ws_u16)ws_cell_who_reply_port(who);
	ws_u8 flags = ws_cell_who_exclusive(who) ? WS_QUEUE_FLAG_EXCLUSIVE : 0;
	if (ticket + 1 == ws_word_load(&line->queue->granted) && ws_has_more(line))
		flags |= WS_QUEUE_FLAG_MORE;
	ws_header_set_flags(turn->header, ws_header_flags(turn->header) & WS_HEADER_FLAG_REFUSED);
	ws_fetch_set_incarnation(turn->entry, 0);
	ws_attempt_set_number(turn->entry, 0);
	ws_attempt_set_order(turn->entry, 0);
	ws_attempt_set_reply_port(turn->entry, port);
	ws_attempt_set_flags(turn->entry, flags);
	ws_attempt_set_cause(turn->entry, WS_QUEUE_FETCH);
	ws_header_set_destination(turn->header, (ws_u16)ws_cell_who_holder(who));
	return ws_on_relay(turn, port);
}

/* What is decided on a queue under its lock. `may_be_fetched` is known to the compiler. */
WS_INLINE enum ws_action ws_decide_line(struct ws_turn *turn, struct ws_line *line, int may_be_fetched)
{
	ws_u8 kind = ws_header_kind(turn->header);
	int of_server = kind == WS_QUEUE_PUSH || kind == WS_QUEUE_SETTLE;
	ws_u16 server = ws_live_server_of(turn, ws_attempt_name(turn->entry));
	enum ws_say say;

	if (!ws_is_queue_of(line->queue, ws_attempt_name(turn->entry), ws_header_namespace(turn->header)))
		return ws_drop(turn, WS_DROP_REASON_LOST_RACE);
	if (may_be_fetched && kind == WS_QUEUE_FETCHED)
		return ws_tell_fetched(turn, line);
	if (ws_half_load(&line->queue->epoch) != ws_header_epoch(turn->header))
		return ws_tell_not_now(turn, WS_QUEUE_RECOVERING, 0);
	if (!ws_is_live(ws_word_load(&turn->sender->word)))
		return ws_drop(turn, WS_DROP_REASON_SOURCE_NOT_LIVE);
	if (ws_is_lent(line->queue))
		return ws_on_lent(turn, line, server, of_server);
	/* Another node may have been given the part since: what that one is told here must not be overtaken. */
	if (of_server && turn->source != server)
		return ws_drop(turn, WS_DROP_REASON_NOT_ITS_SERVER);
	if (of_server && ws_attempt_order(turn->entry) > ws_word_load(&line->queue->given))
		return ws_drop(turn, WS_DROP_REASON_BAD_STATE);
	/* What a lock server had is lost with it; who waited there asks again. */
	if (!server && !ws_is_settled(line))
		ws_word_store(&line->queue->settled, ws_word_load(&line->queue->given));
	ws_find_cell(line, of_server ? 0 : ws_attempt_ticket(turn->entry));
	switch (kind) {
	case WS_QUEUE_ACQUIRE:
		say = ws_on_queue_acquire(turn, line, server);
		break;
	case WS_QUEUE_NEXT:
		say = ws_on_next(line);
		break;
	case WS_QUEUE_PUSH:
		say = ws_on_push(turn, line);
		break;
	case WS_QUEUE_SETTLE:
		say = ws_on_settle(turn, line);
		break;
	default:
		say = ws_on_queue_release(turn, line, server);
	}
	/* Whichever it was, and whatever was found: as in ws_queue_packet. */
	say = (enum ws_say)ws_veil(turn->header, say);
	server = (ws_u16)ws_veil(turn->header, server);
	line->ticket = ws_veil(turn->header, line->ticket);
	/* What is not the switch's to say changes nothing here. Who holds is told just that; NEXT asks for somebody else. */
	if (say != WS_SAY_PASS && (say != WS_SAY_AGAIN || kind == WS_QUEUE_NEXT) && !line->granted)
		ws_go_on(line);
	return ws_answer_line(turn, line, say, server);
}

/* Takes the queue's lock, decides, and gives it back. */
WS_INLINE enum ws_action ws_on_line(struct ws_turn *turn, struct ws_queue *queue, int may_be_fetched)
{
	struct ws_line line = {
		.sw = turn->sw,
		.queue = queue,
		.request = ws_attempt_request(turn->entry),
		.holder = ws_attempt_holder(turn->entry),
	};
	ws_u64 lock;

	if (!ws_take(turn->sw, &queue->lock, &lock)) /* Sent again, it finds its turn. */
		return ws_drop(turn, WS_DROP_REASON_LOST_RACE);
	enum ws_action action = ws_decide_line(turn, &line, may_be_fetched);
	ws_word_store(&queue->lock, lock);
	return action;
}

/* The drop reason of what a holder may not ask, or 0, with nothing left in the packet that only the switch may say. */
WS_INLINE ws_u8 ws_check_ask(struct ws_turn *turn)
{
	int acquires = ws_header_kind(turn->header) == WS_QUEUE_ACQUIRE;
	void *attempt = turn->entry;

	if (ws_attempt_holder(attempt) != turn->source)
		return WS_DROP_REASON_FOREIGN_HOLDER;
	ws_u8 reason = ws_check_age(turn->sender, ws_attempt_request(attempt), acquires);
	if (reason)
		return reason;
	if (ws_header_kind(turn->header) == WS_QUEUE_RELEASE && !ws_attempt_ticket(attempt))
		return WS_DROP_REASON_BAD_STATE;
	ws_attempt_set_reply_port(attempt, turn->from_port);
	ws_attempt_set_flags(attempt, ws_attempt_flags(attempt) & (WS_QUEUE_FLAG_EXCLUSIVE | WS_QUEUE_FLAG_TRY));
	ws_attempt_set_over(attempt, 0);
	ws_attempt_set_number(attempt, 0);
	ws_attempt_set_order(attempt, 0);
	ws_attempt_set_room(attempt, 0);
	/* The lock server orders by it, and sees no more than that. */
	ws_attempt_set_cause(attempt, acquires ? ws_attempt_cause(attempt) & WS_MAX_PRIORITY : 0);
	return WS_DROP_REASON_NONE;
}

/* What a holder asks. */
WS_INLINE enum ws_action ws_on_ask(struct ws_turn *turn)
{
	ws_u8 reason = ws_check_ask(turn);
	int acquires = ws_header_kind(turn->header) == WS_QUEUE_ACQUIRE;

	if (reason)
		return ws_drop(turn, reason);
	/* Who names a ticket has been charged: a hold must not end because others ask for much. */
	if (acquires && !ws_attempt_ticket(turn->entry) && !ws_admits(turn, 1))
		return ws_refuse(turn, 1, 1);
	if (!ws_serves(turn->sw))
		return ws_tell_not_now(turn, WS_QUEUE_RECOVERING, 0);
	ws_u64 name = ws_attempt_name(turn->entry);
	struct ws_queue *queue = ws_find_queue(turn, name);
	if (queue)
		return ws_on_line(turn, queue, 0);
	ws_u16 server = ws_live_server_of(turn, name);
	if (!server)
		return ws_tell_without_server(turn);
	return ws_pass_to_server(turn, server, 0);
}

/* Whether a packet has the blocks that its length takes, and no others. */
WS_INLINE int ws_has_its_blocks(struct ws_turn *turn)
{
	ws_u32 blocks = (ws_fetch_length(turn->entry) + WS_BLOCK_BYTES - 1u) / WS_BLOCK_BYTES;

	return blocks == ws_header_count(turn->header);
}

/* FETCH: turns it into the ACQUIRE that it is, but that the grant, if there is one at once, goes by way of a third
 * node. Where that is not there, or is another session by now, nothing else is left of it, and the holder is told so
 * with a grant that he has at once. The drop reason, or 0. */
WS_INLINE ws_u8 ws_on_fetch(struct ws_turn *turn)
{
	ws_u16 third = ws_header_destination(turn->header);
	struct ws_node *node = ws_node_at(turn->sw, third);

	if (!ws_has_its_blocks(turn))
		return WS_DROP_REASON_BAD_VALUE;
	if (ws_attempt_ticket(turn->entry)) /* Who has one would not be charged, and the third node is asked each time. */
		return WS_DROP_REASON_BAD_STATE;
	if (!ws_check_holder(node, ws_header_namespace(turn->header)) &&
	    node->incarnation == ws_fetch_incarnation(turn->entry)) {
		turn->third = third;
		turn->fetches = ws_fetch_length(turn->entry);
	} else {
		turn->fetches = WS_NOBODY_THERE;
	}
	ws_header_set_kind(turn->header, WS_QUEUE_ACQUIRE);
	ws_header_set_count(turn->header, 0);
	turn->length = WS_HEADER_BYTES + WS_ATTEMPT_BYTES;
	return WS_DROP_REASON_NONE;
}

/* The drop reason of a FETCHED that is none, or that nobody can look at now. */
WS_INLINE ws_u8 ws_check_fetched(struct ws_turn *turn)
{
	if (!ws_has_its_blocks(turn))
		return WS_DROP_REASON_BAD_VALUE;
	if (!ws_attempt_ticket(turn->entry))
		return WS_DROP_REASON_BAD_STATE;
	return ws_serves(turn->sw) ? WS_DROP_REASON_NONE : WS_DROP_REASON_NOT_SERVING;
}

/* What a lock server says: of a queue to the switch, of its own locks to their holders. And what a third node does. */
WS_INLINE enum ws_action ws_on_server(struct ws_turn *turn)
{
	ws_u64 name = ws_attempt_name(turn->entry);
	ws_u8 kind = ws_header_kind(turn->header);
	int fetched = kind == WS_QUEUE_FETCHED;
	int of_queue = kind == WS_QUEUE_PUSH || kind == WS_QUEUE_SETTLE || fetched;
	ws_u8 reason = fetched					       ? ws_check_fetched(turn)
		       : turn->source != ws_server_of(turn, name) ? WS_DROP_REASON_NOT_ITS_SERVER
								       : WS_DROP_REASON_NONE;

	if (reason)
		return ws_drop(turn, reason);
	if (!ws_serves(turn->sw))
		return ws_tell_not_now(turn, WS_QUEUE_RECOVERING, 0);
	struct ws_queue *queue = of_queue || kind == WS_QUEUE_GRANT ? ws_find_queue(turn, name) : 0;
	if (of_queue)
		return queue ? ws_on_line(turn, queue, 1) : ws_drop(turn, WS_DROP_REASON_NO_QUEUE);
	if (queue && !ws_is_lent(queue)) /* The switch alone grants what is in its queue. */
		return ws_drop(turn, WS_DROP_REASON_NOT_ITS_SERVER);
	return ws_on_relay(turn, ws_attempt_reply_port(turn->entry));
}

/* A function of its own, as ws_chain is, and for the same reason. */
static __attribute__((noinline)) enum ws_action ws_queue_packet(struct ws_turn *turn)
{
	ws_u32 epoch = ws_half_load(&ws_globals(turn->sw)->epoch);

	if ((const ws_u8 *)turn->entry + WS_ATTEMPT_BYTES > (const ws_u8 *)turn->end)
		return ws_drop(turn, WS_DROP_REASON_BAD_LENGTH);
	if (!epoch || ws_header_epoch(turn->header) != epoch)
		return ws_tell_stale(turn, epoch);
	ws_u8 reason = ws_check_source(turn, ws_header_namespace(turn->header));
	if (!reason && ws_header_kind(turn->header) == WS_QUEUE_FETCH)
		reason = ws_on_fetch(turn);
	if (reason)
		return ws_drop(turn, reason);
	/* Whichever it was: the verifier is to walk through what follows once. */
	turn->third = (ws_u16)ws_veil(turn->header, turn->third);
	turn->fetches = (ws_u16)ws_veil(turn->header, turn->fetches);
	turn->length = (ws_u32)ws_veil(turn->header, turn->length);
	switch (ws_header_kind(turn->header)) {
	case WS_QUEUE_ACQUIRE:
	case WS_QUEUE_RELEASE:
	case WS_QUEUE_CANCEL:
	case WS_QUEUE_NEXT:
		return ws_on_ask(turn);
	case WS_QUEUE_FETCHED:
	case WS_QUEUE_PUSH:
	case WS_QUEUE_SETTLE:
	case WS_QUEUE_GRANT:
	case WS_QUEUE_QUEUED:
	case WS_QUEUE_RELEASED:
	case WS_QUEUE_BUSY:
		return ws_on_server(turn);
	case WS_QUEUE_SERVE:
	case WS_QUEUE_CEDED:
	case WS_QUEUE_TAKEN:
	case WS_QUEUE_ASKED:
		return ws_to_controller(turn);
	default: /* RECOVERING, PUSHED, ROOM are the switch's, SERVING, RECALL and YIELD the controller's. */
		return ws_drop(turn, WS_DROP_REASON_UNKNOWN_KIND);
	}
}

#endif
