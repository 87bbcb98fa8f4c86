/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Runs packets from standard input through the native core, each in memory of exactly its length, so that a sanitizer
 * sees every byte too far. Records, integers in the machine's byte order:
 *
 *   'S' slots[16] nodes[16] regions[4] keys[16] globals    the switch is this from now on
 *       groups[4] buckets[2] items[6] lanes[256] store
 *       queues[5] cells[16] names[2] directory servers[4]
 *   'P' length (u16) port (u16) packet                     one packet
 *
 * Built and fed by crates/switch/tests/sanitizers.rs. Prints how many packets it decided. */
#include <stdio.h>
#include <stdlib.h>

#include "../native.h"

enum { SLOTS = 16, NODES = 16, REGIONS = 4, GROUPS = 4, BUCKETS = 2, ITEMS = 6, LANES = NODES * WS_MAX_LANES };
enum { QUEUES = 5, CELLS = 16, NAMES = 2 };

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
		.groups = calloc(WS_GROUPS, sizeof(struct ws_group)),
		.buckets = calloc(BUCKETS, sizeof(struct ws_bucket)),
		.items = calloc(ITEMS, sizeof(struct ws_item)),
		.lanes = calloc(LANES, sizeof(struct ws_lane)),
		.journal = calloc(WS_RECORDS, sizeof(struct ws_record)),
		.store = calloc(1, sizeof(struct ws_store)),
		.bucket_count = BUCKETS,
		.item_count = ITEMS,
		.lane_count = LANES,
		.owner = 1,
		.queues = calloc(QUEUES, sizeof(struct ws_queue)),
		.cells = calloc(CELLS, sizeof(struct ws_cell)),
		.names = calloc(NAMES, sizeof(struct ws_bucket)),
		.servers = calloc(WS_REGIONS, sizeof(struct ws_servers)),
		.directory = calloc(1, sizeof(struct ws_directory)),
		.queue_count = QUEUES,
		.cell_count = CELLS,
		.name_count = NAMES,
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
			read_exactly(sw.groups, GROUPS * sizeof(struct ws_group));
			read_exactly(sw.buckets, BUCKETS * sizeof(struct ws_bucket));
			read_exactly(sw.items, ITEMS * sizeof(struct ws_item));
			read_exactly(sw.lanes, LANES * sizeof(struct ws_lane));
			read_exactly(sw.store, sizeof(struct ws_store));
			read_exactly(sw.queues, QUEUES * sizeof(struct ws_queue));
			read_exactly(sw.cells, CELLS * sizeof(struct ws_cell));
			read_exactly(sw.names, NAMES * sizeof(struct ws_bucket));
			read_exactly(sw.directory, sizeof(struct ws_directory));
			read_exactly(sw.servers, REGIONS * sizeof(struct ws_servers));
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
	free(sw.groups);
	free(sw.buckets);
	free(sw.items);
	free(sw.lanes);
	free(sw.journal);
	free(sw.store);
	free(sw.queues);
	free(sw.cells);
	free(sw.names);
	free(sw.servers);
	free(sw.directory);
	return 0;
}
