/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* For tests: `wayside_out`, and what it makes of the copy for the agent. The kernel test-runs no program of a devmap.
 * Comes after wayside.bpf.c. */

SEC("xdp")
int copied(struct xdp_md *frame)
{
	struct envelope *envelope = (void *)(long)frame->data;
	void *end = (void *)(long)frame->data_end;
	struct ws_switch sw;

	if ((void *)(envelope + 1) + WS_HEADER_BYTES + WS_ENTRY_BYTES > end || !find_switch(&sw))
		return XDP_ABORTED;
	return make_copy(envelope, end, &sw);
}

/* By the interface that the frame came in by, instead of the one that it leaves by. */
SEC("xdp") int leaving(struct xdp_md *frame) { return leave(frame, frame->ingress_ifindex); }
