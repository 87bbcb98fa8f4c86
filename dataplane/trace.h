/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Decisions that are followed: of one request in `trace_one_in`, when the switch began to decide and when it had, and
 * what became of it. The daemon reads them, and tells a collector (docs/metrics.md, "The switch's part").
 *
 * Which requests these are follows from their ids, as at the nodes (mix(id) mod N is 0): so all processes with the same
 * N follow the same requests, without a word in any packet.
 *
 * Invariants
 *   - Where packets are signed, what strangers make up takes no place: its tag is checked before.
 *   - Whoever decides takes the next place by an atomic count, so no two write one at a time unless one of them is
 *     stopped for a whole lap of the ring; and says last, by `ended_ns`, that it is whole. What is written at either
 *     end says of which lap: where they differ, from each other or from what the count says, nothing is believed. It
 *     waits for nobody: who reads too late has lost what was overwritten, and sees so by the count.
 *   - A lane's word is 0 whenever following begins (the daemon sees to it): what a decision finds there is its own.
 *   - While nothing is to be followed a decision costs a look at a line that it reads anyway.
 */
#ifndef WAYSIDE_TRACE_H
#define WAYSIDE_TRACE_H

#include "session.h"

/* Whether a packet asks for one lock: of several in one packet none is followed, as at the nodes. */
WS_INLINE int ws_asks_for_one(const void *header)
{
	ws_u8 kind = ws_header_kind(header);

	if (ws_header_service(header) == WS_SERVICE_QUEUE)
		return kind == WS_QUEUE_ACQUIRE || kind == WS_QUEUE_FETCH;
	return ws_header_service(header) == WS_SERVICE_LOCK && kind == WS_LOCK_ACQUIRE && ws_header_count(header) == 1;
}

/* What a lane follows: its number, modulo 2^15, which is lap and place, with this bit. 0: nothing. */
#define WS_FOLLOWED 0x8000

/* Which time round the ring a number is of, modulo 64. */
WS_INLINE ws_u64 ws_lap_of(ws_u64 number) { return number / WS_TRACES & 63; }

/* Begins to follow a packet, if it is to be. */
WS_INLINE void ws_trace_begin(struct ws_turn *turn)
{
	ws_u32 one_in = ws_half_load(&ws_globals(turn->sw)->trace_one_in);
	ws_u64 *follows = one_in ? ws_follows(turn->sw) : 0;

	if (!follows || !ws_asks_for_one(turn->header))
		return;
	ws_u64 request = ws_entry_request(turn->entry); /* an attempt has it in the same place */
	if (!request || ws_mix(request) % one_in) /* 0 is nobody's, and no trace's */
		return;
	struct ws_traces *traces = ws_traces(turn->sw);
	ws_u64 number = ws_word_next(&traces->begun) - 1;
	struct ws_trace *trace = &traces->of[number & (WS_TRACES - 1)];
	ws_word_store(&trace->ended_ns, 0);
	ws_word_store(&trace->request, request);
	ws_word_store(&trace->began, (ws_now_ns() & WS_TRACE_TIME) | ws_lap_of(number) << 58);
	*follows = (number & (WS_FOLLOWED - 1)) | WS_FOLLOWED;
}

/* What became of it. */
WS_INLINE void ws_trace_end(struct ws_turn *turn, enum ws_action action)
{
	ws_u64 *follows = ws_half_load(&ws_globals(turn->sw)->trace_one_in) ? ws_follows(turn->sw) : 0;
	ws_u64 number = follows ? *follows : 0;

	/* What is followed has a header: the verifier is to know. */
	if (!(number & WS_FOLLOWED) || (const ws_u8 *)turn->header + WS_HEADER_BYTES > (const ws_u8 *)turn->end)
		return;
	*follows = 0;
	struct ws_trace *trace = &ws_traces(turn->sw)->of[number & (WS_TRACES - 1)];
	ws_u64 what = (action & 3) | ws_lap_of(number) << 2;
	what |= (ws_u64)turn->verdict.reason << 8 | (ws_u64)turn->verdict.handle << 16;
	what |= (ws_u64)ws_header_kind(turn->header) << 32 | (ws_u64)ws_header_service(turn->header) << 40;
	what |= (ws_u64)ws_header_namespace(turn->header) << 48;
	ws_word_store(&trace->what, what);
	ws_word_store(&trace->ended_ns, ws_now_ns());
}

#endif
