/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * SipHash-2-4 (Aumasson, Bernstein 2012) of 64-bit words: two rounds a word, four at the end, a key of 128 bits.
 *
 * Packets that are signed consist of whole words, so the last word of every message is its length alone. A tag costs
 * two rounds for each 8 bytes: no table, no branch on what is hashed, nothing that a kernel's verifier minds.
 */
#ifndef WAYSIDE_SIPHASH_H
#define WAYSIDE_SIPHASH_H

#include "../wire/gen/wire.h"

/* The 16 bytes of a key as two numbers, the first byte lowest. */
struct ws_key {
	ws_u64 halves[2];
};

struct ws_sip {
	ws_u64 v0, v1, v2, v3;
};

WS_INLINE ws_u64 ws_rotate(ws_u64 x, int bits) { return x << bits | x >> (64 - bits); }

WS_INLINE void ws_sip_round(struct ws_sip *sip)
{
	sip->v0 += sip->v1;
	sip->v1 = ws_rotate(sip->v1, 13) ^ sip->v0;
	sip->v0 = ws_rotate(sip->v0, 32);
	sip->v2 += sip->v3;
	sip->v3 = ws_rotate(sip->v3, 16) ^ sip->v2;
	sip->v0 += sip->v3;
	sip->v3 = ws_rotate(sip->v3, 21) ^ sip->v0;
	sip->v2 += sip->v1;
	sip->v1 = ws_rotate(sip->v1, 17) ^ sip->v2;
	sip->v2 = ws_rotate(sip->v2, 32);
}

WS_INLINE struct ws_sip ws_sip_begin(struct ws_key key)
{
	return (struct ws_sip){
		.v0 = key.halves[0] ^ 0x736f6d6570736575ull,
		.v1 = key.halves[1] ^ 0x646f72616e646f6dull,
		.v2 = key.halves[0] ^ 0x6c7967656e657261ull,
		.v3 = key.halves[1] ^ 0x7465646279746573ull,
	};
}

/* Takes 8 bytes of the message, the first one lowest. */
WS_INLINE void ws_sip_word(struct ws_sip *sip, ws_u64 word)
{
	sip->v3 ^= word;
	ws_sip_round(sip);
	ws_sip_round(sip);
	sip->v0 ^= word;
}

/* `last`: the message's length modulo 256 in the high byte, below it what is left of the message. */
WS_INLINE ws_u64 ws_sip_end(struct ws_sip *sip, ws_u64 last)
{
	ws_sip_word(sip, last);
	sip->v2 ^= 0xff;
	for (int round = 0; round < 4; round++)
		ws_sip_round(sip);
	return sip->v0 ^ sip->v1 ^ sip->v2 ^ sip->v3;
}

/* The `index`-th word of a packet. */
WS_INLINE ws_u64 ws_sip_load(const void *bytes, ws_u32 index)
{
	/* SipHash counts bytes from the low end; ws_load64 reads them from the high end. */
	return __builtin_bswap64(ws_load64((const ws_u8 *)bytes + index * 8));
}

#endif
