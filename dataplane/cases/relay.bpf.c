/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Sends every UDP packet for WS_PORT on to the next host, unread, and at the last one back to whoever sent it: what a
 * way through several switches costs before anything is decided. Without UDP's checksum, as the switch. */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/udp.h>

#include "../../wire/gen/wire.h"

#define SEC(name) __attribute__((section(name), used))

/* Where packets go from here; written before it is loaded, in the network's order. */
struct way {
	ws_u16 own[3];
	ws_u16 next[3];
	/* The next relay; 0: there is none, and the packet goes back as from `first`. */
	ws_u32 relay;
	ws_u32 first;
};

const volatile struct way way SEC(".rodata") = {};

/* The header's checksum, once `old` in it is `new`. */
static inline ws_u16 mended(ws_u16 checksum, ws_u32 old, ws_u32 new)
{
	ws_u32 sum = (ws_u16)~checksum;

	sum += (ws_u16)~old + (ws_u16)~(old >> 16) + (ws_u16)new + (ws_u16)(new >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (ws_u16) ~((sum & 0xffff) + (sum >> 16));
}

SEC("xdp")
int relay(struct xdp_md *frame)
{
	ws_u8 *start = (void *)(long)frame->data;
	ws_u8 *end = (void *)(long)frame->data_end;
	struct ethhdr *ethernet = (void *)start;
	struct iphdr *ip = (void *)(ethernet + 1);
	struct udphdr *udp = (void *)(ip + 1);

	if ((ws_u8 *)(udp + 1) > end)
		return XDP_PASS;
	if (ethernet->h_proto != WS_SWAP16(ETH_P_IP) || *(ws_u8 *)ip != 0x45 || ip->protocol != IPPROTO_UDP ||
	    udp->dest != WS_SWAP16(WS_PORT))
		return XDP_PASS;
	for (int half = 0; half < 3; half++) {
		((ws_u16 *)ethernet->h_dest)[half] = way.next[half];
		((ws_u16 *)ethernet->h_source)[half] = way.own[half];
	}
	if (way.relay) {
		ip->check = mended(ip->check, ip->daddr, way.relay);
		ip->daddr = way.relay;
	} else {
		ws_u32 asker = ip->saddr;
		ws_u16 port = udp->source;

		ip->check = mended(mended(ip->check, ip->daddr, asker), asker, way.first);
		ip->daddr = asker;
		ip->saddr = way.first;
		udp->source = udp->dest;
		udp->dest = port;
	}
	udp->check = 0;
	return XDP_TX;
}

char gpl[] SEC("license") = "GPL v2";
