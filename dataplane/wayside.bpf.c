/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * The switch as two XDP programs. `wayside`, on every port, finds Wayside's packets, has them decided by the same
 * source as the native build, and sends the frame where the verdict says; everything else passes untouched.
 * `wayside_out` sees what leaves by redirection and makes the two copies of a pair what they are to be (ways.h).
 *
 *   verdict         way known               frame
 *   TO_SENDER                               back by its port (XDP_TX)
 *   TO_NODE         yes                     by the node's port: XDP_TX if that is the same, else redirected
 *                   no                      to the daemon, which sends the packet by the kernel's routes
 *   with a copy     both                    redirected to two ports at once; `wayside_out` makes one of them the JOIN
 *                   not the agent's         as without; the JOIN is the daemon's to send
 *   TO_CONTROLLER                           to the daemon
 *
 * The daemon listens on the same UDP port. What this program lets pass (options, fragments, VLANs, local clients) it
 * decides on the same memory.
 */
#include "platform_bpf.h"
#include "frame.h"
#include "packet.h"
#include "ways.h"

/* Where tests look at verdicts. */
#ifndef WS_OBSERVE
#define WS_OBSERVE(verdict)
#endif

/* One frame's turn. */
struct passage {
	struct xdp_md *frame;
	struct envelope *envelope;
	struct ws_switch *sw;
	struct ws_verdict verdict;
	ws_u32 address;   /* of the sender */
	ws_u16 from_port; /* of the sender */
	ws_u16 mark;      /* IPv4's id */
};

/* The packet ends with its frame: what would follow it, padding or the rest of a longer one, is cut off. */
WS_INLINE int cut(struct passage *passage)
{
	ws_u64 bytes = (const ws_u8 *)(long)passage->frame->data_end - (const ws_u8 *)(passage->envelope + 1);

	/* The verifier refuses a 32-bit difference of pointers, which the compiler would prefer here. */
	asm volatile("" : "+r"(bytes));
	int spare = (int)bytes - passage->verdict.length;
	return spare > 0 && bpf_xdp_adjust_tail(passage->frame, -spare);
}

WS_INLINE void hand_up_copy(struct passage *passage)
{
	hand_up(passage->frame, passage->sw, &passage->verdict, passage->address, passage->from_port);
}

WS_INLINE void hand_up_packet(struct passage *passage)
{
	struct ws_verdict alone = passage->verdict;

	alone.copy = 0;
	hand_up(passage->frame, passage->sw, &alone, passage->address, passage->from_port);
}

/* The pair of ports by which the GRANT, from port `first`, and the JOIN leave together; 0: the JOIN is handed up. */
WS_INLINE void *pair_with_copy(struct passage *passage, ws_u32 first)
{
	ws_u64 way = way_at(passage->verdict.copy);
	ws_u32 key = first * WS_PORTS + way_port(way);
	void *pair = way && first < WS_PORTS ? bpf_map_lookup_elem(&pairs, &key) : 0;

	passage->mark = pair ? mark_pair(first == way_port(way)) : 0;
	if (passage->mark)
		return pair;
	hand_up_copy(passage);
	return 0;
}

/* Addresses the envelope to a node. Its port, or WS_PORTS where no way is known. */
WS_INLINE ws_u32 address_to_node(struct passage *passage)
{
	ws_u64 way = way_at(passage->verdict.handle);
	struct ws_port *port = way ? port_at(way_port(way)) : 0;
	struct ws_node *node = ws_node_at(passage->sw, passage->verdict.handle);
	struct envelope *envelope = passage->envelope;

	if (!port)
		return WS_PORTS;
	turn_around(envelope);
	head_for(&envelope->ethernet, way, port);
	set_address(envelope->ip.to, node->address);
	envelope->udp.to = SWAP16(passage->verdict.port ? passage->verdict.port : node->agent_port);
	return way_port(way);
}

/* The frame as it is to leave, but for whom it is addressed to. False: it cannot. */
WS_INLINE int finish(struct passage *passage)
{
	seal_envelope(passage->envelope, passage->verdict.length, SWAP16(passage->mark));
	return !cut(passage);
}

/* Sends the frame where the verdict says. */
WS_INLINE int deliver(struct passage *passage)
{
	struct xdp_md *frame = passage->frame;
	void *pair = 0;
	ws_u32 port = WS_PORTS; /* to another port than this one */

	/* The most frequent end by far: nothing of what comes below need be asked. */
	if (passage->verdict.action == WS_TO_SENDER && !passage->verdict.copy) {
		turn_around(passage->envelope);
		return finish(passage) ? XDP_TX : XDP_DROP;
	}
	switch (passage->verdict.action) {
	case WS_TO_SENDER:
		pair = pair_with_copy(passage, index_of(frame->ingress_ifindex));
		turn_around(passage->envelope);
		break;
	case WS_TO_NODE:
		port = address_to_node(passage);
		if (passage->verdict.copy)
			pair = pair_with_copy(passage, port);
		if (port == WS_PORTS) {
			hand_up_packet(passage);
			return XDP_DROP;
		}
		struct ws_port *known = port_at(port);
		if (known && known->interface == frame->ingress_ifindex)
			port = WS_PORTS;
		break;
	case WS_TO_CONTROLLER:
		hand_up_packet(passage);
		return XDP_DROP;
	default:
		return XDP_DROP;
	}
	if (!finish(passage))
		return XDP_DROP;
	if (pair)
		return (int)bpf_redirect_map(pair, 0, BPF_F_BROADCAST);
	return port == WS_PORTS ? XDP_TX : (int)bpf_redirect_map(&out, port, XDP_DROP);
}

/* An accepted heartbeat, which is its own acknowledgement now, tells where its node is. */
WS_INLINE void learn(const struct passage *passage)
{
	const void *header = passage->envelope + 1;

	if (passage->verdict.action == WS_TO_SENDER && ws_header_service(header) == WS_SERVICE_FABRIC &&
	    ws_header_kind(header) == WS_FABRIC_HEARTBEAT_ACK && !(ws_header_flags(header) & WS_HEADER_FLAG_EXPIRED))
		learn_way(ws_header_destination(header), passage->envelope->ethernet.from,
			  passage->frame->ingress_ifindex);
}

/* The memory as this CPU sees it; false without it, which cannot be. */
WS_INLINE int find_switch(struct ws_switch *sw)
{
	ws_u32 lane = WS_THREAD_LANES + bpf_get_smp_processor_id();

	sw->counters = bpf_map_lookup_elem(&counters, &lane);
	sw->owner = 1 + lane;
	return sw->counters != 0;
}

/* What becomes of one frame. */
WS_INLINE int handle(struct xdp_md *frame)
{
	struct envelope *envelope = (void *)(long)frame->data;
	void *end = (void *)(long)frame->data_end;
	int length = payload_of(envelope, end, settings.address, settings.port);

	if (length < 0)
		return XDP_PASS;
	struct ws_switch sw;
	if (!find_switch(&sw))
		return XDP_PASS;
	struct passage passage = {
		.frame = frame,
		.envelope = envelope,
		.sw = &sw,
		.address = address_of(envelope->ip.from),
		.from_port = SWAP16(envelope->udp.from),
	};
	ws_decide(&sw, envelope + 1, end, (ws_u32)length, passage.from_port, &passage.verdict);
	WS_OBSERVE(passage.verdict);
	learn(&passage);
	return deliver(&passage);
}

SEC("xdp") int wayside(struct xdp_md *frame) { return handle(frame); }

/* Addresses one copy of a pair to the agent that its GRANT names. */
WS_INLINE int make_copy(struct envelope *envelope, const void *end, struct ws_switch *sw)
{
	void *header = envelope + 1;
	ws_u32 length = SWAP16(envelope->udp.length) - sizeof(struct udp);
	ws_u16 agent = ws_header_source(header);
	ws_u64 way = way_at(agent);
	struct ws_port *port = way ? port_at(way_port(way)) : 0;
	struct ws_node *node = ws_node_at(sw, agent);

	if (!port)
		return XDP_DROP;
	if (!ws_make_copy(sw, header, end, length))
		return XDP_DROP;
	head_for(&envelope->ethernet, way, port);
	set_address(envelope->ip.to, node->address);
	envelope->udp.to = SWAP16(node->agent_port);
	return XDP_PASS;
}

/* Which of a pair this is: the JOIN for the agent? */
WS_INLINE int is_copy(const struct envelope *envelope, ws_u16 mark, ws_u32 interface)
{
	if (mark & PAIR_SAME_PORT)
		return is_second(mark);
	ws_u64 way = way_at(ws_header_source(envelope + 1));
	struct ws_port *port = way ? port_at(way_port(way)) : 0;
	return port && port->interface == interface;
}

/* Makes of what leaves by this interface what it is to be. */
WS_INLINE int leave(struct xdp_md *frame, ws_u32 interface)
{
	struct envelope *envelope = (void *)(long)frame->data;
	void *end = (void *)(long)frame->data_end;
	struct ws_switch sw;

	if ((void *)(envelope + 1) + WS_HEADER_BYTES + WS_ENTRY_BYTES > end)
		return XDP_DROP;
	ws_u16 mark = SWAP16(envelope->ip.id);
	if (!(mark & PAIR))
		return XDP_PASS;
	if (!find_switch(&sw) || (is_copy(envelope, mark, interface) && make_copy(envelope, end, &sw) != XDP_PASS))
		return XDP_DROP;
	seal_envelope(envelope, (ws_u16)(SWAP16(envelope->udp.length) - sizeof(struct udp)), 0);
	return XDP_PASS;
}

SEC("xdp/devmap") int wayside_out(struct xdp_md *frame) { return leave(frame, frame->egress_ifindex); }

/* What a lease's `end_tick` is counted in, for the daemon, which runs this when it wants to know. */
SEC("syscall")
int tick(ws_u64 *now)
{
	*now = bpf_jiffies64();
	return 0;
}

char gpl[] SEC("license") = "GPL v2";
