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
 *   - A packet that is refused changes no more than counters. Its sender retransmits, in pauses that double.
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

#endif
