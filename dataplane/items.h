/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * The chain service's memory at one switch, and who may write it.
 *
 *   groups    this switch's place in each virtual group's chain   daemon; `sequence` is counted up by the head
 *   buckets   which item has a key                                daemon alone: keys come and go by it
 *   items     a key's value, in two versions of which one counts  whoever has the item's lock
 *   lanes     what a client's latest write in each lane became    whoever has the item's lock and the lane's
 *   journal   the latest versions taken in groups that are watched   whoever has the item's lock and the record's
 *
 * A lock is a word that names who writes; the rest of it stays as it is meanwhile. Whoever finds one taken tries again
 * a few times, and then drops its packet: the client sends it again. Readers take no lock.
 *
 * The journal is a ring, and nobody waits for room in it. Whoever takes a version draws a number, under the item's
 * lock, and has the record of that number: it is told (the lock word names nobody, and the number) once the item's
 * lock is given back, so what is told can be read. One reader, the daemon, takes records in the order of their
 * numbers. A record that somebody slow still has, or that a later number has overtaken, is not waited for either:
 * `torn` counts up, and the reader knows that something is missing, as it does when the ring has gone round.
 */
#ifndef WAYSIDE_ITEMS_H
#define WAYSIDE_ITEMS_H

#include "memory.h"

#define WS_VALUE_WORDS (WS_MAX_VALUE_BYTES / 8)

/* A version of an item. Versions are ordered by epoch, then by sequence. */
struct ws_version {
	ws_u64 sequence;
	ws_u64 shape; /* epoch 32, length 16, WS_VALUE_FLAG_* 16 */
	ws_u64 owner; /* wire.h: lease_owner. 0: the version is not leased */
};

/* One key. The version that counts, and with it its value, is the one that the lock says; whoever writes fills the
 * other one and then turns the lock: a reader sees the one or the other, and a writer that dies leaves what was. */
struct ws_item {
	ws_u64 lock; /* wire.h: item_lock */
	ws_u64 key_high;
	ws_u64 key_low;
	ws_u64 name; /* 1 + group in 17 bits, above them the name's check; 0: no key lives here */
	struct ws_version versions[2];
	ws_u64 values[2][WS_VALUE_WORDS];
};

/* Eight places for keys. A place is the upper half of the key's hash, then the number of its item; 0: it is free. A key
 * may lie in two buckets: so nearly all places can be used. */
#define WS_BUCKET_PLACES 8

struct ws_bucket {
	ws_u64 places[WS_BUCKET_PLACES];
};

/* A virtual group's chain, as this switch stands in it. */
struct ws_group {
	ws_u64 place;    /* wire.h: group_place. In one word, so that nobody sees half a change */
	ws_u64 sequence; /* of the latest version that this switch counted as head. Never falls */
	ws_u32 namespace;
	ws_u32 watched; /* not 0: what is taken goes to the journal */
};

/* Writes of one client that are under way one after the other. Its latest is answered again as it was answered first.
 * */
struct ws_lane {
	ws_u64 lock;    /* wire.h: item_lock. Below the owner, while a result is written: whose, of its request 47..0 */
	ws_u64 request; /* 0: none yet */
	ws_u64 own_sequence;
	ws_u32 own_epoch;
	ws_u32 outcome; /* WS_OUTCOME_* */
};

/* Records in the journal, a power of two: 4 ms of a million writes a second. */
#define WS_RECORDS 4096

/* A version that an item has taken. */
struct ws_record {
	ws_u64 lock; /* 63..48 who writes it, as in an item's lock; 47..0 its number, 0: none yet */
	ws_u64 key_high;
	ws_u64 key_low;
	ws_u64 name; /* the item's */
	ws_u64 before_sequence; /* of the version that the item had */
	ws_u64 before_shape;
	ws_u64 sequence; /* of the one that it has taken */
	ws_u64 shape;
	ws_u64 value[WS_VALUE_WORDS];
};

/* A record's number, of its lock: at a million a second 2^48 of them last nine years. */
#define WS_RECORD_NUMBER 0xffffffffffffull

/* What is one for the switch. All but the lease and the journal's counts is written before its first group. */
struct ws_store {
	ws_u64 seed;        /* of the keys' hashes: this switch's secret */
	ws_u32 bucket_mask; /* buckets - 1 */
	ws_u32 handle;      /* of this switch among the others; 0: it has no neighbours */
	struct ws_lease lease; /* of all its places; that of the locks is another one */
	ws_u64 reserved[4];
	/* A line of their own, which every packet that is journalled writes. */
	ws_u64 drawn; /* the journal's latest number */
	ws_u64 torn;  /* records that were not written, or not whole */
	ws_u64 reserved_more[6];
};

/* Namespace of the other switches' handles: no configuration has so many. */
#define WS_FELLOWS 65535

/* Group numbers have 16 bits: their table holds all of them. */
#define WS_GROUPS 65536

_Static_assert(sizeof(struct ws_item) == 80 + 2 * WS_MAX_VALUE_BYTES, "item");
_Static_assert(sizeof(struct ws_bucket) == 64, "bucket");
_Static_assert(sizeof(struct ws_group) == 24, "group");
_Static_assert(sizeof(struct ws_lane) == 32, "lane");
_Static_assert(sizeof(struct ws_store) == 128, "store");
_Static_assert(sizeof(struct ws_record) == 64 + WS_MAX_VALUE_BYTES, "record");

WS_INLINE ws_u64 ws_version_epoch(struct ws_version version) { return version.shape >> 32; }
WS_INLINE ws_u32 ws_version_length(struct ws_version version) { return version.shape >> 16 & 0xffff; }
WS_INLINE ws_u16 ws_version_flags(struct ws_version version) { return (ws_u16)version.shape; }

WS_INLINE struct ws_version ws_version_of(ws_u64 epoch, ws_u64 sequence, ws_u64 length, ws_u16 flags)
{
	return (struct ws_version){ .sequence = sequence, .shape = epoch << 32 | length << 16 | flags };
}

/* The owner that a packet tells, or a lease's writer. */
WS_INLINE ws_u64 ws_owner_of_lease(ws_u16 handle, ws_u32 incarnation)
{
	return ws_lease_owner_with_incarnation(ws_lease_owner_with_handle(0, handle), incarnation);
}

WS_INLINE int ws_is_newer(struct ws_version a, struct ws_version b)
{
	if (ws_version_epoch(a) != ws_version_epoch(b))
		return ws_version_epoch(a) > ws_version_epoch(b);
	return a.sequence > b.sequence;
}

/* `name` of an item, and what of it is the group's. */
WS_INLINE ws_u64 ws_item_name(ws_u64 group, ws_u64 check) { return check << 17 | (1 + group); }
#define WS_ITEM_GROUP 0x1ffffull

/* Blocks that a value of this length takes. */
WS_INLINE ws_u32 ws_blocks(ws_u32 length) { return (length + WS_BLOCK_BYTES - 1) / WS_BLOCK_BYTES; }

/* Hash of a key in its group: the upper half is remembered in a bucket, the lower half and their mix name two. The seed
 * is the switch's secret: nobody can fill a bucket on purpose. */
WS_INLINE ws_u64 ws_key_hash(ws_u64 seed, ws_u64 key_high, ws_u64 key_low, ws_u64 group)
{
	ws_u64 hash = (key_high ^ seed) * 0xff51afd7ed558ccdull;

	hash = (hash ^ hash >> 32 ^ key_low ^ group << 48) * 0xc4ceb9fe1a85ec53ull;
	hash = (hash ^ hash >> 29) * 0xbf58476d1ce4e5b9ull;
	return hash ^ hash >> 32;
}

WS_INLINE ws_u32 ws_first_bucket(ws_u64 hash) { return (ws_u32)hash; }
WS_INLINE ws_u32 ws_second_bucket(ws_u64 hash) { return (ws_u32)hash ^ ((ws_u32)(hash >> 32) | 1) * 0x9e3779b1u; }

#endif
