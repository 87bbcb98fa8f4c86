/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Sends every UDP packet for WS_PORT back to where it came from, unread: what a round trip costs before anything is
 * decided. Without UDP's checksum, as the switch. */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/udp.h>

#include "../../wire/gen/wire.h"

#define SEC(name) __attribute__((section(name), used))

#define SWAP(a, b)                      \
	do {                            \
		__typeof__(a) kept = a; \
		a = b;                  \
		b = kept;               \
	} while (0)

SEC("xdp")
int echo(struct xdp_md *frame)
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
	for (int half = 0; half < 3; half++)
		SWAP(((ws_u16 *)ethernet->h_dest)[half], ((ws_u16 *)ethernet->h_source)[half]);
	SWAP(ip->saddr, ip->daddr);
	SWAP(udp->source, udp->dest);
	udp->check = 0;
	return XDP_TX;
}

char gpl[] SEC("license") = "GPL v2";
