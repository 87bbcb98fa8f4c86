/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* All that differs between the native build and the BPF build: this file against platform_bpf.h. */
#ifndef WAYSIDE_PLATFORM_H
#define WAYSIDE_PLATFORM_H

#include "cells.h"
#include <time.h>

/* A switch as one thread sees it. */
struct ws_switch {
	struct ws_slot *slots;
	struct ws_region *regions; /* WS_REGIONS of them */
	struct ws_node *nodes;     /* WS_NODES of them */
	struct ws_keys *keys;      /* WS_NODES of them */
	struct ws_globals *globals;
	ws_u64 *counters; /* WS_COUNTERS of them */
	ws_u32 slot_count;
	ws_u32 alone;  /* not 0: no other thread counts in `counters` */
	ws_u64 now_us; /* read after the packet was received, by the clock that a lease's `end_us` is of */
	/* The chain service's. */
	struct ws_group *groups; /* WS_GROUPS of them */
	struct ws_bucket *buckets;
	struct ws_item *items;
	struct ws_lane *lanes;
	struct ws_record *journal; /* WS_RECORDS of them, or 0: there are no keys */
	struct ws_store *store;
	ws_u32 bucket_count;
	ws_u32 item_count;
	ws_u32 lane_count;
	ws_u32 owner; /* of the locks that this thread takes: not 0, and no other thread's or CPU's */
	/* The queue service's. */
	struct ws_queue *queues;
	struct ws_cell *cells;
	struct ws_bucket *names;
	struct ws_servers *servers; /* WS_REGIONS of them */
	struct ws_directory *directory;
	ws_u32 queue_count;
	ws_u32 cell_count;
	ws_u32 name_count; /* buckets */
	struct ws_traces *traces;
};

/* Sequentially consistent, both: a node's word read after a slot was won must not be an older one than the controller's
 * sweep of that slot has left behind. An acquire would not do: it may be read before the compare-and-swap is seen. */
WS_INLINE ws_u64 ws_word_load(ws_u64 *word) { return __atomic_load_n(word, __ATOMIC_SEQ_CST); }

/* Asks the memory for what will be read soon, and mostly changed. */
WS_INLINE void ws_expect(const ws_u64 *word) { __builtin_prefetch(word, 1); }

WS_INLINE int ws_word_cas(ws_u64 *word, ws_u64 expected, ws_u64 x)
{
	return __atomic_compare_exchange_n(word, &expected, x, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

WS_INLINE void ws_word_store(ws_u64 *word, ws_u64 x) { __atomic_store_n(word, x, __ATOMIC_RELEASE); }

/* Counts up, and returns what it is then. */
WS_INLINE ws_u64 ws_word_next(ws_u64 *word) { return __atomic_add_fetch(word, 1, __ATOMIC_RELAXED); }

/* What was read before is not read later. */
WS_INLINE void ws_read_barrier(void) { __atomic_thread_fence(__ATOMIC_ACQUIRE); }

WS_INLINE ws_u32 ws_half_load(ws_u32 *half) { return __atomic_load_n(half, __ATOMIC_ACQUIRE); }
WS_INLINE void ws_half_store(ws_u32 *half, ws_u32 x) { __atomic_store_n(half, x, __ATOMIC_RELEASE); }

WS_INLINE void ws_word_add(ws_u64 *word, ws_u64 x) { __atomic_fetch_add(word, x, __ATOMIC_RELAXED); }

/* A decision counts twice. Each costs 6 ns where the processor must lock the counter, as much as the decision's own
 * compare-and-swap. */
WS_INLINE void ws_count(struct ws_switch *sw, ws_u32 counter)
{
	ws_u64 *counted = &sw->counters[counter];

	if (sw->alone)
		__atomic_store_n(counted, __atomic_load_n(counted, __ATOMIC_RELAXED) + 1, __ATOMIC_RELAXED);
	else
		__atomic_fetch_add(counted, 1, __ATOMIC_RELAXED);
}

WS_INLINE struct ws_globals *ws_globals(struct ws_switch *sw) { return sw->globals; }
WS_INLINE struct ws_traces *ws_traces(struct ws_switch *sw) { return sw->traces; }

/* Where this thread keeps what it follows while it decides; 0: threads that share a lane follow nothing. */
WS_INLINE ws_u64 *ws_follows(struct ws_switch *sw) { return sw->alone ? &sw->counters[WS_FOLLOWS] : 0; }

/* The clock of what is followed: the kernel's, by which the core at the hook goes too. */
WS_INLINE ws_u64 ws_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (ws_u64)now.tv_sec * 1000000000 + (ws_u64)now.tv_nsec;
}
WS_INLINE struct ws_region *ws_region_at(struct ws_switch *sw, ws_u16 namespace) { return &sw->regions[namespace]; }
WS_INLINE struct ws_node *ws_node_at(struct ws_switch *sw, ws_u16 handle) { return &sw->nodes[handle]; }
WS_INLINE struct ws_keys *ws_keys_at(struct ws_switch *sw, ws_u16 handle) { return &sw->keys[handle]; }

/* Whether a serving lease runs: no other switch serves yet. */
WS_INLINE int ws_lease_runs(struct ws_switch *sw, struct ws_lease *lease)
{
	ws_u64 end = ws_word_load(&lease->end_us);

	return !end || sw->now_us < end;
}

/* What a namespace has spent here, and the clock that it is paid off by. */
WS_INLINE struct ws_meter *ws_meter_of(struct ws_region *region) { return &region->by_clock; }
WS_INLINE ws_u32 *ws_told_of(struct ws_region *region) { return &region->told_by_clock; }
WS_INLINE ws_u64 ws_meter_now(struct ws_switch *sw) { return sw->now_us << WS_METER_CLOCK_SHIFT; }

/* Entry `index` of a packet, or 0 where it would end behind `end`. */
WS_INLINE void *ws_entry_at(void *first, const void *end, ws_u32 index)
{
	void *entry = (ws_u8 *)first + index * WS_ENTRY_BYTES;
	return (const ws_u8 *)entry + WS_ENTRY_BYTES <= (const ws_u8 *)end ? entry : 0;
}

/* A number as it is. */
WS_INLINE ws_u64 ws_veil(const void *packet, ws_u64 number)
{
	(void)packet;
	return number;
}

/* Calls `step(0, context)`, `step(1, context)`, ..., `count` times or until one is not 0. */
#define ws_repeat(count, step, context)                                           \
	do {                                                                      \
		for (ws_u32 ws_at = 0; ws_at < (count) && !step(ws_at, context);) \
			ws_at++;                                                  \
	} while (0)

/* 0 where the memory ends before the region does. */
WS_INLINE struct ws_slot *ws_slot_at(struct ws_switch *sw, ws_u32 index)
{
	return index < sw->slot_count ? &sw->slots[index] : 0;
}

WS_INLINE struct ws_store *ws_store(struct ws_switch *sw) { return sw->store; }
WS_INLINE struct ws_group *ws_group_at(struct ws_switch *sw, ws_u16 group) { return &sw->groups[group]; }
WS_INLINE ws_u16 ws_owner(struct ws_switch *sw) { return (ws_u16)sw->owner; }

/* These are 0 where the memory ends before them. */
WS_INLINE struct ws_bucket *ws_bucket_at(struct ws_switch *sw, ws_u32 index)
{
	return index < sw->bucket_count ? &sw->buckets[index] : 0;
}

WS_INLINE struct ws_item *ws_item_at(struct ws_switch *sw, ws_u32 index)
{
	return index < sw->item_count ? &sw->items[index] : 0;
}

WS_INLINE struct ws_lane *ws_lane_at(struct ws_switch *sw, ws_u32 index)
{
	return index < sw->lane_count ? &sw->lanes[index] : 0;
}

WS_INLINE struct ws_record *ws_record_at(struct ws_switch *sw, ws_u64 number)
{
	return sw->journal ? &sw->journal[number % WS_RECORDS] : 0;
}

WS_INLINE struct ws_directory *ws_directory(struct ws_switch *sw) { return sw->directory; }
WS_INLINE struct ws_servers *ws_servers_at(struct ws_switch *sw, ws_u16 namespace) { return &sw->servers[namespace]; }

WS_INLINE struct ws_queue *ws_queue_at(struct ws_switch *sw, ws_u32 index)
{
	return index < sw->queue_count ? &sw->queues[index] : 0;
}

WS_INLINE struct ws_cell *ws_cell_at(struct ws_switch *sw, ws_u32 index)
{
	return index < sw->cell_count ? &sw->cells[index] : 0;
}

WS_INLINE struct ws_bucket *ws_names_at(struct ws_switch *sw, ws_u32 index)
{
	return index < sw->name_count ? &sw->names[index] : 0;
}

#endif
