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
#define SWAP32(x) WS_SWAP32(x)

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
WS_INLINE ws_u32 address_of(const ws_u16 halves[2]) { return ws_load32(halves); }
WS_INLINE void set_address(ws_u16 halves[2], ws_u32 address) { ws_store32(halves, address); }

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

/* A sum of up to 64 halves and words, whose upper halves count like their lower ones, as a checksum of IPv4. */
WS_INLINE ws_u16 checksum_of(ws_u64 sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (ws_u16)~sum;
}

/* Lengths and checksums for a packet of `length` bytes. UDP's checksum is left out, as IPv4 allows. IPv4's is a sum of
 * what the registers have anyway, in whichever order of bytes. */
WS_INLINE void seal_envelope(struct envelope *envelope, ws_u16 length, ws_u16 id)
{
	struct ipv4 *ip = &envelope->ip;
	ws_u16 ip_length = SWAP16((ws_u16)(sizeof(struct ipv4) + sizeof(struct udp) + length));
	ws_u16 hops_and_protocol = SWAP16(IPV4_HOPS << 8 | IPV4_UDP);
	ws_u64 addresses = (ws_u64)SWAP32(ws_load32(ip->from)) + SWAP32(ws_load32(ip->to));

	envelope->udp.length = SWAP16((ws_u16)(sizeof(struct udp) + length));
	envelope->udp.checksum = 0;
	ip->length = ip_length;
	ip->id = id;
	ip->hops_and_protocol = hops_and_protocol;
	ip->checksum = checksum_of(addresses + *(const ws_u16 *)ip + ip_length + id + ip->fragment + hops_and_protocol);
}

WS_INLINE void exchange16(ws_u16 *one, ws_u16 *other)
{
	ws_u16 x = *one;

	*one = *other;
	*other = x;
}

WS_INLINE void exchange32(void *one, void *other)
{
	ws_u32 x = ws_load32(one);

	ws_store32(one, ws_load32(other));
	ws_store32(other, x);
}

/* Back to where it came from. */
WS_INLINE void turn_around(struct envelope *envelope)
{
	exchange32(&envelope->ethernet.to[0], &envelope->ethernet.from[0]);
	exchange16(&envelope->ethernet.to[2], &envelope->ethernet.from[2]);
	exchange32(envelope->ip.from, envelope->ip.to);
	exchange16(&envelope->udp.from, &envelope->udp.to);
}

#endif
