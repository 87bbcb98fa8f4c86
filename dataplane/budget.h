/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * A namespace's budget: at most so many requests a second are decided, so that a tenant that floods the switch takes no
 * more of it than that. docs/isolation.md says what it keeps from whom.
 *
 *   now                  due                       now + burst * cost
 *    |--- admitted, to ---|------ room for the ------|------------------> units of the platform's clock
 *        be paid for          requests to come
 *
 * Every request moves `due` on by its cost, which is a second divided by the rate; time catches up with it. This is a
 * bucket of `burst` tokens, in one word and without a timer to fill it.
 *
 * Invariants
 *   - Only ACQUIREs are charged. What gives back, hands over, mends or says that a node lives never is: otherwise a
 *     flood would pin the locks of its own tenant, and the nodes of others that wait for a census.
 *   - Charged is what has been checked, tag and sender included: nobody spends another tenant's budget.
 *   - A packet that is refused changes no more than counters, and `told`. Its sender retransmits, in pauses that
 *     double.
 *   - Of all that are refused one is told so (REJECT) for each packet that was admitted before: a flood is answered no
 *     faster than its tenant is granted something, and with no more bytes than it sent. With several CPUs it may be one
 *     more for each that decides in the same moment.
 *   - Within any time t at most rate * t + burst requests are admitted, and one packet more for every other CPU that
 *     decides in the same moment: what was looked at may have moved on when it is added to.
 */
#ifndef WAYSIDE_BUDGET_H
#define WAYSIDE_BUDGET_H

#include "session.h"

/* Charges a budget for so many requests. False, and nothing charged: it has no room for all of them. */
WS_INLINE int ws_charge(struct ws_switch *sw, struct ws_meter *meter, ws_u32 burst, ws_u32 requests)
{
	ws_u64 cost = ws_word_load(&meter->cost);
	ws_u64 due = ws_word_load(&meter->due);
	ws_u64 now = ws_meter_now(sw);
	ws_u64 charge = cost * requests;
	int idle = due < now; /* what was saved beyond a burst is lost */

	if ((idle ? now : due) + charge > now + cost * burst)
		return 0;
	if (!idle || !ws_word_cas(&meter->due, due, now + charge))
		ws_word_add(&meter->due, charge);
	return 1;
}

/* Whether the namespace of a packet may have so many requests more decided. */
WS_INLINE int ws_admits(struct ws_turn *turn, ws_u32 requests)
{
	ws_u32 burst = ws_half_load(&turn->region->burst);

	if (!burst || ws_charge(turn->sw, ws_meter_of(turn->region), burst, requests))
		return 1;
	ws_word_add(&turn->region->over_budget, 1);
	return 0;
}

/* Microseconds until all that was admitted and so many requests more will have been paid for, but for a burst: in whole
 * requests, which cost as much by every clock. WS_MAX_PAUSE_US at most. */
WS_INLINE ws_u32 ws_room_in_us(struct ws_turn *turn, ws_u32 requests)
{
	struct ws_meter *meter = ws_meter_of(turn->region);
	ws_u64 cost = ws_word_load(&meter->cost);
	ws_u64 room = ws_meter_now(turn->sw) + cost * ws_half_load(&turn->region->burst);
	ws_u64 end = ws_word_load(&meter->due) + cost * requests;
	ws_u64 over = cost && end > room ? (end - room + cost - 1) / cost : 0;

	if (!cost || over > WS_MAX_PAUSE_US * 10ull) /* each costs a tenth of a microsecond or more */
		over = WS_MAX_PAUSE_US * 10ull;
	ws_u64 pause = over * ws_word_load(&turn->region->by_clock.cost) >> WS_METER_CLOCK_SHIFT;
	return pause < WS_MAX_PAUSE_US ? (ws_u32)pause : WS_MAX_PAUSE_US;
}

/* Over the budget. Whoever asked itself is told when to come again, unless somebody was told since something was
 * admitted last: then, and if its agent sent it back, the packet is dropped as if it had been lost. `queued`: it is of
 * the queue service, and so longer. */
WS_INLINE enum ws_action ws_refuse(struct ws_turn *turn, ws_u32 requests, const int queued)
{
	ws_u64 due = ws_word_load(&ws_meter_of(turn->region)->due);
	ws_u32 state = (ws_u32)(due ^ due >> 32);
	ws_u32 *told = ws_told_of(turn->region);

	if ((!queued && !turn->direct) || ws_half_load(told) == state)
		return ws_drop(turn, WS_DROP_REASON_OVER_BUDGET);
	ws_half_store(told, state);
	ws_count(turn->sw, WS_DROP_REASON_OVER_BUDGET);
	ws_count(turn->sw, WS_COUNTER_rejected);
	turn->verdict.reason = WS_DROP_REASON_OVER_BUDGET;
	if (queued) {
		ws_attempt_set_order(turn->entry, ws_room_in_us(turn, requests));
		ws_answer_with(turn, WS_QUEUE_REJECT, 0, turn->source);
		return ws_to_sender(turn);
	}
	/* Of several, the first is who waits for the answer. */
	ws_entry_set_tenure(turn->entry, ws_room_in_us(turn, requests));
	ws_header_set_count(turn->header, 1);
	turn->length = WS_HEADER_BYTES + WS_ENTRY_BYTES;
	ws_answer_with(turn, WS_LOCK_REJECT, 0, turn->source);
	return ws_to_sender(turn);
}

#endif
