/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * The client's side of AF_XDP: what the switch sends to a reply port that has an AF_XDP socket goes to that socket, if
 * it arrives on the socket's queue. Everything else passes untouched, to the port's own UDP socket among others.
 *
 *   frame  14 Ethernet | 20 IPv4 | 8 UDP | ...
 *
 * A driver hands a socket only what comes in on the queue it is bound to, and the network card chooses the queue. So
 * the program also notes where a port's packets come in: the client binds the socket there.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/udp.h>

#include "../wire/gen/wire.h"

#define SEC(name) __attribute__((section(name), used))
#define WS_UINT(name, value) int(*name)[value]
#define WS_TYPE(name, type) type *name

static void *(*const bpf_map_lookup_elem)(void *map, const void *key) = (void *)BPF_FUNC_map_lookup_elem;
static long (*const bpf_redirect_map)(void *map, ws_u64 key, ws_u64 flags) = (void *)BPF_FUNC_redirect_map;

enum { NO_QUEUE = 0xffffffff, IPV4_NO_OPTIONS = 0x45, IPV4_FRAGMENT = 0x3fff };

/* What a connected UDP socket would take: a port's peer, and this host's address. Addresses and ports in network byte
 * order. Once more in crates/client/src/xsk/hook.rs. */
struct flow {
	ws_u32 own_address;
	ws_u32 peer_address;
	ws_u16 peer_port;
	ws_u16 reserved;
	ws_u32 queue; /* of the port's AF_XDP socket; NO_QUEUE: it has none yet */
	ws_u32 seen;  /* queue on which the last one came that was not redirected; NO_QUEUE: none came */
};

_Static_assert(sizeof(struct flow) == 20, "as in hook.rs");

/* By the port's number, in network byte order. */
struct {
	WS_UINT(type, BPF_MAP_TYPE_HASH);
	WS_UINT(max_entries, 1024);
	WS_TYPE(key, ws_u16);
	WS_TYPE(value, struct flow);
} flows SEC(".maps");

/* By queue; the loader sets max_entries to the interface's number of queues. */
struct {
	WS_UINT(type, BPF_MAP_TYPE_XSKMAP);
	WS_UINT(max_entries, 1);
	WS_TYPE(key, ws_u32);
	WS_TYPE(value, ws_u32);
} sockets SEC(".maps");

SEC("xdp")
int wayside_client(struct xdp_md *frame)
{
	const ws_u8 *start = (const void *)(long)frame->data;
	const ws_u8 *end = (const void *)(long)frame->data_end;
	const struct ethhdr *ethernet = (const void *)start;
	const struct iphdr *ip = (const void *)(ethernet + 1);
	const struct udphdr *udp = (const void *)(ip + 1);

	if ((const ws_u8 *)(udp + 1) > end)
		return XDP_PASS;
	if (ethernet->h_proto != WS_SWAP16(ETH_P_IP) || *(const ws_u8 *)ip != IPV4_NO_OPTIONS ||
	    ip->protocol != IPPROTO_UDP || ip->frag_off & WS_SWAP16(IPV4_FRAGMENT))
		return XDP_PASS;

	struct flow *flow = bpf_map_lookup_elem(&flows, &udp->dest);
	if (!flow || udp->source != flow->peer_port || ip->saddr != flow->peer_address || ip->daddr != flow->own_address)
		return XDP_PASS;

	ws_u32 queue = frame->rx_queue_index;
	if (queue == flow->queue)
		/* Between a socket's end and the flow's, the kernel's stack takes it. */
		return (int)bpf_redirect_map(&sockets, queue, XDP_PASS);
	flow->seen = queue;
	return XDP_PASS;
}

char gpl[] SEC("license") = "GPL v2";
