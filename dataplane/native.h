/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* The native build's entry points: for crates/switch, and for anything else that links native.c. */
#ifndef WAYSIDE_NATIVE_H
#define WAYSIDE_NATIVE_H

#include "platform_native.h"

/* Decides one packet and rewrites it in place. Any number of threads at once. */
struct ws_verdict ws_process(struct ws_switch *sw, void *packet, ws_u32 length, ws_u16 from_port);

/* The JOIN for `verdict.copy`, made of a copy of the packet, of `verdict.length` bytes. 0: it must not be sent. */
int ws_process_copy(struct ws_switch *sw, void *packet, ws_u32 length);

/* Signs a packet of the daemon's own for a receiver, while packets are signed. 0: it must not be sent. */
int ws_process_seal(struct ws_switch *sw, ws_u16 receiver, void *packet, ws_u32 length);

/* Counters by number, 0 to ws_counter_count() - 1: drop reasons, then outcomes. */
ws_u32 ws_counter_count(void);
const char *ws_counter_name(ws_u32 counter);

#endif
