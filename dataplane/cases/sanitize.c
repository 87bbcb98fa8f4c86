/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Runs packets from standard input through the native core, each in memory of exactly its length, so that a sanitizer
 * sees every byte too far. Records, integers in the machine's byte order:
 *
 *   'S' slots[16] nodes[16] regions[4] keys[16] globals    the switch is this from now on
 *   'P' length (u16) port (u16) packet                     one packet
 *
 * Built and fed by crates/switch/tests/sanitizers.rs. Prints how many packets it decided. */
#include <stdio.h>
#include <stdlib.h>

#include "../native.h"

enum { SLOTS = 16, NODES = 16, REGIONS = 4 };

static void read_exactly(void *to, size_t bytes)
{
	if (bytes && fread(to, bytes, 1, stdin) != 1) {
		fprintf(stderr, "sanitize: a record is cut short\n");
		exit(2);
	}
}

int main(void)
{
	struct ws_switch sw = {
		.slots = calloc(SLOTS, sizeof(struct ws_slot)),
		.nodes = calloc(WS_NODES, sizeof(struct ws_node)),
		.regions = calloc(WS_REGIONS, sizeof(struct ws_region)),
		.keys = calloc(WS_NODES, sizeof(struct ws_keys)),
		.globals = calloc(1, sizeof(struct ws_globals)),
		.counters = calloc(ws_counter_count(), sizeof(ws_u64)),
		.slot_count = SLOTS,
		.now_us = 1000000,
	};
	unsigned long decided = 0;
	int kind;

	while ((kind = getchar()) != EOF) {
		if (kind == 'S') {
			read_exactly(sw.slots, SLOTS * sizeof(struct ws_slot));
			read_exactly(sw.nodes, NODES * sizeof(struct ws_node));
			read_exactly(sw.regions, REGIONS * sizeof(struct ws_region));
			read_exactly(sw.keys, NODES * sizeof(struct ws_keys));
			read_exactly(sw.globals, sizeof(struct ws_globals));
			continue;
		}
		ws_u16 length, port;
		read_exactly(&length, sizeof length);
		read_exactly(&port, sizeof port);
		ws_u8 *packet = malloc(length ? length : 1);
		read_exactly(packet, length);
		struct ws_verdict verdict = ws_process(&sw, packet, length, port);
		if (verdict.length > length || (verdict.copy && verdict.action == WS_DROP))
			abort();
		if (verdict.copy)
			ws_process_copy(&sw, packet, verdict.length);
		free(packet);
		decided++;
	}
	printf("%lu\n", decided);
	free(sw.slots);
	free(sw.nodes);
	free(sw.regions);
	free(sw.keys);
	free(sw.globals);
	free(sw.counters);
	return 0;
}
