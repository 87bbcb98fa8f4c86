/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* The core and what its tests have of it in one unit, for a compiler that is quick and knows no atomics: a mutant is
 * judged by one thread. */
#define __UINT8_TYPE__ unsigned char
#define __UINT16_TYPE__ unsigned short
#define __UINT32_TYPE__ unsigned int
#define __UINT64_TYPE__ unsigned long long
#define _Thread_local
#define __builtin_bswap16 quick_swap16
#define __builtin_bswap32 quick_swap32
#define __builtin_bswap64 quick_swap64
#define __builtin_prefetch(at, how) ((void)0)
#define __ATOMIC_RELAXED 0
#define __ATOMIC_ACQUIRE 2
#define __ATOMIC_RELEASE 3
#define __ATOMIC_SEQ_CST 5
#define __atomic_load_n(at, order) (*(at))
#define __atomic_store_n(at, x, order) (*(at) = (x))
#define __atomic_fetch_add(at, x, order) (*(at) += (x))
#define __atomic_fetch_sub(at, x, order) (*(at) -= (x))
#define __atomic_add_fetch(at, x, order) (*(at) += (x))
#define __atomic_thread_fence(order) ((void)0)
#define __atomic_compare_exchange_n(at, expected, x, weak, won, lost) \
	(*(at) == *(expected) ? (*(at) = (x), 1) : (*(expected) = *(at), 0))

static inline unsigned short quick_swap16(unsigned short x) { return x << 8 | x >> 8; }
static inline unsigned quick_swap32(unsigned x) { return (unsigned)quick_swap16(x) << 16 | quick_swap16(x >> 16); }
static inline unsigned long long quick_swap64(unsigned long long x)
{
	return (unsigned long long)quick_swap32(x) << 32 | quick_swap32(x >> 32);
}

#ifdef QUICK_MEANWHILE
#include "dataplane/cases/meanwhile_native.c"
#else
#include "dataplane/cases/race_native.c"
#define ws_process ws_process_alone
#include "dataplane/native.c"
#undef ws_process
#include "dataplane/cases/siphash_native.c"

struct ws_verdict ws_process(struct ws_switch *sw, void *packet, ws_u32 length, ws_u16 from_port)
{
	race = 0; /* of the packet before */
	return ws_process_alone(sw, packet, length, from_port);
}
#endif
