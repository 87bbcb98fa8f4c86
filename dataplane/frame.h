/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * The envelope of a packet in a frame: Ethernet, IPv4 without options, UDP.
 *
 *   frame  14 Ethernet | 20 IPv4 | 8 UDP | 32 header | 32 first entry or body | ...
 */
#ifndef WAYSIDE_FRAME_H
#define WAYSIDE_FRAME_H

#include "../wire/gen/wire.h"

#define SWAP16(x) WS_SWAP16(x)

struct ethernet {
	ws_u16 to[3], from[3];
	ws_u16 protocol;
};

/* Without options: only such packets are decided. Fields in network byte order. */
struct ipv4 {
	ws_u8 version_and_words;
	ws_u8 service;
	ws_u16 length;
	ws_u16 id;
	ws_u16 fragment;
	ws_u16 hops_and_protocol; /* one half, as the checksum reads it: a byte's store would stall that */
	ws_u16 checksum;
	ws_u16 from[2], to[2]; /* halves: the header lies at 14, and a word would not be aligned */
};

struct udp {
	ws_u16 from, to;
	ws_u16 length;
	ws_u16 checksum;
};

/* What precedes the packet. */
struct envelope {
	struct ethernet ethernet;
	struct ipv4 ip;
	struct udp udp;
};

_Static_assert(sizeof(struct envelope) == 14 + 20 + 8, "headers lie back to back");

enum { ETHERNET_IPV4 = 0x0800, IPV4_NO_OPTIONS = 0x45, IPV4_UDP = 17, IPV4_HOPS = 64, IPV4_FRAGMENT = 0x3fff };

/* An address of two halves, as a number. */
WS_INLINE ws_u32 address_of(const ws_u16 halves[2]) { return (ws_u32)SWAP16(halves[0]) << 16 | SWAP16(halves[1]); }

WS_INLINE void set_address(ws_u16 halves[2], ws_u32 address)
{
	halves[0] = SWAP16((ws_u16)(address >> 16));
	halves[1] = SWAP16((ws_u16)address);
}

/* Length of the packet in a frame of UDP over IPv4 to this address (0: any) and port, or -1. */
WS_INLINE int payload_of(const struct envelope *envelope, const void *end, ws_u32 address, ws_u16 port)
{
	if ((const void *)(envelope + 1) > end)
		return -1;
	if (envelope->ethernet.protocol != SWAP16(ETHERNET_IPV4) || envelope->ip.version_and_words != IPV4_NO_OPTIONS ||
	    (envelope->ip.hops_and_protocol & SWAP16(0xff)) != SWAP16(IPV4_UDP) || envelope->ip.fragment & SWAP16(IPV4_FRAGMENT) ||
	    envelope->udp.to != SWAP16(port) || (address && address_of(envelope->ip.to) != address))
		return -1;
	ws_u32 ip_length = SWAP16(envelope->ip.length);
	ws_u32 udp_length = SWAP16(envelope->udp.length);
	/* The frame must hold what IPv4 promises, and IPv4 exactly what UDP does; Ethernet may pad. */
	if (udp_length < sizeof(struct udp) || ip_length != udp_length + sizeof(struct ipv4) ||
	    (const ws_u8 *)end - (const ws_u8 *)&envelope->ip < ip_length)
		return -1;
	return (int)(udp_length - sizeof(struct udp));
}

/* IPv4's checksum over its ten halves; `checksum` must be 0. */
WS_INLINE ws_u16 ip_checksum(const struct ipv4 *ip)
{
	const ws_u16 *halves = (const ws_u16 *)ip;
	ws_u32 sum = 0;

	for (int i = 0; i < 10; i++)
		sum += halves[i];
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (ws_u16)~sum;
}

/* Lengths and checksums for a packet of `length` bytes. UDP's checksum is left out, as IPv4 allows. */
WS_INLINE void seal_envelope(struct envelope *envelope, ws_u16 length, ws_u16 id)
{
	envelope->udp.length = SWAP16((ws_u16)(sizeof(struct udp) + length));
	envelope->udp.checksum = 0;
	envelope->ip.length = SWAP16((ws_u16)(sizeof(struct ipv4) + sizeof(struct udp) + length));
	envelope->ip.id = id;
	envelope->ip.hops_and_protocol = SWAP16(IPV4_HOPS << 8 | IPV4_UDP);
	envelope->ip.checksum = 0;
	envelope->ip.checksum = ip_checksum(&envelope->ip);
}

/* Back to where it came from. */
WS_INLINE void turn_around(struct envelope *envelope)
{
	ws_u16 port = envelope->udp.to;

	for (int i = 0; i < 3; i++) {
		ws_u16 to = envelope->ethernet.to[i];
		envelope->ethernet.to[i] = envelope->ethernet.from[i];
		envelope->ethernet.from[i] = to;
	}
	for (int i = 0; i < 2; i++) {
		ws_u16 to = envelope->ip.to[i];
		envelope->ip.to[i] = envelope->ip.from[i];
		envelope->ip.from[i] = to;
	}
	envelope->udp.to = envelope->udp.from;
	envelope->udp.from = port;
}

#endif
