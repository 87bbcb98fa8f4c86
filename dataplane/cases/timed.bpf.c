/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Programs that are timed against each other, each doing its work `count` times on one frame: `timed` decides an ACQUIRE
 * of an unheld slot as the XDP program does; `bare` parses, looks one word up, compare-and-swaps it and turns the frame
 * around, which is the least that a lock in the kernel can do; `idle` only makes the packet an ACQUIRE again, as the other
 * two do besides. The next slot lies far from the one before. */
#include "../wayside.bpf.c"

enum { STRIDE = 611953 };

/* What to do, and what was done. */
struct timing {
	ws_u32 count;
	ws_u32 slots;
	ws_u32 first; /* index of the first slot */
	ws_u32 epoch;
	ws_u64 granted; /* or swapped */
};

WS_ARRAY(timing, 1, struct timing);

struct run {
	struct xdp_md *frame;
	struct timing *timing;
	struct ws_switch *sw;
	ws_u64 slot;
	ws_u64 done;
};

/* The frame's packet, made an ACQUIRE again: what a decision writes over it is written anew. */
WS_INLINE int renew(struct envelope *envelope, const void *end, struct run *run, ws_u32 index)
{
	void *header = envelope + 1, *entry = header + WS_HEADER_BYTES;

	if (entry + WS_ENTRY_BYTES > end)
		return 0;
	ws_header_set_version(header, WS_VERSION);
	ws_header_set_kind(header, WS_LOCK_ACQUIRE);
	ws_header_set_flags(header, 0);
	ws_header_set_source(header, 1);
	ws_header_set_destination(header, 0);
	ws_header_set_position(header, 0);
	ws_entry_set_slot(entry, (ws_u32)run->slot);
	ws_entry_set_request(entry, index);
	ws_entry_set_flags(entry, WS_ENTRY_FLAG_EXCLUSIVE);
	envelope->udp.to = SWAP16(WS_PORT);
	return 1;
}

WS_INLINE void next_slot(struct run *run)
{
	run->slot += STRIDE;
	if (run->slot >= run->timing->slots)
		run->slot %= run->timing->slots;
}

static long decide_once(ws_u32 index, struct run *run)
{
	struct envelope *envelope = (void *)(long)run->frame->data;
	void *end = (void *)(long)run->frame->data_end;

	if ((void *)(envelope + 1) > end || !renew(envelope, end, run, index))
		return 1;
	int length = payload_of(envelope, end, 0, WS_PORT);
	if (length < 0)
		return 1;
	struct ws_verdict verdict = ws_decide(run->sw, envelope + 1, end, (ws_u32)length, 20001);
	turn_around(envelope);
	seal_envelope(envelope, verdict.length, 0);
	run->done += verdict.action == WS_TO_SENDER;
	next_slot(run);
	return 0;
}

static long swap_once(ws_u32 index, struct run *run)
{
	struct envelope *envelope = (void *)(long)run->frame->data;
	void *end = (void *)(long)run->frame->data_end;

	if ((void *)(envelope + 1) > end || !renew(envelope, end, run, index))
		return 1;
	if (payload_of(envelope, end, 0, WS_PORT) < 0)
		return 1;
	struct ws_slot *slot = ws_slot_at(run->sw, ws_entry_slot((void *)(envelope + 1) + WS_HEADER_BYTES));
	if (slot)
		run->done += ws_word_cas(&slot->w0, 0, 1);
	turn_around(envelope);
	next_slot(run);
	return 0;
}

static long idle_once(ws_u32 index, struct run *run)
{
	struct envelope *envelope = (void *)(long)run->frame->data;
	void *end = (void *)(long)run->frame->data_end;

	if ((void *)(envelope + 1) > end || !renew(envelope, end, run, index))
		return 1;
	run->done++;
	next_slot(run);
	return 0;
}

WS_INLINE int run_all(struct xdp_md *frame, void *once)
{
	ws_u32 key = 0, lane = WS_THREAD_LANES + bpf_get_smp_processor_id();
	struct ws_switch sw = {
		.globals = bpf_map_lookup_elem(&globals, &key),
		.counters = bpf_map_lookup_elem(&counters, &lane),
	};
	struct timing *work = bpf_map_lookup_elem(&timing, &key);

	if (!sw.globals || !sw.counters || !work)
		return XDP_ABORTED;
	struct run run = { .frame = frame, .timing = work, .sw = &sw, .slot = work->first };
	bpf_loop(work->count, once, &run, 0);
	work->granted = run.done;
	work->first = (ws_u32)run.slot;
	return XDP_TX;
}

SEC("xdp") int timed(struct xdp_md *frame) { return run_all(frame, decide_once); }
SEC("xdp") int idle(struct xdp_md *frame) { return run_all(frame, idle_once); }
SEC("xdp") int bare(struct xdp_md *frame) { return run_all(frame, swap_once); }
