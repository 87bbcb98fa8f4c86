/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Where the XDP switch's frames go: its ports, the way to every node, and the daemon for what has no way.
 *
 *   ways      where a node's last accepted heartbeat came from: port and next hop        this file, on heartbeats; the
 *                                                                                      daemon, for a new node
 *   ports     interface and own address of every port                                    loader
 *   indexes   interface to port                                                          loader
 *   out       frames that leave by another port than they came in                        loader
 *   pairs     two ports at a time, for a GRANT and the JOIN that goes with it. Empty in  loader
 *             generic mode, which corrupts the second copy: there JOINs are upcalls
 *   upcalls   packets for the controller, and those whose way is not known: the daemon   this file
 *             sends them by the kernel's own routes
 *
 * A way is learned, not looked up: it costs one word and no route, and it is right wherever answers may go back the way
 * that requests come, which an answer by XDP_TX relies on anyway. Only a heartbeat that a session's word took teaches
 * one, so that a replayed or forged packet cannot turn a node's traffic away.
 *
 * Two copies in one frame's turn: every entry of `out` and `pairs` runs the same program as frames leave, since the
 * kernel keeps one program per interface and NAPI cycle. It tells the copies apart by the mark that IPv4's id carries
 * meanwhile:
 *
 *   15   one of a pair (otherwise the frame is finished and leaves as it is)
 *   14   both leave by the same interface: the first seen is the GRANT, the second the JOIN
 *   13..0  number of the pair on this CPU
 */
#ifndef WAYSIDE_WAYS_H
#define WAYSIDE_WAYS_H

#include "frame.h"
#include "platform_bpf.h"

/* Interfaces of one switch. */
#define WS_PORTS 16

#define WS_ARRAY(name, entries, word) \
	struct { \
		WS_UINT(type, BPF_MAP_TYPE_ARRAY); \
		WS_UINT(max_entries, entries); \
		WS_TYPE(key, ws_u32); \
		WS_TYPE(value, word); \
	} name SEC(".maps")

/* Set by the loader before the program is loaded. */
const volatile struct {
	ws_u32 address; /* the switch's IPv4 address, as a number. 0: any */
	ws_u16 port;    /* its UDP port */
	ws_u16 reserved;
} settings = { .port = WS_PORT };

struct ws_port {
	ws_u32 interface; /* 0: none */
	ws_u16 address[3];
	ws_u16 reserved;
};

/* 63..48 port + 1, 47..0 the next hop's MAC address, first half highest. 0: not known. The daemon clears a handle's
 * when another node gets it. */
struct {
	WS_UINT(type, BPF_MAP_TYPE_ARRAY);
	WS_UINT(map_flags, BPF_F_MMAPABLE);
	WS_UINT(max_entries, WS_NODES);
	WS_TYPE(key, ws_u32);
	WS_TYPE(value, ws_u64);
} ways SEC(".maps");

WS_ARRAY(ports, WS_PORTS, struct ws_port);

struct {
	WS_UINT(type, BPF_MAP_TYPE_HASH);
	WS_UINT(max_entries, WS_PORTS);
	WS_TYPE(key, ws_u32);
	WS_TYPE(value, ws_u32);
} indexes SEC(".maps");

struct {
	WS_UINT(type, BPF_MAP_TYPE_DEVMAP);
	WS_UINT(max_entries, WS_PORTS);
	WS_TYPE(key, ws_u32);
	WS_TYPE(value, struct bpf_devmap_val);
} out SEC(".maps");

struct pair {
	WS_UINT(type, BPF_MAP_TYPE_DEVMAP);
	WS_UINT(max_entries, 2);
	WS_TYPE(key, ws_u32);
	WS_TYPE(value, struct bpf_devmap_val);
};

/* By port of the GRANT * WS_PORTS + port of the JOIN. */
struct {
	WS_UINT(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	WS_UINT(max_entries, WS_PORTS *WS_PORTS);
	WS_TYPE(key, ws_u32);
	struct pair *values[];
} pairs SEC(".maps");

enum { PAIR = 0x8000, PAIR_SAME_PORT = 0x4000, PAIR_NUMBERS = 0x4000 };

/* Pairs of this CPU. */
struct pairing {
	ws_u32 last;                   /* number of the last pair made */
	ws_u32 seen[PAIR_NUMBERS / 32]; /* a bit a number: one of its copies has left. A lost copy leaves it set, and
					 * the next pair of that number then only leaves in the other order */
};

struct {
	WS_UINT(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	WS_UINT(max_entries, 1);
	WS_TYPE(key, ws_u32);
	WS_TYPE(value, struct pairing);
} pairing SEC(".maps");

/* What the daemon is asked to do with a packet. Ring of 1 MiB: about 970 of them. */
struct ws_upcall {
	ws_u32 address; /* of the sender */
	ws_u16 from_port;
	ws_u16 action; /* enum ws_action */
	ws_u16 handle; /* TO_NODE */
	ws_u16 port;
	ws_u16 copy; /* not 0: make it a JOIN to this agent, and send only that */
	ws_u16 length;
	ws_u8 packet[WS_MAX_PACKET_BYTES];
};
_Static_assert(sizeof(struct ws_upcall) == 16 + WS_MAX_PACKET_BYTES, "upcall");

struct {
	WS_UINT(type, BPF_MAP_TYPE_RINGBUF);
	WS_UINT(max_entries, 1 << 20);
} upcalls SEC(".maps");

static long (*const bpf_redirect_map)(void *map, ws_u64 key, ws_u64 flags) = (void *)BPF_FUNC_redirect_map;
static void *(*const bpf_ringbuf_reserve)(void *ring, ws_u64 size, ws_u64 flags) = (void *)BPF_FUNC_ringbuf_reserve;
static void (*const bpf_ringbuf_submit)(void *record, ws_u64 flags) = (void *)BPF_FUNC_ringbuf_submit;
static void (*const bpf_ringbuf_discard)(void *record, ws_u64 flags) = (void *)BPF_FUNC_ringbuf_discard;
static long (*const bpf_xdp_load_bytes)(struct xdp_md *frame, ws_u32 offset, void *to,
					ws_u32 length) = (void *)BPF_FUNC_xdp_load_bytes;

WS_INLINE ws_u64 way_at(ws_u16 handle)
{
	ws_u32 key = handle;
	ws_u64 *way = bpf_map_lookup_elem(&ways, &key);
	return way ? *(volatile ws_u64 *)way : 0;
}

WS_INLINE struct ws_port *port_at(ws_u32 index)
{
	struct ws_port *port = bpf_map_lookup_elem(&ports, &index);
	return port && port->interface ? port : 0;
}

/* Of the interface that a frame came in by; WS_PORTS if the loader does not know it. */
WS_INLINE ws_u32 index_of(ws_u32 interface)
{
	ws_u32 *index = bpf_map_lookup_elem(&indexes, &interface);
	return index && *index < WS_PORTS ? *index : WS_PORTS;
}

WS_INLINE ws_u32 way_port(ws_u64 way) { return (ws_u32)(way >> 48) - 1; }

/* A frame's sender as a way. */
WS_INLINE ws_u64 way_of(const ws_u16 address[3], ws_u32 port)
{
	return (ws_u64)(port + 1) << 48 | (ws_u64)SWAP16(address[0]) << 32 | (ws_u64)SWAP16(address[1]) << 16 |
	       SWAP16(address[2]);
}

/* Remembers where an accepted heartbeat came from. Stores only what has changed: the line is every CPU's. */
WS_INLINE void learn_way(ws_u16 handle, const ws_u16 address[3], ws_u32 interface)
{
	ws_u32 key = handle;
	ws_u64 *way = bpf_map_lookup_elem(&ways, &key);
	ws_u32 port = index_of(interface);
	ws_u64 found = way_of(address, port);

	if (way && port < WS_PORTS && *(volatile ws_u64 *)way != found)
		*(volatile ws_u64 *)way = found;
}

/* To the next hop of a way, from the port's own address. */
WS_INLINE void head_for(struct ethernet *ethernet, ws_u64 way, const struct ws_port *port)
{
	for (int i = 0; i < 3; i++) {
		ethernet->to[i] = SWAP16((ws_u16)(way >> (32 - 16 * i)));
		ethernet->from[i] = port->address[i];
	}
}

/* Hands the packet, as it is now, to the daemon. */
WS_INLINE void hand_up(struct xdp_md *frame, struct ws_switch *sw, const struct ws_verdict *verdict, ws_u32 address,
		       ws_u16 from_port)
{
	struct ws_upcall *upcall = bpf_ringbuf_reserve(&upcalls, sizeof(*upcall), 0);
	ws_u32 length;

	if (!upcall) {
		ws_count(sw, WS_COUNTER_handed_up_lost);
		return;
	}
	upcall->address = address;
	upcall->from_port = from_port;
	upcall->action = verdict->action;
	upcall->handle = verdict->handle;
	upcall->port = verdict->port;
	upcall->copy = verdict->copy;
	upcall->length = verdict->length;
	/* From memory, of which the verifier knows nothing: what it has gathered of the length on ways that no packet
	 * takes contradicts itself, and Linux 6.12 then refuses the call for a length that cannot be. */
	length = *(volatile ws_u16 *)&upcall->length;
	/* The verifier must see the check and the use of one register. */
	asm volatile("" : "+r"(length));
	if (length < WS_HEADER_BYTES || length > WS_MAX_PACKET_BYTES ||
	    bpf_xdp_load_bytes(frame, sizeof(struct envelope), upcall->packet, length)) {
		bpf_ringbuf_discard(upcall, 0);
		ws_count(sw, WS_COUNTER_handed_up_lost);
		return;
	}
	bpf_ringbuf_submit(upcall, 0);
	ws_count(sw, WS_COUNTER_handed_up);
}

/* The mark of a new pair on this CPU, in host byte order; 0 without the map, which cannot be. */
WS_INLINE ws_u16 mark_pair(int same_port)
{
	ws_u32 key = 0;
	struct pairing *own = bpf_map_lookup_elem(&pairing, &key);

	if (!own)
		return 0;
	own->last++;
	return (ws_u16)(PAIR | (same_port ? PAIR_SAME_PORT : 0) | (own->last & (PAIR_NUMBERS - 1)));
}

/* Whether a copy with this mark is the second to leave. */
WS_INLINE int is_second(ws_u16 mark)
{
	ws_u32 key = 0, number = mark & (PAIR_NUMBERS - 1);
	struct pairing *own = bpf_map_lookup_elem(&pairing, &key);

	if (!own)
		return 0;
	ws_u32 *word = &own->seen[number / 32 & (PAIR_NUMBERS / 32 - 1)];
	*word ^= 1u << number % 32;
	return !(*word >> number % 32 & 1);
}

#endif
