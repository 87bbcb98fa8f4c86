/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* All that differs between the BPF build and the native build: this file against platform_native.h.
 *
 * Needs -mcpu=v3 (64-bit compare-and-swap) and Linux 5.18 (bpf_xdp_load_bytes). clang-19 compiles neither acquire nor
 * release accesses for BPF; volatile ones keep the compiler honest, and the order that decisions rest on comes from the
 * compare-and-swaps, which are full barriers. */
#ifndef WAYSIDE_PLATFORM_H
#define WAYSIDE_PLATFORM_H

#include <linux/bpf.h>

#include "cells.h"

#define SEC(name) __attribute__((section(name), used))
#define WS_UINT(name, value) int(*name)[value]
#define WS_TYPE(name, type) type *name

static void *(*const bpf_map_lookup_elem)(void *map, const void *key) = (void *)BPF_FUNC_map_lookup_elem;
static ws_u32 (*const bpf_get_smp_processor_id)(void) = (void *)BPF_FUNC_get_smp_processor_id;
static long (*const bpf_loop)(ws_u32 count, void *step, void *context, ws_u64 flags) = (void *)BPF_FUNC_loop;
static ws_u64 (*const bpf_jiffies64)(void) = (void *)BPF_FUNC_jiffies64;
static ws_u64 (*const bpf_ktime_get_ns)(void) = (void *)BPF_FUNC_ktime_get_ns;
static long (*const bpf_xdp_adjust_tail)(struct xdp_md *frame, int delta) = (void *)BPF_FUNC_xdp_adjust_tail;

/* The loader sets max_entries of slots. All of these are mapped into the daemon's memory, whose controller and threads
 * compare-and-swap the same words. */
struct {
	WS_UINT(type, BPF_MAP_TYPE_ARRAY);
	WS_UINT(map_flags, BPF_F_MMAPABLE);
	WS_UINT(max_entries, 1 << 20);
	WS_TYPE(key, ws_u32);
	WS_TYPE(value, struct ws_slot);
} slots SEC(".maps");

struct {
	WS_UINT(type, BPF_MAP_TYPE_ARRAY);
	WS_UINT(map_flags, BPF_F_MMAPABLE);
	WS_UINT(max_entries, WS_NODES);
	WS_TYPE(key, ws_u32);
	WS_TYPE(value, struct ws_keys);
} keys SEC(".maps");

/* The loader sets max_entries: the threads' lanes, then one for every CPU. */
struct {
	WS_UINT(type, BPF_MAP_TYPE_ARRAY);
	WS_UINT(map_flags, BPF_F_MMAPABLE);
	WS_UINT(max_entries, WS_THREAD_LANES + 64);
	WS_TYPE(key, ws_u32);
	WS_TYPE(value, struct ws_counters);
} counters SEC(".maps");

/* The chain service's. The loader sets max_entries of the first three. */
struct {
	WS_UINT(type, BPF_MAP_TYPE_ARRAY);
	WS_UINT(map_flags, BPF_F_MMAPABLE);
	WS_UINT(max_entries, 1);
	WS_TYPE(key, ws_u32);
	WS_TYPE(value, struct ws_bucket);
} buckets SEC(".maps");

struct {
	WS_UINT(type, BPF_MAP_TYPE_ARRAY);
	WS_UINT(map_flags, BPF_F_MMAPABLE);
	WS_UINT(max_entries, 1);
	WS_TYPE(key, ws_u32);
	WS_TYPE(value, struct ws_item);
} items SEC(".maps");

struct {
	WS_UINT(type, BPF_MAP_TYPE_ARRAY);
	WS_UINT(map_flags, BPF_F_MMAPABLE);
	WS_UINT(max_entries, 1);
	WS_TYPE(key, ws_u32);
	WS_TYPE(value, struct ws_lane);
} lanes SEC(".maps");

struct {
	WS_UINT(type, BPF_MAP_TYPE_ARRAY);
	WS_UINT(map_flags, BPF_F_MMAPABLE);
	WS_UINT(max_entries, WS_RECORDS);
	WS_TYPE(key, ws_u32);
	WS_TYPE(value, struct ws_record);
} journal SEC(".maps");

/* The queue service's. The loader sets max_entries of all three. */
struct {
	WS_UINT(type, BPF_MAP_TYPE_ARRAY);
	WS_UINT(map_flags, BPF_F_MMAPABLE);
	WS_UINT(max_entries, 1);
	WS_TYPE(key, ws_u32);
	WS_TYPE(value, struct ws_queue);
} queues SEC(".maps");

struct {
	WS_UINT(type, BPF_MAP_TYPE_ARRAY);
	WS_UINT(map_flags, BPF_F_MMAPABLE);
	WS_UINT(max_entries, 1);
	WS_TYPE(key, ws_u32);
	WS_TYPE(value, struct ws_cell);
} cells SEC(".maps");

struct {
	WS_UINT(type, BPF_MAP_TYPE_ARRAY);
	WS_UINT(map_flags, BPF_F_MMAPABLE);
	WS_UINT(max_entries, 1);
	WS_TYPE(key, ws_u32);
	WS_TYPE(value, struct ws_bucket);
} names SEC(".maps");

/* Each is a map of one value, mapped into the daemon's memory too, which programs address without looking it up: a call
 * less, and what a call costs in registers. Linux 6.1 takes values of up to 4 MiB: `keys` do not fit. */
struct ws_region regions[WS_REGIONS] SEC(".bss.regions");
struct ws_node nodes[WS_NODES] SEC(".bss.nodes");
struct ws_globals globals SEC(".bss.globals");
struct ws_group groups[WS_GROUPS] SEC(".bss.groups");
struct ws_store store SEC(".bss.store");
struct ws_servers servers[WS_REGIONS] SEC(".bss.servers");
struct ws_directory directory SEC(".bss.directory");
struct ws_traces traces SEC(".bss.traces");

/* A switch as one packet sees it: what is looked up once. */
struct ws_switch {
	struct ws_counters *counters;
	ws_u32 owner; /* of the locks that this CPU takes */
};

WS_INLINE ws_u64 ws_word_load(ws_u64 *word) { return *(volatile ws_u64 *)word; }
WS_INLINE void ws_word_store(ws_u64 *word, ws_u64 x) { *(volatile ws_u64 *)word = x; }

/* Counts up, and returns what it is then. */
WS_INLINE ws_u64 ws_word_next(ws_u64 *word) { return __sync_fetch_and_add(word, 1) + 1; }

/* What was read before is not read later: an atomic operation on this CPU's own stack, since BPF has no barrier. Its
 * result is used: one without a result orders nothing on processors that reorder loads. */
WS_INLINE void ws_read_barrier(void)
{
	ws_u64 own = 0;
	ws_u64 before = __sync_fetch_and_add(&own, 1);

	asm volatile("" : : "r"(before) : "memory");
}

WS_INLINE ws_u32 ws_half_load(ws_u32 *half) { return *(volatile ws_u32 *)half; }
WS_INLINE void ws_half_store(ws_u32 *half, ws_u32 x) { *(volatile ws_u32 *)half = x; }

/* Asks the memory for what will be read soon. BPF has no prefetch: the word is loaded, and nobody waits for it. */
WS_INLINE void ws_expect(ws_u64 *word)
{
	ws_u64 unused = ws_word_load(word);

	asm volatile("" : : "r"(unused));
}

WS_INLINE int ws_word_cas(ws_u64 *word, ws_u64 expected, ws_u64 x)
{
	return __sync_val_compare_and_swap(word, expected, x) == expected;
}

WS_INLINE void ws_word_add(ws_u64 *word, ws_u64 x) { __sync_fetch_and_add(word, x); }

/* One CPU counts in its own block, and a program is not interrupted by itself there. */
WS_INLINE void ws_count(struct ws_switch *sw, ws_u32 counter) { sw->counters->of[counter]++; }

WS_INLINE struct ws_globals *ws_globals(struct ws_switch *sw)
{
	(void)sw;
	return &globals;
}

WS_INLINE struct ws_traces *ws_traces(struct ws_switch *sw)
{
	(void)sw;
	return &traces;
}

/* Where this CPU keeps what it follows while it decides: the stack has no room for a word more. */
WS_INLINE ws_u64 *ws_follows(struct ws_switch *sw) { return &sw->counters->of[WS_FOLLOWS]; }

/* The clock of what is followed. */
WS_INLINE ws_u64 ws_now_ns(void) { return bpf_ktime_get_ns(); }

/* Whether a serving lease runs: no other switch serves yet. The kernel's count of ticks (1 to 10 ms each) is a load
 * where every other clock is a call of 20 to 38 ns. */
WS_INLINE int ws_lease_runs(struct ws_switch *sw, struct ws_lease *lease)
{
	ws_u64 end = ws_word_load(&lease->end_tick);

	(void)sw;
	return !end || bpf_jiffies64() < end;
}

/* What a namespace has spent here, and the clock that it is paid off by: ticks, for the same reason. */
WS_INLINE struct ws_meter *ws_meter_of(struct ws_region *region) { return &region->by_tick; }
WS_INLINE ws_u32 *ws_told_of(struct ws_region *region) { return &region->told_by_tick; }

WS_INLINE ws_u64 ws_meter_now(struct ws_switch *sw)
{
	(void)sw;
	return bpf_jiffies64() << WS_METER_TICK_SHIFT;
}

/* A number of 16 bits, as an index. The verifier of Linux 6.1 knows nothing of a number whose bytes were swapped, and
 * must see the bound that the compiler knows of. */
WS_INLINE ws_u64 ws_index(ws_u16 number)
{
	ws_u64 index = number;

	asm volatile("" : "+r"(index));
	return index & 0xffff;
}

WS_INLINE struct ws_region *ws_region_at(struct ws_switch *sw, ws_u16 namespace)
{
	(void)sw;
	return &regions[ws_index(namespace)];
}

WS_INLINE struct ws_node *ws_node_at(struct ws_switch *sw, ws_u16 handle)
{
	(void)sw;
	return &nodes[ws_index(handle)];
}

WS_INLINE struct ws_keys *ws_keys_at(struct ws_switch *sw, ws_u16 handle)
{
	ws_u32 key = handle;
	return bpf_map_lookup_elem(&keys, &key);
}

/* Entry `index` of a packet, or 0 where it would end behind `end`.
 *
 * The verifier learns from every bounds check how long the packet is, so that a loop over entries leaves it in 32
 * states, and a second loop after it in 32 * 32: more than it takes. Adding and subtracting a byte that it does not
 * know hides the offset from it, and with it the length learned. */
WS_INLINE void *ws_entry_at(void *first, const void *end, ws_u32 index)
{
	ws_u64 offset = index * WS_ENTRY_BYTES;
	ws_u64 unknown = *(volatile ws_u8 *)first;

	asm volatile("%0 += %1; %0 -= %1" : "+r"(offset) : "r"(unknown));
	offset &= (WS_MAX_ENTRIES - 1) * WS_ENTRY_BYTES;
	void *entry = (ws_u8 *)first + offset;
	return (const ws_u8 *)entry + WS_ENTRY_BYTES <= (const ws_u8 *)end ? entry : 0;
}

/* A number as it is, of which the verifier knows nothing any more: it would walk through all that comes after once for
 * each value that it knows of. `packet` has eight bytes at least, and all of them are taken: of a number that a single
 * byte was added to and taken from the verifier still knows where it lies, to 255, and so tells 3 from 4. */
WS_INLINE ws_u64 ws_veil(const void *packet, ws_u64 number)
{
	ws_u64 unknown = *(volatile const ws_u64 *)packet;

	asm volatile("%0 += %1; %0 -= %1" : "+r"(number) : "r"(unknown));
	return number;
}

/* Calls `step(0, context)`, `step(1, context)`, ..., `count` times or until one is not 0. The verifier walks through a
 * step once, not through 31 of them wherever a packet is signed: 222,000 instructions instead of 343,000. */
#define ws_repeat(count, step, context) bpf_loop(count, step, context, 0)

/* 0 where the memory ends before the region does. */
WS_INLINE struct ws_slot *ws_slot_at(struct ws_switch *sw, ws_u32 index)
{
	return bpf_map_lookup_elem(&slots, &index);
}

WS_INLINE struct ws_store *ws_store(struct ws_switch *sw)
{
	(void)sw;
	return &store;
}

WS_INLINE struct ws_group *ws_group_at(struct ws_switch *sw, ws_u16 group)
{
	(void)sw;
	return &groups[ws_index(group)];
}

WS_INLINE ws_u16 ws_owner(struct ws_switch *sw) { return (ws_u16)sw->owner; }

/* These are 0 where the memory ends before them. */
WS_INLINE struct ws_bucket *ws_bucket_at(struct ws_switch *sw, ws_u32 index)
{
	(void)sw;
	return bpf_map_lookup_elem(&buckets, &index);
}

WS_INLINE struct ws_item *ws_item_at(struct ws_switch *sw, ws_u32 index)
{
	(void)sw;
	return bpf_map_lookup_elem(&items, &index);
}

WS_INLINE struct ws_lane *ws_lane_at(struct ws_switch *sw, ws_u32 index)
{
	(void)sw;
	return bpf_map_lookup_elem(&lanes, &index);
}

WS_INLINE struct ws_record *ws_record_at(struct ws_switch *sw, ws_u64 number)
{
	ws_u32 index = number % WS_RECORDS;

	(void)sw;
	return bpf_map_lookup_elem(&journal, &index);
}

WS_INLINE struct ws_queue *ws_queue_at(struct ws_switch *sw, ws_u32 index)
{
	(void)sw;
	return bpf_map_lookup_elem(&queues, &index);
}

WS_INLINE struct ws_cell *ws_cell_at(struct ws_switch *sw, ws_u32 index)
{
	(void)sw;
	return bpf_map_lookup_elem(&cells, &index);
}

WS_INLINE struct ws_bucket *ws_names_at(struct ws_switch *sw, ws_u32 index)
{
	(void)sw;
	return bpf_map_lookup_elem(&names, &index);
}

WS_INLINE struct ws_servers *ws_servers_at(struct ws_switch *sw, ws_u16 namespace)
{
	(void)sw;
	return &servers[ws_index(namespace)];
}

WS_INLINE struct ws_directory *ws_directory(struct ws_switch *sw)
{
	(void)sw;
	return &directory;
}

#endif
