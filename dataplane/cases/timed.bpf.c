/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Programs that are timed against each other. Each has three readings of its own work:
 *
 *   decide   what the program `wayside` does, on an ACQUIRE of an unheld slot
 *   swap     parses, looks one slot up, compare-and-swaps it and turns the frame around: the least that a lock in the
 *            kernel can do. What it sends back is whole: swapped addresses and ports leave the checksums right
 *   idle     neither, after the same preparation
 *
 * `whole_*` do it once, as a program does; `loop_*` `count` times on one frame, which shows the work without the way to
 * it. `whole_nothing` does not even prepare: it is what a test run costs by itself.
 *
 * The preparation makes the frame's packet an ACQUIRE of another slot, far from the one before. Behind both `decide`
 * and `swap` the slot is made unheld again, so that any number of runs may follow each other. The processor begins the
 * next run before it has ended one, and so waits for two slots' memory at once where a run is short. In a chain it
 * cannot. */
#include "../wayside.bpf.c"

enum { STRIDE = 611953 };

/* The walk over the slots. */
struct timing {
	ws_u32 count; /* of a loop */
	ws_u32 slots;
	ws_u32 slot;    /* the next one's index */
	ws_u32 request; /* the next one's id */
	ws_u32 chained; /* not 0: which slot is next hangs on what was done with this one */
	ws_u32 reserved;
	ws_u64 failed;  /* packets that did not go back, or swaps that came too late */
};

WS_ARRAY(timing, 1, struct timing);

WS_INLINE struct timing *timing_of(void)
{
	ws_u32 key = 0;
	return bpf_map_lookup_elem(&timing, &key);
}

/* The frame's packet, made an ACQUIRE again: what a decision writes over it is written anew. By words, as a packet
 * comes from a network card: reading a word of which parts have just been stored waits for them. 0: it does not fit. */
WS_INLINE int prepare(struct xdp_md *frame, struct timing *timing)
{
	struct envelope *envelope = (void *)(long)frame->data;
	void *header = envelope + 1, *entry = header + WS_HEADER_BYTES;

	if (entry + WS_ENTRY_BYTES > (void *)(long)frame->data_end)
		return 0;
	timing->slot += STRIDE % timing->slots;
	if (timing->slot >= timing->slots)
		timing->slot -= timing->slots;
	timing->request++;
	envelope->udp.to = SWAP16(settings.port);
	ws_store64(header + WS_HEADER_MAGIC_AT, (ws_u64)WS_MAGIC << 48 | (ws_u64)WS_VERSION << 40 |
						(ws_u64)WS_SERVICE_LOCK << 32 | WS_LOCK_ACQUIRE << 24 | 1 << 16);
	ws_store64(header + WS_HEADER_SOURCE_AT, 1ull << 48 | 1); /* and epoch 1 */
	ws_store64(header + WS_HEADER_SHARD_MAP_AT, 0);
	ws_store64(header + WS_HEADER_TAG_AT, 0);
	ws_store64(entry + WS_ENTRY_NAME_AT, timing->slot);
	ws_store64(entry + WS_ENTRY_REQUEST_AT, timing->request);
	ws_store64(entry + WS_ENTRY_SLOT_AT, (ws_u64)timing->slot << 32);
	ws_store64(entry + WS_ENTRY_HOLDER_AT, 1ull << 48 | WS_ENTRY_FLAG_EXCLUSIVE << 8);
	/* What follows does not know what has been written. */
	asm volatile("" ::: "memory");
	return 1;
}

/* The slot is unheld again. It lies in the cache: it has just been changed. In a chain the next slot's index waits for
 * this one's word, of which a bit is taken that is 0. */
WS_INLINE void free_slot(struct timing *timing)
{
	struct ws_slot *slot = ws_slot_at(0, timing->slot);

	if (!slot)
		return;
	if (timing->chained)
		timing->slot += (ws_u32)(ws_word_load(&slot->w0) >> 45) & 1;
	ws_word_store(&slot->w0, 0);
}

WS_INLINE int swap(struct xdp_md *frame)
{
	struct envelope *envelope = (void *)(long)frame->data;
	void *end = (void *)(long)frame->data_end;
	void *entry = (void *)(envelope + 1) + WS_HEADER_BYTES;

	if (payload_of(envelope, end, settings.address, settings.port) < 0 || entry + WS_ENTRY_BYTES > end)
		return XDP_PASS;
	struct ws_slot *slot = ws_slot_at(0, ws_entry_slot(entry));
	if (!slot || !ws_word_cas(&slot->w0, 0, 1))
		return XDP_DROP;
	turn_around(envelope);
	return XDP_TX;
}

/* One of the three, after its preparation. */
#define ONCE(name, work, frees)                                                       \
	WS_INLINE int once_##name(struct xdp_md *frame, struct timing *timing)        \
	{                                                                             \
		if (!prepare(frame, timing))                                          \
			return XDP_ABORTED;                                           \
		int action = work;                                                    \
		if (action != XDP_TX)                                                 \
			timing->failed++;                                             \
		if (frees)                                                            \
			free_slot(timing);                                            \
		return action;                                                        \
	}                                                                             \
	SEC("xdp") int whole_##name(struct xdp_md *frame)                             \
	{                                                                             \
		struct timing *timing = timing_of();                                  \
		return timing ? once_##name(frame, timing) : XDP_ABORTED;             \
	}                                                                             \
	static long step_##name(ws_u32 index, struct xdp_md **frame)                  \
	{                                                                             \
		struct timing *timing = timing_of();                                  \
		return !timing || once_##name(*frame, timing) != XDP_TX;              \
	}                                                                             \
	SEC("xdp") int loop_##name(struct xdp_md *frame)                              \
	{                                                                             \
		struct timing *timing = timing_of();                                  \
		if (timing)                                                           \
			bpf_loop(timing->count, step_##name, &frame, 0);              \
		return XDP_TX;                                                        \
	}

ONCE(decide, handle(frame), 1)
ONCE(swap, swap(frame), 1)
ONCE(idle, XDP_TX, 0)

SEC("xdp") int whole_nothing(struct xdp_md *frame) { return frame->data ? XDP_TX : XDP_ABORTED; }
