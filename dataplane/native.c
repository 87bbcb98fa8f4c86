/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#include "native.h"
#include "packet.h"

struct ws_verdict ws_process(struct ws_switch *sw, void *packet, ws_u32 length, ws_u16 from_port)
{
	struct ws_verdict verdict;

	ws_decide(sw, packet, (ws_u8 *)packet + length, length, from_port, &verdict);
	return verdict;
}

int ws_process_copy(struct ws_switch *sw, void *packet, ws_u32 length)
{
	return ws_make_copy(sw, packet, (ws_u8 *)packet + length, length);
}

int ws_process_seal(struct ws_switch *sw, ws_u16 receiver, void *packet, ws_u32 length)
{
	if (!ws_half_load(&ws_globals(sw)->authenticated))
		return 1;
	return ws_sign(sw, receiver, packet, (ws_u8 *)packet + WS_HEADER_BYTES, (ws_u8 *)packet + length, length);
}

ws_u32 ws_counter_count(void) { return WS_COUNTERS; }

const char *ws_counter_name(ws_u32 counter)
{
#define WS_OUTCOME_NAME(name) #name,
	static const char *const outcomes[] = { WS_OUTCOMES(WS_OUTCOME_NAME) };
#undef WS_OUTCOME_NAME

	if (counter < WS_DROP_REASON_COUNT)
		return ws_drop_reason_name((ws_u8)counter);
	return counter < WS_COUNTERS ? outcomes[counter - WS_DROP_REASON_COUNT] : "unknown";
}
