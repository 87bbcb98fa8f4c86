/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Wayside's packets. Generated from wire/messages.toml by `cargo xtask wire`; do not edit. */
#ifndef WAYSIDE_WIRE_H
#define WAYSIDE_WIRE_H

typedef __UINT8_TYPE__ ws_u8;
typedef __UINT16_TYPE__ ws_u16;
typedef __UINT32_TYPE__ ws_u32;
typedef __UINT64_TYPE__ ws_u64;

#define WS_INLINE static inline __attribute__((always_inline, unused))

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define WS_SWAP16(x) __builtin_bswap16(x)
#define WS_SWAP32(x) __builtin_bswap32(x)
#define WS_SWAP64(x) __builtin_bswap64(x)
#else
#define WS_SWAP16(x) (x)
#define WS_SWAP32(x) (x)
#define WS_SWAP64(x) (x)
#endif

/* A packet may start at any address. Natively the compiler must be told (packed). For BPF it must not be: it would
 * load byte by byte, while the kernel accepts unaligned loads from packets where the CPU does. */
#ifdef __bpf__
#define WS_ANYWHERE __attribute__((may_alias))
#else
#define WS_ANYWHERE __attribute__((may_alias, packed))
#endif
struct ws_be16 { ws_u16 bits; } WS_ANYWHERE;
struct ws_be32 { ws_u32 bits; } WS_ANYWHERE;
struct ws_be64 { ws_u64 bits; } WS_ANYWHERE;

WS_INLINE ws_u8 ws_load8(const void *p) { return *(const ws_u8 *)p; }
WS_INLINE ws_u16 ws_load16(const void *p) { return WS_SWAP16(((const struct ws_be16 *)p)->bits); }
WS_INLINE ws_u32 ws_load32(const void *p) { return WS_SWAP32(((const struct ws_be32 *)p)->bits); }
WS_INLINE ws_u64 ws_load64(const void *p) { return WS_SWAP64(((const struct ws_be64 *)p)->bits); }
WS_INLINE void ws_store8(void *p, ws_u8 x) { *(ws_u8 *)p = x; }
WS_INLINE void ws_store16(void *p, ws_u16 x) { ((struct ws_be16 *)p)->bits = WS_SWAP16(x); }
WS_INLINE void ws_store32(void *p, ws_u32 x) { ((struct ws_be32 *)p)->bits = WS_SWAP32(x); }
WS_INLINE void ws_store64(void *p, ws_u64 x) { ((struct ws_be64 *)p)->bits = WS_SWAP64(x); }

/* `width` (1 to 63) bits of a word, the lowest at `low`. Writing keeps the low bits of x. */
WS_INLINE ws_u64 ws_bits(ws_u64 word, int low, int width) { return word >> low & ~(~0ull << width); }
WS_INLINE ws_u64 ws_with_bits(ws_u64 word, int low, int width, ws_u64 x)
{
	return (word & ~(~(~0ull << width) << low)) | (x & ~(~0ull << width)) << low;
}

/* The protocol. */
#define WS_PORT 7600                         /* UDP, of the switch's address */
#define WS_ADMIN_PORT 7601                   /* TCP: the control connection */
#define WS_MAGIC 0x5753                      /* first two bytes of a packet */
#define WS_MAJOR 1                           /* another one is dropped: foreign_version */
#define WS_MINOR 14                          /* any is accepted */
#define WS_VERSION 0x1e                      /* major << 4 | minor */

/* Limits. */
#define WS_HEADER_BYTES 32                   /* common header */
#define WS_ENTRY_BYTES 32                    /* one lock entry */
#define WS_MAX_ENTRIES 32                    /* lock entries in a packet */
#define WS_BLOCK_BYTES 32                    /* one block of a value or a name */
#define WS_MAX_BLOCKS 30                     /* blocks in a packet */
#define WS_MAX_PACKET_BYTES 1056             /* header and 32 entries, or an operation and 30 blocks: below an MTU of 1,280 with IPv6 and UDP */
#define WS_MAX_HOPS 8                        /* bounces of a request before its holder is told BUSY with RETRY */
#define WS_MAX_JOINS 4095                    /* joins of a tenure: 12 bits */
#define WS_MAX_TENURE 4294967295u            /* a slot that reaches it is frozen */
#define WS_MAX_EPOCH 8388607u                /* 23 bits of a token: one restart a second lasts 97 days, one a minute 15 years */
#define WS_MAX_PRIORITY 7                    /* priority of a request: 0 to 7, and the higher is served earlier */
#define WS_MAX_SEQUENCE 255                  /* exclusive grants of an agent within a tenure */
#define WS_MAX_HANDLE 65535                  /* nodes at a time */
#define WS_CONTROLLER_HANDLE 0               /* the controller */
#define WS_ALL_SLOTS 4294967295u             /* slot of a census of the whole switch */
#define WS_MAX_LISTED 120                    /* names of a hybrid namespace that have their queue in the switch */
#define WS_MAX_NAMESPACE_BYTES 24            /* name of a namespace */
#define WS_MAX_HOST_BYTES 32                 /* host name that a node reports */
#define WS_MAX_LOCK_NAME_BYTES 1024          /* a lock's name, checked by clients; packets carry its 64-bit id */
#define WS_MAX_VALUE_BYTES 128               /* a value */
#define WS_MAX_KEY_NAME_BYTES 960            /* a key's name, which an INSERT carries in blocks */
#define WS_MAX_CHAIN 5                       /* switches of a chain */
#define WS_MAX_PAUSE_US 1000000u             /* longest pause that a REJECT tells: a budget may be another one by then */
#define WS_MAX_LANES 16                      /* writes of a node under way at a time */
#define WS_ENROL_BYTES 80                    /* Body of ENROL. */
#define WS_ENROLLED_BYTES 40                 /* Body of ENROLLED. The handle is the header's destination, the namespace's id in the header. */
#define WS_NAMES_BYTES 64                    /* Which names of a hybrid namespace have their queue in the switch, for as long as its epoch lasts: four in each block. */
#define WS_LISTED_BYTES 32                   /* A block of NAMES: name ids, which rise. Those behind the last are zero. */
#define WS_HEARTBEAT_BYTES 32                /* Body of HEARTBEAT, HEARTBEAT_ACK, LEAVE, LEFT, DOWN, DOWN_ACK, STALE, TURN, TURN_ACK, POLICY and POLICY_ACK. */
#define WS_OPERATION_BYTES 64                /* What a client asks of the chain of a key. */
#define WS_EFFECT_BYTES 64                   /* What became of an operation: from switch to switch, and to the client. The same fields at the same places. */
#define WS_ROUTES_BYTES 64                   /* Where the groups of a namespace are: a page, with a route in each block. */
#define WS_ROUTE_BYTES 32                    /* Where a group is. All zeros: not known. */
#define WS_WATCH_BYTES 64                    /* What a client wants to hear of a group from a position on; given back with the position after what is told. Where an operation has the same, its fields are at the same places. */
#define WS_CHANGE_BYTES 32                   /* A version that a key has got. The name follows, padded to whole blocks, then the value likewise. */
#define WS_PLACEMENT_BYTES 64                /* A switch's place in a group, and where clients find the group. All of it is given back when it is so. */
#define WS_RENEWAL_BYTES 64                  /* A switch's serving lease. */
#define WS_COPIED_BYTES 64                   /* A piece of a group's memory, or the question for what comes after a key; `length` 0: for the first. Also a key that goes, with the version at which it does. */
#define WS_ATTEMPT_BYTES 64                  /* One request for a lock of the queue service, and what became of it. */
#define WS_FETCH_BYTES 64                    /* A request for a lock of the queue service that is granted by way of a third node, with data from there: what it asks that node for, or what it was answered, is in the blocks. Where an attempt has the same, its fields are at the same places. */

/* Services. */
#define WS_SERVICE_FABRIC 0                  /* Sessions. */
#define WS_SERVICE_LOCK 1                    /* Lock fission. */
#define WS_SERVICE_QUEUE 2                   /* Locks whose queues are in the switch, or at a lock server. */
#define WS_SERVICE_CHAIN 3                   /* A key-value store, replicated along chains of switches. */

/* Kinds of the fabric service. */
#define WS_FABRIC_ENROL 1                    /* node to controller: begin a session */
#define WS_FABRIC_ENROLLED 2                 /* controller to node: the session, or why not */
#define WS_FABRIC_HEARTBEAT 3                /* node to switch: alive */
#define WS_FABRIC_HEARTBEAT_ACK 4            /* switch to node: recorded */
#define WS_FABRIC_LEAVE 5                    /* node to controller: the session ends */
#define WS_FABRIC_LEFT 6                     /* controller to node: it has ended */
#define WS_FABRIC_DOWN 7                     /* controller to node: the handle in the header's position is dead */
#define WS_FABRIC_DOWN_ACK 8                 /* node to controller */
#define WS_FABRIC_STALE 9                    /* switch to node: the header's epoch is the current one */
#define WS_FABRIC_TURN 10                    /* controller to node: this switch serves, in this turn of the header's epoch */
#define WS_FABRIC_TURN_ACK 11                /* node to controller */
#define WS_FABRIC_NAMES 12                   /* controller to node, before an ENROLLED of a hybrid namespace: which names have their queue in the switch */
#define WS_FABRIC_POLICY 13                  /* controller to node: the namespace's policy, in the low byte of the header's position, and its patience as in ENROLLED, in the high one */
#define WS_FABRIC_POLICY_ACK 14              /* node to controller */

/* Kinds of the lock service. */
#define WS_LOCK_ACQUIRE 1                    /* node to switch, switch to agent */
#define WS_LOCK_GRANT 2                      /* switch or agent to holder */
#define WS_LOCK_JOIN 3                       /* switch to agent: granted by the switch */
#define WS_LOCK_RELEASE 4                    /* holder to switch to agent */
#define WS_LOCK_CANCEL 5                     /* as release, of a request without a known grant */
#define WS_LOCK_RELEASED 6                   /* agent or switch to holder */
#define WS_LOCK_DOWNGRADE 7                  /* holder to switch to agent: exclusive to shared */
#define WS_LOCK_RETENURE 8                   /* agent to switch: the one conditional change */
#define WS_LOCK_RETENURED 9                  /* switch to agent: its outcome, with the slot as it is */
#define WS_LOCK_BUSY 10                      /* switch or agent to holder: not now */
#define WS_LOCK_RECOVERING 11                /* switch to node: ask again later */
#define WS_LOCK_QUEUE 12                     /* old agent to new agent: more waiters */
#define WS_LOCK_QUEUED 13                    /* new agent to old agent: all below position arrived */
#define WS_LOCK_GAP 14                       /* to the controller: this slot needs a census */
#define WS_LOCK_CENSUS 15                    /* controller to node: what do you hold here? */
#define WS_LOCK_REPORT 16                    /* node to controller: a page of holds */
#define WS_LOCK_ADOPT 17                     /* controller to node: be the agent of these holders */
#define WS_LOCK_ADOPTED 18                   /* node to controller: page taken */
#define WS_LOCK_INSPECT 19                   /* controller to agent: is this slot still yours? */
#define WS_LOCK_REJECT 20                    /* switch to holder: the namespace is over its budget; ask again after a pause */
#define WS_LOCK_FREE 21                      /* agent to switch: RETENURE *free* of every entry's slot */
#define WS_LOCK_FREED 22                     /* switch to agent: those slots as they are now */

/* Kinds of the queue service. */
#define WS_QUEUE_ACQUIRE 1                   /* holder to switch, switch to lock server */
#define WS_QUEUE_GRANT 2                     /* switch or lock server to holder */
#define WS_QUEUE_QUEUED 3                    /* switch or lock server to holder: the request waits */
#define WS_QUEUE_RELEASE 4                   /* holder to switch, switch to lock server */
#define WS_QUEUE_CANCEL 5                    /* as release, of a request without a known grant */
#define WS_QUEUE_RELEASED 6                  /* switch or lock server to holder: the request is over */
#define WS_QUEUE_NEXT 7                      /* holder to switch: grant the one behind me */
#define WS_QUEUE_BUSY 8                      /* switch or lock server to holder: not now */
#define WS_QUEUE_RECOVERING 9                /* switch to node: ask again later */
#define WS_QUEUE_PUSH 10                     /* lock server to switch: take this request into the queue */
#define WS_QUEUE_SETTLE 11                   /* lock server to switch: I have nothing more, up to this order */
#define WS_QUEUE_PUSHED 12                   /* switch to lock server: what has been taken */
#define WS_QUEUE_ROOM 13                     /* switch to lock server: the queue is empty, and you have more */
#define WS_QUEUE_SERVE 14                    /* node to controller: I can be a lock server of the namespace */
#define WS_QUEUE_SERVING 15                  /* controller to node: you are, or another one is */
#define WS_QUEUE_RECALL 16                   /* controller to lock server: cede this lock to the switch */
#define WS_QUEUE_CEDED 17                    /* lock server to controller: nobody holds it, and nobody is granted it here any more */
#define WS_QUEUE_YIELD 18                    /* controller to lock server: this lock is yours from now on */
#define WS_QUEUE_TAKEN 19                    /* lock server to controller: I know that it is mine */
#define WS_QUEUE_ASKED 20                    /* lock server to controller: how often this lock was asked for */
#define WS_QUEUE_REJECT 21                   /* switch to holder: the namespace is over its budget; ask again after a pause */
#define WS_QUEUE_FETCH 22                    /* holder to switch: as acquire; switch to third node: it is granted, and what it asks you for */
#define WS_QUEUE_FETCHED 23                  /* third node to switch to holder: the grant, and what it was answered */

/* Kinds of the chain service. */
#define WS_CHAIN_READ 1                      /* client to tail */
#define WS_CHAIN_WRITE 2                     /* client to head */
#define WS_CHAIN_DELETE 3                    /* client to head */
#define WS_CHAIN_APPLY 4                     /* switch to the next of the chain: have at least this version */
#define WS_CHAIN_ANSWER 5                    /* tail, or whoever refuses, to client */
#define WS_CHAIN_INSERT 6                    /* client to head's daemon: the key of this name is to exist */
#define WS_CHAIN_INSTALL 7                   /* daemon to the next switch's daemon: have this key */
#define WS_CHAIN_MAP 8                       /* client to daemon: where are the groups from `first` on? */
#define WS_CHAIN_ROUTES 9                    /* daemon to client: as many as the question had blocks */
#define WS_CHAIN_PLACE 10                    /* controller to switch: this is your place in a group */
#define WS_CHAIN_PLACED 11                   /* switch to controller: it is */
#define WS_CHAIN_RENEW 12                    /* switch to controller: I am here, and ask for a lease */
#define WS_CHAIN_RENEWED 13                  /* controller to switch: the lease */
#define WS_CHAIN_FETCH 14                    /* joiner to source: what comes after this piece? */
#define WS_CHAIN_COPY 15                     /* source to joiner: this */
#define WS_CHAIN_WATCH 16                    /* client to tail's daemon: what comes after this position? */
#define WS_CHAIN_EVENT 17                    /* tail's daemon to client: this, or that the position is lost */
#define WS_CHAIN_REMOVE 18                   /* daemon to the next switch's daemon: this key goes, if it is without a value at this version */
#define WS_CHAIN_REMOVED 19                  /* daemon to the daemon before: it is gone here, and from here on */

/* Header flags. */
#define WS_HEADER_FLAG_CLAIM 0x0001          /* RETENURE: a claim */
#define WS_HEADER_FLAG_APPLIED 0x0002        /* RETENURED: the change stands */
#define WS_HEADER_FLAG_REFUSED 0x0004        /* RETENURED: joins differ, or DEAD; ENROLLED: no session; FETCHED: no answer */
#define WS_HEADER_FLAG_STALE_TENURE 0x0008   /* RETENURED: the tenure is over */
#define WS_HEADER_FLAG_LAST 0x0010           /* last page */
#define WS_HEADER_FLAG_DEAD 0x0020           /* the node in question is not LIVE */
#define WS_HEADER_FLAG_EXPIRED 0x0040        /* HEARTBEAT_ACK: the session is over */
#define WS_HEADER_FLAG_CLEAN 0x0080          /* LEAVE: nothing is left to sweep */
#define WS_HEADER_FLAG_RETRY 0x0100          /* BUSY: send it again after a pause */
#define WS_HEADER_FLAG_QUIET 0x0400          /* FREE: to be answered only if one of the slots is not freed by it */
#define WS_HEADER_FLAG_KEY 0x0200            /* the tag is made with the key of an odd rotation; otherwise of an even one */

/* Entry flags. */
#define WS_ENTRY_FLAG_EXCLUSIVE 0x01         /* mode: exclusive; otherwise shared */
#define WS_ENTRY_FLAG_TRY 0x02               /* ACQUIRE: do not queue */
#define WS_ENTRY_FLAG_AGENCY 0x04            /* GRANT: the slot's agent is the holder's node from now on */
#define WS_ENTRY_FLAG_JOINED 0x08            /* GRANT, JOIN, RELEASE: granted by a join, the ordinal is in slot_bits */
#define WS_ENTRY_FLAG_HELD 0x10              /* REPORT, ADOPT, QUEUE: a hold; otherwise a wait */
#define WS_ENTRY_FLAG_DEAD 0x20              /* JOIN: the ordinal's node is not LIVE: no holder */

/* Value flags. */
#define WS_VALUE_FLAG_PRESENT 0x0001         /* the key has a value */
#define WS_VALUE_FLAG_LEASED 0x0002          /* WRITE: as long as the writer's session lasts; otherwise: the version is leased, or, without a value, ended a lease */
#define WS_VALUE_FLAG_LEAVING 0x0004         /* in a head's memory only: the key is being removed from its chain */

/* Queue flags. */
#define WS_QUEUE_FLAG_EXCLUSIVE 0x01         /* mode: exclusive; otherwise shared */
#define WS_QUEUE_FLAG_TRY 0x02               /* ACQUIRE: do not queue */
#define WS_QUEUE_FLAG_MORE 0x04              /* GRANT: whoever is behind may be granted too: send NEXT */

/* State of a slot: top two bits of w0 and of slot_bits. */
#define WS_SLOT_STATE_UNHELD 0               /* nobody */
#define WS_SLOT_STATE_OPEN 1                 /* the switch grants shared requests itself */
#define WS_SLOT_STATE_MANAGED 2              /* the agent decides everything */
#define WS_SLOT_STATE_FROZEN 3               /* the controller does */
#define WS_SLOT_STATE_COUNT 4                /* one more than the highest */

/* State in a node's word at the switch. */
#define WS_NODE_STATE_VACANT 0               /* no such node */
#define WS_NODE_STATE_LIVE 1                 /* enrolled */
#define WS_NODE_STATE_EXPIRED 2              /* its session is over */
#define WS_NODE_STATE_DISMISSED 3            /* it is heard no more; its lease may run */
#define WS_NODE_STATE_COUNT 4                /* one more than the highest */

/* Who goes first. */
#define WS_POLICY_FAIR 0                     /* first come, first served */
#define WS_POLICY_READ_PREFERRING 1          /* shared requests join although an exclusive one waits */
#define WS_POLICY_WRITE_PREFERRING 2         /* exclusive waiters before shared ones */
#define WS_POLICY_COUNT 3                    /* one more than the highest */

/* Who keeps a namespace's locks. */
#define WS_ENGINE_FISSION 0                  /* the switch decides, and the node of a holder keeps the books */
#define WS_ENGINE_QUEUE 1                    /* queues in the switch, and a lock server */
#define WS_ENGINE_HYBRID 2                   /* queues for the names that are listed, and lock fission for all others */
#define WS_ENGINE_COUNT 3                    /* one more than the highest */

/* Reason in an ENROLLED with REFUSED. */
#define WS_REFUSAL_NONE 0                    /* not refused */
#define WS_REFUSAL_VERSION 1                 /* the switch speaks another major version, or the namespace needs a later minor one */
#define WS_REFUSAL_NAMESPACE 2               /* no such namespace */
#define WS_REFUSAL_FULL 3                    /* no free handle */
#define WS_REFUSAL_RECOVERING 4              /* the switch is recovering: ask again */
#define WS_REFUSAL_SHARDS 5                  /* the switch divides names among other shards, or is another one of them */
#define WS_REFUSAL_COUNT 6                   /* one more than the highest */

/* What a write asks of the item that it meets. */
#define WS_CONDITION_NONE 0                  /* nothing */
#define WS_CONDITION_VERSION 1               /* the key's version is the expected one, and it has a value */
#define WS_CONDITION_ABSENT 2                /* the key has no value */
#define WS_CONDITION_WORD 3                  /* the value's first eight bytes, padded with zeros, are the expected ones; no value counts as zeros */
#define WS_CONDITION_COUNT 4                 /* one more than the highest */

/* What became of an operation. */
#define WS_OUTCOME_DONE 0                    /* it was done */
#define WS_OUTCOME_UNMET 1                   /* the condition does not hold; the value is the one that it met */
#define WS_OUTCOME_MISSING 2                 /* the switch has no such key: INSERT it first */
#define WS_OUTCOME_NO_ROOM 3                 /* the value is longer than the packet's blocks; `length` says how long */
#define WS_OUTCOME_MOVED 4                   /* the group has another epoch, which the header tells, or another head or tail */
#define WS_OUTCOME_RECOVERING 5              /* ask again later */
#define WS_OUTCOME_FULL 6                    /* no room for another key */
#define WS_OUTCOME_COLLISION 7               /* another name has this key */
#define WS_OUTCOME_UNSURE 8                  /* the write was first sent to another chain of the group: whether it has had its effect nobody knows */
#define WS_OUTCOME_RESET 9                   /* what came after the position is not known any more: read again, and go on from here */
#define WS_OUTCOME_COUNT 10                  /* one more than the highest */

/* What a switch is to a group. */
#define WS_ROLE_NONE 0                       /* nothing */
#define WS_ROLE_MEMBER 1                     /* one of its chain */
#define WS_ROLE_QUIET 2                      /* its tail, which is read from and takes nothing new */
#define WS_ROLE_JOINER 3                     /* one that copies what its tail has */
#define WS_ROLE_COUNT 4                      /* one more than the highest */

/* Of what a WATCH wants to hear. */
#define WS_SCOPE_KEY 0                       /* of one key */
#define WS_SCOPE_PREFIX 1                    /* of keys whose names begin so */
#define WS_SCOPE_COUNT 2                     /* one more than the highest */

/* What a COPY has, or a FETCH asks for. */
#define WS_PART_NAME 0                       /* a key's name, and its first version */
#define WS_PART_VALUE 1                      /* what a key has */
#define WS_PART_END 2                        /* nothing comes after */
#define WS_PART_COUNT 3                      /* one more than the highest */

/* Why a packet was dropped; one counter each. */
#define WS_DROP_REASON_NONE 0                /* not dropped */
#define WS_DROP_REASON_TOO_SHORT 1           /* shorter than a header */
#define WS_DROP_REASON_BAD_MAGIC 2           /* not a Wayside packet */
#define WS_DROP_REASON_FOREIGN_VERSION 3     /* another major version */
#define WS_DROP_REASON_UNKNOWN_SERVICE 4     /* no such service here */
#define WS_DROP_REASON_UNKNOWN_KIND 5        /* no such kind, or not one for the switch */
#define WS_DROP_REASON_BAD_LENGTH 6          /* length does not fit kind and count */
#define WS_DROP_REASON_BAD_COUNT 7           /* no entries, or too many for the kind */
#define WS_DROP_REASON_UNKNOWN_NAMESPACE 8   /* no such namespace */
#define WS_DROP_REASON_BAD_SLOT 9            /* slot beyond the namespace */
#define WS_DROP_REASON_UNKNOWN_SOURCE 10     /* source handle is vacant */
#define WS_DROP_REASON_SOURCE_NOT_LIVE 11    /* source's session is over */
#define WS_DROP_REASON_HOLDER_NOT_LIVE 12    /* holder is vacant or its session is over */
#define WS_DROP_REASON_FOREIGN_HOLDER 13     /* holder of another tenant */
#define WS_DROP_REASON_STALE_REQUEST 14      /* request older than the node's oldest, or of another incarnation; FETCHED of one that does not hold */
#define WS_DROP_REASON_STALE_EPOCH 15        /* epoch is not the switch's (the sender is told, where it is not a copy) */
#define WS_DROP_REASON_DESTINATION_NOT_LIVE 16 /* destination is vacant or its session is over */
#define WS_DROP_REASON_STALE_HEARTBEAT 17    /* heartbeat sequence not above the recorded one */
#define WS_DROP_REASON_BAD_STATE 18          /* a RETENURE to FROZEN, to agent 0, or a transfer to UNHELD; a RELEASE or FETCHED without a ticket, or a FETCH with one; a PUSH of more than was given */
#define WS_DROP_REASON_LOST_RACE 19          /* compare-and-swap lost 8 times in a row: the sender retransmits */
#define WS_DROP_REASON_BAD_TAG 20            /* authentication failed */
#define WS_DROP_REASON_NOT_GRANTED 21        /* won for a holder that had just expired: undone */
#define WS_DROP_REASON_ENROL_IN_CLEAR 22     /* ENROL as a packet while authentication is on */
#define WS_DROP_REASON_NO_KEY 23             /* an answer whose receiver has no key: nothing leaves without a tag */
#define WS_DROP_REASON_NOT_SERVING 24        /* heartbeat or FETCHED after the switch's serving lease: another one may serve */
#define WS_DROP_REASON_OVER_BUDGET 25        /* ACQUIRE of a namespace that has spent its budget: the sender retransmits (it may be told REJECT) */
#define WS_DROP_REASON_UNKNOWN_GROUP 26      /* no such group here, or not of the sender's namespace */
#define WS_DROP_REASON_WRONG_PLACE 27        /* not for a switch at this place of the chain, or not from the one before */
#define WS_DROP_REASON_BAD_VALUE 28          /* value longer than its blocks, or than values may be; FETCH or FETCHED with other blocks than its length takes */
#define WS_DROP_REASON_BAD_LANE 29           /* no such lane */
#define WS_DROP_REASON_NO_SERVER 30          /* a lock that is not the switch's, in a namespace without a live lock server */
#define WS_DROP_REASON_NOT_ITS_SERVER 31     /* what a lock's server says, from another node */
#define WS_DROP_REASON_NO_QUEUE 32           /* PUSH, SETTLE or FETCHED of a lock that has no queue here */
#define WS_DROP_REASON_COUNT 33              /* one more than the highest */

/* header, 32 bytes. Precedes every packet. */
#define WS_HEADER_MAGIC_AT 0                 /* 0x5753 */
#define WS_HEADER_VERSION_AT 2               /* major in the high four bits, minor in the low four */
#define WS_HEADER_SERVICE_AT 3               /* which service's kinds these are */
#define WS_HEADER_KIND_AT 4                  /* the message */
#define WS_HEADER_COUNT_AT 5                 /* lock entries or blocks that follow; 0 where there are none */
#define WS_HEADER_FLAGS_AT 6                 /* header flags */
#define WS_HEADER_SOURCE_AT 8                /* handle of the sender; of the agent in a switch's GRANT by join */
#define WS_HEADER_DESTINATION_AT 10          /* handle of the receiver; 0 to the switch or the controller */
#define WS_HEADER_EPOCH_AT 12                /* boot epoch of the switch (23 bits used); of a chain's packet: the group's */
#define WS_HEADER_SHARD_MAP_AT 16            /* of ENROL and ENROLLED: fingerprint of the shards that names are divided among, and of the one that is asked; 0: there is one */
#define WS_HEADER_NAMESPACE_AT 20            /* namespace of the slots */
#define WS_HEADER_POSITION_AT 22             /* hops of a request; offset or total of waiters; page of a report; dead handle of a DOWN; owner's handle of a leased version; engine of an ENROLLED */
#define WS_HEADER_TAG_AT 24                  /* SipHash-2-4 over the packet with this field as 0; 0 while authentication is off */
WS_INLINE ws_u16 ws_header_magic(const void *header) { return ws_load16((const ws_u8 *)header + 0); }
WS_INLINE void ws_header_set_magic(void *header, ws_u16 x) { ws_store16((ws_u8 *)header + 0, x); }
WS_INLINE ws_u8 ws_header_version(const void *header) { return ws_load8((const ws_u8 *)header + 2); }
WS_INLINE void ws_header_set_version(void *header, ws_u8 x) { ws_store8((ws_u8 *)header + 2, x); }
WS_INLINE ws_u8 ws_header_service(const void *header) { return ws_load8((const ws_u8 *)header + 3); }
WS_INLINE void ws_header_set_service(void *header, ws_u8 x) { ws_store8((ws_u8 *)header + 3, x); }
WS_INLINE ws_u8 ws_header_kind(const void *header) { return ws_load8((const ws_u8 *)header + 4); }
WS_INLINE void ws_header_set_kind(void *header, ws_u8 x) { ws_store8((ws_u8 *)header + 4, x); }
WS_INLINE ws_u8 ws_header_count(const void *header) { return ws_load8((const ws_u8 *)header + 5); }
WS_INLINE void ws_header_set_count(void *header, ws_u8 x) { ws_store8((ws_u8 *)header + 5, x); }
WS_INLINE ws_u16 ws_header_flags(const void *header) { return ws_load16((const ws_u8 *)header + 6); }
WS_INLINE void ws_header_set_flags(void *header, ws_u16 x) { ws_store16((ws_u8 *)header + 6, x); }
WS_INLINE ws_u16 ws_header_source(const void *header) { return ws_load16((const ws_u8 *)header + 8); }
WS_INLINE void ws_header_set_source(void *header, ws_u16 x) { ws_store16((ws_u8 *)header + 8, x); }
WS_INLINE ws_u16 ws_header_destination(const void *header) { return ws_load16((const ws_u8 *)header + 10); }
WS_INLINE void ws_header_set_destination(void *header, ws_u16 x) { ws_store16((ws_u8 *)header + 10, x); }
WS_INLINE ws_u32 ws_header_epoch(const void *header) { return ws_load32((const ws_u8 *)header + 12); }
WS_INLINE void ws_header_set_epoch(void *header, ws_u32 x) { ws_store32((ws_u8 *)header + 12, x); }
WS_INLINE ws_u32 ws_header_shard_map(const void *header) { return ws_load32((const ws_u8 *)header + 16); }
WS_INLINE void ws_header_set_shard_map(void *header, ws_u32 x) { ws_store32((ws_u8 *)header + 16, x); }
WS_INLINE ws_u16 ws_header_namespace(const void *header) { return ws_load16((const ws_u8 *)header + 20); }
WS_INLINE void ws_header_set_namespace(void *header, ws_u16 x) { ws_store16((ws_u8 *)header + 20, x); }
WS_INLINE ws_u16 ws_header_position(const void *header) { return ws_load16((const ws_u8 *)header + 22); }
WS_INLINE void ws_header_set_position(void *header, ws_u16 x) { ws_store16((ws_u8 *)header + 22, x); }
WS_INLINE ws_u64 ws_header_tag(const void *header) { return ws_load64((const ws_u8 *)header + 24); }
WS_INLINE void ws_header_set_tag(void *header, ws_u64 x) { ws_store64((ws_u8 *)header + 24, x); }

/* entry, 32 bytes. One request, grant, hold, waiter or change of a slot. */
#define WS_ENTRY_NAME_AT 0                   /* name id; of a census of the whole switch: fingerprint of the names that are listed in a hybrid namespace */
#define WS_ENTRY_REQUEST_AT 8                /* request id; nonce of a RETENURE or FREE; id of a census */
#define WS_ENTRY_SLOT_AT 16                  /* slot within the namespace */
#define WS_ENTRY_TENURE_AT 20                /* tenure of the slot (of the grant, of the condition); REJECT: for how long not to ask again, in microseconds */
#define WS_ENTRY_HOLDER_AT 24                /* handle of the requester; the agent after a RETENURE */
#define WS_ENTRY_REPLY_PORT_AT 26            /* UDP port of the requester's thread, stamped by the switch; 0: its agent port */
#define WS_ENTRY_SLOT_BITS_AT 28             /* state (2 bits), transferred (1), tryable (1), joins or ordinal (12) */
#define WS_ENTRY_FLAGS_AT 30                 /* entry flags */
#define WS_ENTRY_SEQUENCE_AT 31              /* agent's sequence of the token; ACQUIRE, and whoever waits: priority, xor 4 (low 3 bits), and how often it was overtaken (5 bits); of a census of the whole switch: the namespace's engine */
WS_INLINE ws_u64 ws_entry_name(const void *entry) { return ws_load64((const ws_u8 *)entry + 0); }
WS_INLINE void ws_entry_set_name(void *entry, ws_u64 x) { ws_store64((ws_u8 *)entry + 0, x); }
WS_INLINE ws_u64 ws_entry_request(const void *entry) { return ws_load64((const ws_u8 *)entry + 8); }
WS_INLINE void ws_entry_set_request(void *entry, ws_u64 x) { ws_store64((ws_u8 *)entry + 8, x); }
WS_INLINE ws_u32 ws_entry_slot(const void *entry) { return ws_load32((const ws_u8 *)entry + 16); }
WS_INLINE void ws_entry_set_slot(void *entry, ws_u32 x) { ws_store32((ws_u8 *)entry + 16, x); }
WS_INLINE ws_u32 ws_entry_tenure(const void *entry) { return ws_load32((const ws_u8 *)entry + 20); }
WS_INLINE void ws_entry_set_tenure(void *entry, ws_u32 x) { ws_store32((ws_u8 *)entry + 20, x); }
WS_INLINE ws_u16 ws_entry_holder(const void *entry) { return ws_load16((const ws_u8 *)entry + 24); }
WS_INLINE void ws_entry_set_holder(void *entry, ws_u16 x) { ws_store16((ws_u8 *)entry + 24, x); }
WS_INLINE ws_u16 ws_entry_reply_port(const void *entry) { return ws_load16((const ws_u8 *)entry + 26); }
WS_INLINE void ws_entry_set_reply_port(void *entry, ws_u16 x) { ws_store16((ws_u8 *)entry + 26, x); }
WS_INLINE ws_u16 ws_entry_slot_bits(const void *entry) { return ws_load16((const ws_u8 *)entry + 28); }
WS_INLINE void ws_entry_set_slot_bits(void *entry, ws_u16 x) { ws_store16((ws_u8 *)entry + 28, x); }
WS_INLINE ws_u8 ws_entry_flags(const void *entry) { return ws_load8((const ws_u8 *)entry + 30); }
WS_INLINE void ws_entry_set_flags(void *entry, ws_u8 x) { ws_store8((ws_u8 *)entry + 30, x); }
WS_INLINE ws_u8 ws_entry_sequence(const void *entry) { return ws_load8((const ws_u8 *)entry + 31); }
WS_INLINE void ws_entry_set_sequence(void *entry, ws_u8 x) { ws_store8((ws_u8 *)entry + 31, x); }

/* enrol, 80 bytes. Body of ENROL. */
#define WS_ENROL_NONCE_AT 0                  /* of this attempt; a repeated one gets the same answer */
#define WS_ENROL_PID_AT 8                    /* process id, for people */
#define WS_ENROL_LEASE_US_AT 12              /* us: lease asked for; 0: the namespace's */
#define WS_ENROL_NAMESPACE_NAME_AT 16        /* 24 bytes: UTF-8, padded with zeros */
#define WS_ENROL_HOST_AT 40                  /* 32 bytes: UTF-8, padded with zeros */
#define WS_ENROL_RESERVED_AT 72              /* zero */
WS_INLINE ws_u64 ws_enrol_nonce(const void *enrol) { return ws_load64((const ws_u8 *)enrol + 0); }
WS_INLINE void ws_enrol_set_nonce(void *enrol, ws_u64 x) { ws_store64((ws_u8 *)enrol + 0, x); }
WS_INLINE ws_u32 ws_enrol_pid(const void *enrol) { return ws_load32((const ws_u8 *)enrol + 8); }
WS_INLINE void ws_enrol_set_pid(void *enrol, ws_u32 x) { ws_store32((ws_u8 *)enrol + 8, x); }
WS_INLINE ws_u32 ws_enrol_lease_us(const void *enrol) { return ws_load32((const ws_u8 *)enrol + 12); }
WS_INLINE void ws_enrol_set_lease_us(void *enrol, ws_u32 x) { ws_store32((ws_u8 *)enrol + 12, x); }

/* enrolled, 40 bytes. Body of ENROLLED. The handle is the header's destination, the namespace's id in the header. */
#define WS_ENROLLED_NONCE_AT 0               /* of the ENROL */
#define WS_ENROLLED_INCARNATION_AT 8         /* cluster-wide count of enrolments */
#define WS_ENROLLED_LEASE_US_AT 16           /* us: lease of the session */
#define WS_ENROLLED_GRACE_US_AT 20           /* us: what the controller adds to it */
#define WS_ENROLLED_SLOTS_AT 24              /* slots of the namespace */
#define WS_ENROLLED_POLICY_AT 28             /* 0 fair, 1 read-preferring, 2 write-preferring */
#define WS_ENROLLED_REASON_AT 29             /* with REFUSED: why */
#define WS_ENROLLED_VERSION_AT 30            /* version that the switch speaks */
#define WS_ENROLLED_PATIENCE_AT 31           /* 1 + how often who waits is overtaken at most; 0: not said, 8 */
#define WS_ENROLLED_LIFELINE_AT 32           /* secret that ties the local connection to this session */
WS_INLINE ws_u64 ws_enrolled_nonce(const void *enrolled) { return ws_load64((const ws_u8 *)enrolled + 0); }
WS_INLINE void ws_enrolled_set_nonce(void *enrolled, ws_u64 x) { ws_store64((ws_u8 *)enrolled + 0, x); }
WS_INLINE ws_u64 ws_enrolled_incarnation(const void *enrolled) { return ws_load64((const ws_u8 *)enrolled + 8); }
WS_INLINE void ws_enrolled_set_incarnation(void *enrolled, ws_u64 x) { ws_store64((ws_u8 *)enrolled + 8, x); }
WS_INLINE ws_u32 ws_enrolled_lease_us(const void *enrolled) { return ws_load32((const ws_u8 *)enrolled + 16); }
WS_INLINE void ws_enrolled_set_lease_us(void *enrolled, ws_u32 x) { ws_store32((ws_u8 *)enrolled + 16, x); }
WS_INLINE ws_u32 ws_enrolled_grace_us(const void *enrolled) { return ws_load32((const ws_u8 *)enrolled + 20); }
WS_INLINE void ws_enrolled_set_grace_us(void *enrolled, ws_u32 x) { ws_store32((ws_u8 *)enrolled + 20, x); }
WS_INLINE ws_u32 ws_enrolled_slots(const void *enrolled) { return ws_load32((const ws_u8 *)enrolled + 24); }
WS_INLINE void ws_enrolled_set_slots(void *enrolled, ws_u32 x) { ws_store32((ws_u8 *)enrolled + 24, x); }
WS_INLINE ws_u8 ws_enrolled_policy(const void *enrolled) { return ws_load8((const ws_u8 *)enrolled + 28); }
WS_INLINE void ws_enrolled_set_policy(void *enrolled, ws_u8 x) { ws_store8((ws_u8 *)enrolled + 28, x); }
WS_INLINE ws_u8 ws_enrolled_reason(const void *enrolled) { return ws_load8((const ws_u8 *)enrolled + 29); }
WS_INLINE void ws_enrolled_set_reason(void *enrolled, ws_u8 x) { ws_store8((ws_u8 *)enrolled + 29, x); }
WS_INLINE ws_u8 ws_enrolled_version(const void *enrolled) { return ws_load8((const ws_u8 *)enrolled + 30); }
WS_INLINE void ws_enrolled_set_version(void *enrolled, ws_u8 x) { ws_store8((ws_u8 *)enrolled + 30, x); }
WS_INLINE ws_u8 ws_enrolled_patience(const void *enrolled) { return ws_load8((const ws_u8 *)enrolled + 31); }
WS_INLINE void ws_enrolled_set_patience(void *enrolled, ws_u8 x) { ws_store8((ws_u8 *)enrolled + 31, x); }
WS_INLINE ws_u64 ws_enrolled_lifeline(const void *enrolled) { return ws_load64((const ws_u8 *)enrolled + 32); }
WS_INLINE void ws_enrolled_set_lifeline(void *enrolled, ws_u64 x) { ws_store64((ws_u8 *)enrolled + 32, x); }

/* names, 64 bytes. Which names of a hybrid namespace have their queue in the switch, for as long as its epoch lasts: four in each block. */
#define WS_NAMES_NONCE_AT 0                  /* of the ENROL */
#define WS_NAMES_FINGERPRINT_AT 8            /* of all of them */
#define WS_NAMES_LISTED_AT 16                /* how many there are */
#define WS_NAMES_RESERVED_AT 18              /* 46 bytes: zero */
WS_INLINE ws_u64 ws_names_nonce(const void *names) { return ws_load64((const ws_u8 *)names + 0); }
WS_INLINE void ws_names_set_nonce(void *names, ws_u64 x) { ws_store64((ws_u8 *)names + 0, x); }
WS_INLINE ws_u64 ws_names_fingerprint(const void *names) { return ws_load64((const ws_u8 *)names + 8); }
WS_INLINE void ws_names_set_fingerprint(void *names, ws_u64 x) { ws_store64((ws_u8 *)names + 8, x); }
WS_INLINE ws_u16 ws_names_listed(const void *names) { return ws_load16((const ws_u8 *)names + 16); }
WS_INLINE void ws_names_set_listed(void *names, ws_u16 x) { ws_store16((ws_u8 *)names + 16, x); }

/* listed, 32 bytes. A block of NAMES: name ids, which rise. Those behind the last are zero. */
#define WS_LISTED_FIRST_AT 0                 /* name id */
#define WS_LISTED_SECOND_AT 8                /* name id */
#define WS_LISTED_THIRD_AT 16                /* name id */
#define WS_LISTED_FOURTH_AT 24               /* name id */
WS_INLINE ws_u64 ws_listed_first(const void *listed) { return ws_load64((const ws_u8 *)listed + 0); }
WS_INLINE void ws_listed_set_first(void *listed, ws_u64 x) { ws_store64((ws_u8 *)listed + 0, x); }
WS_INLINE ws_u64 ws_listed_second(const void *listed) { return ws_load64((const ws_u8 *)listed + 8); }
WS_INLINE void ws_listed_set_second(void *listed, ws_u64 x) { ws_store64((ws_u8 *)listed + 8, x); }
WS_INLINE ws_u64 ws_listed_third(const void *listed) { return ws_load64((const ws_u8 *)listed + 16); }
WS_INLINE void ws_listed_set_third(void *listed, ws_u64 x) { ws_store64((ws_u8 *)listed + 16, x); }
WS_INLINE ws_u64 ws_listed_fourth(const void *listed) { return ws_load64((const ws_u8 *)listed + 24); }
WS_INLINE void ws_listed_set_fourth(void *listed, ws_u64 x) { ws_store64((ws_u8 *)listed + 24, x); }

/* heartbeat, 32 bytes. Body of HEARTBEAT, HEARTBEAT_ACK, LEAVE, LEFT, DOWN, DOWN_ACK, STALE, TURN, TURN_ACK, POLICY and POLICY_ACK. */
#define WS_HEARTBEAT_SEQUENCE_AT 0           /* of the heartbeat (56 bits), or of the DOWN; of a TURN: the turn, or 0; of a POLICY: the number of the change */
#define WS_HEARTBEAT_OLDEST_AT 8             /* oldest outstanding request id; of a DOWN: unused */
#define WS_HEARTBEAT_SENT_US_AT 16           /* us: sender's clock, given back by the acknowledgement */
#define WS_HEARTBEAT_INCARNATION_AT 24       /* of the session meant */
WS_INLINE ws_u64 ws_heartbeat_sequence(const void *heartbeat) { return ws_load64((const ws_u8 *)heartbeat + 0); }
WS_INLINE void ws_heartbeat_set_sequence(void *heartbeat, ws_u64 x) { ws_store64((ws_u8 *)heartbeat + 0, x); }
WS_INLINE ws_u64 ws_heartbeat_oldest(const void *heartbeat) { return ws_load64((const ws_u8 *)heartbeat + 8); }
WS_INLINE void ws_heartbeat_set_oldest(void *heartbeat, ws_u64 x) { ws_store64((ws_u8 *)heartbeat + 8, x); }
WS_INLINE ws_u64 ws_heartbeat_sent_us(const void *heartbeat) { return ws_load64((const ws_u8 *)heartbeat + 16); }
WS_INLINE void ws_heartbeat_set_sent_us(void *heartbeat, ws_u64 x) { ws_store64((ws_u8 *)heartbeat + 16, x); }
WS_INLINE ws_u64 ws_heartbeat_incarnation(const void *heartbeat) { return ws_load64((const ws_u8 *)heartbeat + 24); }
WS_INLINE void ws_heartbeat_set_incarnation(void *heartbeat, ws_u64 x) { ws_store64((ws_u8 *)heartbeat + 24, x); }

/* operation, 64 bytes. What a client asks of the chain of a key. */
#define WS_OPERATION_KEY_HIGH_AT 0           /* high half of the 128-bit hash of namespace and name */
#define WS_OPERATION_KEY_LOW_AT 8            /* low half of it */
#define WS_OPERATION_REQUEST_AT 16           /* request id: of a write, one effect per (client, request) */
#define WS_OPERATION_EXPECTED_AT 24          /* with a condition: sequence of the version expected, or the value's first eight bytes */
#define WS_OPERATION_EXPECTED_EPOCH_AT 32    /* epoch of the version expected */
#define WS_OPERATION_GROUP_AT 36             /* virtual group of the key */
#define WS_OPERATION_CLIENT_AT 38            /* handle of the client */
#define WS_OPERATION_REPLY_PORT_AT 40        /* UDP port of the client's thread, stamped by the switch; 0: its agent port */
#define WS_OPERATION_LENGTH_AT 42            /* bytes of the value, or of the name of an INSERT */
#define WS_OPERATION_LANE_AT 44              /* which of the client's writes under way: one at a time in each */
#define WS_OPERATION_CONDITION_AT 45         /* what must hold of the item */
#define WS_OPERATION_FLAGS_AT 46             /* value flags */
#define WS_OPERATION_CHECK_AT 48             /* 47 further bits of the hash: two names of one key differ here */
#define WS_OPERATION_FIRST_EPOCH_AT 56       /* of a write that was first sent under another epoch of its group: that one; otherwise 0 */
#define WS_OPERATION_RESERVED_AT 60          /* zero */
WS_INLINE ws_u64 ws_operation_key_high(const void *operation) { return ws_load64((const ws_u8 *)operation + 0); }
WS_INLINE void ws_operation_set_key_high(void *operation, ws_u64 x) { ws_store64((ws_u8 *)operation + 0, x); }
WS_INLINE ws_u64 ws_operation_key_low(const void *operation) { return ws_load64((const ws_u8 *)operation + 8); }
WS_INLINE void ws_operation_set_key_low(void *operation, ws_u64 x) { ws_store64((ws_u8 *)operation + 8, x); }
WS_INLINE ws_u64 ws_operation_request(const void *operation) { return ws_load64((const ws_u8 *)operation + 16); }
WS_INLINE void ws_operation_set_request(void *operation, ws_u64 x) { ws_store64((ws_u8 *)operation + 16, x); }
WS_INLINE ws_u64 ws_operation_expected(const void *operation) { return ws_load64((const ws_u8 *)operation + 24); }
WS_INLINE void ws_operation_set_expected(void *operation, ws_u64 x) { ws_store64((ws_u8 *)operation + 24, x); }
WS_INLINE ws_u32 ws_operation_expected_epoch(const void *operation) { return ws_load32((const ws_u8 *)operation + 32); }
WS_INLINE void ws_operation_set_expected_epoch(void *operation, ws_u32 x) { ws_store32((ws_u8 *)operation + 32, x); }
WS_INLINE ws_u16 ws_operation_group(const void *operation) { return ws_load16((const ws_u8 *)operation + 36); }
WS_INLINE void ws_operation_set_group(void *operation, ws_u16 x) { ws_store16((ws_u8 *)operation + 36, x); }
WS_INLINE ws_u16 ws_operation_client(const void *operation) { return ws_load16((const ws_u8 *)operation + 38); }
WS_INLINE void ws_operation_set_client(void *operation, ws_u16 x) { ws_store16((ws_u8 *)operation + 38, x); }
WS_INLINE ws_u16 ws_operation_reply_port(const void *operation) { return ws_load16((const ws_u8 *)operation + 40); }
WS_INLINE void ws_operation_set_reply_port(void *operation, ws_u16 x) { ws_store16((ws_u8 *)operation + 40, x); }
WS_INLINE ws_u16 ws_operation_length(const void *operation) { return ws_load16((const ws_u8 *)operation + 42); }
WS_INLINE void ws_operation_set_length(void *operation, ws_u16 x) { ws_store16((ws_u8 *)operation + 42, x); }
WS_INLINE ws_u8 ws_operation_lane(const void *operation) { return ws_load8((const ws_u8 *)operation + 44); }
WS_INLINE void ws_operation_set_lane(void *operation, ws_u8 x) { ws_store8((ws_u8 *)operation + 44, x); }
WS_INLINE ws_u8 ws_operation_condition(const void *operation) { return ws_load8((const ws_u8 *)operation + 45); }
WS_INLINE void ws_operation_set_condition(void *operation, ws_u8 x) { ws_store8((ws_u8 *)operation + 45, x); }
WS_INLINE ws_u16 ws_operation_flags(const void *operation) { return ws_load16((const ws_u8 *)operation + 46); }
WS_INLINE void ws_operation_set_flags(void *operation, ws_u16 x) { ws_store16((ws_u8 *)operation + 46, x); }
WS_INLINE ws_u64 ws_operation_check(const void *operation) { return ws_load64((const ws_u8 *)operation + 48); }
WS_INLINE void ws_operation_set_check(void *operation, ws_u64 x) { ws_store64((ws_u8 *)operation + 48, x); }
WS_INLINE ws_u32 ws_operation_first_epoch(const void *operation) { return ws_load32((const ws_u8 *)operation + 56); }
WS_INLINE void ws_operation_set_first_epoch(void *operation, ws_u32 x) { ws_store32((ws_u8 *)operation + 56, x); }

/* effect, 64 bytes. What became of an operation: from switch to switch, and to the client. The same fields at the same places. */
#define WS_EFFECT_KEY_HIGH_AT 0              /* high half of the 128-bit hash of namespace and name */
#define WS_EFFECT_KEY_LOW_AT 8               /* low half of it */
#define WS_EFFECT_REQUEST_AT 16              /* request id of the operation */
#define WS_EFFECT_SEQUENCE_AT 24             /* of the item's version, which the value is of */
#define WS_EFFECT_EPOCH_AT 32                /* of the item's version */
#define WS_EFFECT_GROUP_AT 36                /* virtual group of the key */
#define WS_EFFECT_CLIENT_AT 38               /* handle of the client */
#define WS_EFFECT_REPLY_PORT_AT 40           /* UDP port of the client's thread; 0: its agent port */
#define WS_EFFECT_LENGTH_AT 42               /* bytes of the value, or of the name of an INSTALL */
#define WS_EFFECT_LANE_AT 44                 /* which of the client's writes under way */
#define WS_EFFECT_OUTCOME_AT 45              /* what became of it */
#define WS_EFFECT_FLAGS_AT 46                /* value flags */
#define WS_EFFECT_OWN_SEQUENCE_AT 48         /* of the version that this operation made, or met */
#define WS_EFFECT_OWN_EPOCH_AT 56            /* of that version */
#define WS_EFFECT_OWNER_AT 60                /* of a leased version: low half of its owner's incarnation; the header's position has the handle */
WS_INLINE ws_u64 ws_effect_key_high(const void *effect) { return ws_load64((const ws_u8 *)effect + 0); }
WS_INLINE void ws_effect_set_key_high(void *effect, ws_u64 x) { ws_store64((ws_u8 *)effect + 0, x); }
WS_INLINE ws_u64 ws_effect_key_low(const void *effect) { return ws_load64((const ws_u8 *)effect + 8); }
WS_INLINE void ws_effect_set_key_low(void *effect, ws_u64 x) { ws_store64((ws_u8 *)effect + 8, x); }
WS_INLINE ws_u64 ws_effect_request(const void *effect) { return ws_load64((const ws_u8 *)effect + 16); }
WS_INLINE void ws_effect_set_request(void *effect, ws_u64 x) { ws_store64((ws_u8 *)effect + 16, x); }
WS_INLINE ws_u64 ws_effect_sequence(const void *effect) { return ws_load64((const ws_u8 *)effect + 24); }
WS_INLINE void ws_effect_set_sequence(void *effect, ws_u64 x) { ws_store64((ws_u8 *)effect + 24, x); }
WS_INLINE ws_u32 ws_effect_epoch(const void *effect) { return ws_load32((const ws_u8 *)effect + 32); }
WS_INLINE void ws_effect_set_epoch(void *effect, ws_u32 x) { ws_store32((ws_u8 *)effect + 32, x); }
WS_INLINE ws_u16 ws_effect_group(const void *effect) { return ws_load16((const ws_u8 *)effect + 36); }
WS_INLINE void ws_effect_set_group(void *effect, ws_u16 x) { ws_store16((ws_u8 *)effect + 36, x); }
WS_INLINE ws_u16 ws_effect_client(const void *effect) { return ws_load16((const ws_u8 *)effect + 38); }
WS_INLINE void ws_effect_set_client(void *effect, ws_u16 x) { ws_store16((ws_u8 *)effect + 38, x); }
WS_INLINE ws_u16 ws_effect_reply_port(const void *effect) { return ws_load16((const ws_u8 *)effect + 40); }
WS_INLINE void ws_effect_set_reply_port(void *effect, ws_u16 x) { ws_store16((ws_u8 *)effect + 40, x); }
WS_INLINE ws_u16 ws_effect_length(const void *effect) { return ws_load16((const ws_u8 *)effect + 42); }
WS_INLINE void ws_effect_set_length(void *effect, ws_u16 x) { ws_store16((ws_u8 *)effect + 42, x); }
WS_INLINE ws_u8 ws_effect_lane(const void *effect) { return ws_load8((const ws_u8 *)effect + 44); }
WS_INLINE void ws_effect_set_lane(void *effect, ws_u8 x) { ws_store8((ws_u8 *)effect + 44, x); }
WS_INLINE ws_u8 ws_effect_outcome(const void *effect) { return ws_load8((const ws_u8 *)effect + 45); }
WS_INLINE void ws_effect_set_outcome(void *effect, ws_u8 x) { ws_store8((ws_u8 *)effect + 45, x); }
WS_INLINE ws_u16 ws_effect_flags(const void *effect) { return ws_load16((const ws_u8 *)effect + 46); }
WS_INLINE void ws_effect_set_flags(void *effect, ws_u16 x) { ws_store16((ws_u8 *)effect + 46, x); }
WS_INLINE ws_u64 ws_effect_own_sequence(const void *effect) { return ws_load64((const ws_u8 *)effect + 48); }
WS_INLINE void ws_effect_set_own_sequence(void *effect, ws_u64 x) { ws_store64((ws_u8 *)effect + 48, x); }
WS_INLINE ws_u32 ws_effect_own_epoch(const void *effect) { return ws_load32((const ws_u8 *)effect + 56); }
WS_INLINE void ws_effect_set_own_epoch(void *effect, ws_u32 x) { ws_store32((ws_u8 *)effect + 56, x); }
WS_INLINE ws_u32 ws_effect_owner(const void *effect) { return ws_load32((const ws_u8 *)effect + 60); }
WS_INLINE void ws_effect_set_owner(void *effect, ws_u32 x) { ws_store32((ws_u8 *)effect + 60, x); }

/* routes, 64 bytes. Where the groups of a namespace are: a page, with a route in each block. */
#define WS_ROUTES_FIRST_AT 0                 /* the page's first group, counted within the namespace */
#define WS_ROUTES_BASE_AT 2                  /* number of the namespace's first group */
#define WS_ROUTES_GROUPS_AT 4                /* groups of the namespace */
#define WS_ROUTES_RESERVED_AT 6              /* 58 bytes: zero */
WS_INLINE ws_u16 ws_routes_first(const void *routes) { return ws_load16((const ws_u8 *)routes + 0); }
WS_INLINE void ws_routes_set_first(void *routes, ws_u16 x) { ws_store16((ws_u8 *)routes + 0, x); }
WS_INLINE ws_u16 ws_routes_base(const void *routes) { return ws_load16((const ws_u8 *)routes + 2); }
WS_INLINE void ws_routes_set_base(void *routes, ws_u16 x) { ws_store16((ws_u8 *)routes + 2, x); }
WS_INLINE ws_u16 ws_routes_groups(const void *routes) { return ws_load16((const ws_u8 *)routes + 4); }
WS_INLINE void ws_routes_set_groups(void *routes, ws_u16 x) { ws_store16((ws_u8 *)routes + 4, x); }

/* route, 32 bytes. Where a group is. All zeros: not known. */
#define WS_ROUTE_EPOCH_AT 0                  /* of the group's chain */
#define WS_ROUTE_HEAD_ADDRESS_AT 4           /* IPv4 address of the switch that takes writes */
#define WS_ROUTE_TAIL_ADDRESS_AT 8           /* IPv4 address of the switch that is read from */
#define WS_ROUTE_HEAD_PORT_AT 12             /* its UDP port */
#define WS_ROUTE_TAIL_PORT_AT 14             /* its UDP port */
#define WS_ROUTE_RESERVED_AT 16              /* 16 bytes: zero */
WS_INLINE ws_u32 ws_route_epoch(const void *route) { return ws_load32((const ws_u8 *)route + 0); }
WS_INLINE void ws_route_set_epoch(void *route, ws_u32 x) { ws_store32((ws_u8 *)route + 0, x); }
WS_INLINE ws_u32 ws_route_head_address(const void *route) { return ws_load32((const ws_u8 *)route + 4); }
WS_INLINE void ws_route_set_head_address(void *route, ws_u32 x) { ws_store32((ws_u8 *)route + 4, x); }
WS_INLINE ws_u32 ws_route_tail_address(const void *route) { return ws_load32((const ws_u8 *)route + 8); }
WS_INLINE void ws_route_set_tail_address(void *route, ws_u32 x) { ws_store32((ws_u8 *)route + 8, x); }
WS_INLINE ws_u16 ws_route_head_port(const void *route) { return ws_load16((const ws_u8 *)route + 12); }
WS_INLINE void ws_route_set_head_port(void *route, ws_u16 x) { ws_store16((ws_u8 *)route + 12, x); }
WS_INLINE ws_u16 ws_route_tail_port(const void *route) { return ws_load16((const ws_u8 *)route + 14); }
WS_INLINE void ws_route_set_tail_port(void *route, ws_u16 x) { ws_store16((ws_u8 *)route + 14, x); }

/* watch, 64 bytes. What a client wants to hear of a group from a position on; given back with the position after what is told. Where an operation has the same, its fields are at the same places. */
#define WS_WATCH_KEY_HIGH_AT 0               /* high half of the key's hash; of a prefix: zero */
#define WS_WATCH_KEY_LOW_AT 8                /* low half of it */
#define WS_WATCH_REQUEST_AT 16               /* request id of the question; given back */
#define WS_WATCH_NUMBER_AT 24                /* position within the history */
#define WS_WATCH_SCOPE_AT 32                 /* of what the client wants to hear */
#define WS_WATCH_OUTCOME_AT 33               /* EVENT: `done`, `reset` or `full` */
#define WS_WATCH_CHANGES_AT 34               /* EVENT: changes in the blocks */
#define WS_WATCH_GROUP_AT 36                 /* virtual group */
#define WS_WATCH_CLIENT_AT 38                /* handle of the client */
#define WS_WATCH_REPLY_PORT_AT 40            /* UDP port of the client's thread, stamped by the switch; 0: its agent port */
#define WS_WATCH_LENGTH_AT 42                /* WATCH: bytes of the prefix that the blocks begin with */
#define WS_WATCH_RESERVED_AT 44              /* zero */
#define WS_WATCH_CHECK_AT 48                 /* 47 further bits of the key's hash */
#define WS_WATCH_HISTORY_AT 56               /* which history the number is of; 0: of none yet, from now on */
WS_INLINE ws_u64 ws_watch_key_high(const void *watch) { return ws_load64((const ws_u8 *)watch + 0); }
WS_INLINE void ws_watch_set_key_high(void *watch, ws_u64 x) { ws_store64((ws_u8 *)watch + 0, x); }
WS_INLINE ws_u64 ws_watch_key_low(const void *watch) { return ws_load64((const ws_u8 *)watch + 8); }
WS_INLINE void ws_watch_set_key_low(void *watch, ws_u64 x) { ws_store64((ws_u8 *)watch + 8, x); }
WS_INLINE ws_u64 ws_watch_request(const void *watch) { return ws_load64((const ws_u8 *)watch + 16); }
WS_INLINE void ws_watch_set_request(void *watch, ws_u64 x) { ws_store64((ws_u8 *)watch + 16, x); }
WS_INLINE ws_u64 ws_watch_number(const void *watch) { return ws_load64((const ws_u8 *)watch + 24); }
WS_INLINE void ws_watch_set_number(void *watch, ws_u64 x) { ws_store64((ws_u8 *)watch + 24, x); }
WS_INLINE ws_u8 ws_watch_scope(const void *watch) { return ws_load8((const ws_u8 *)watch + 32); }
WS_INLINE void ws_watch_set_scope(void *watch, ws_u8 x) { ws_store8((ws_u8 *)watch + 32, x); }
WS_INLINE ws_u8 ws_watch_outcome(const void *watch) { return ws_load8((const ws_u8 *)watch + 33); }
WS_INLINE void ws_watch_set_outcome(void *watch, ws_u8 x) { ws_store8((ws_u8 *)watch + 33, x); }
WS_INLINE ws_u16 ws_watch_changes(const void *watch) { return ws_load16((const ws_u8 *)watch + 34); }
WS_INLINE void ws_watch_set_changes(void *watch, ws_u16 x) { ws_store16((ws_u8 *)watch + 34, x); }
WS_INLINE ws_u16 ws_watch_group(const void *watch) { return ws_load16((const ws_u8 *)watch + 36); }
WS_INLINE void ws_watch_set_group(void *watch, ws_u16 x) { ws_store16((ws_u8 *)watch + 36, x); }
WS_INLINE ws_u16 ws_watch_client(const void *watch) { return ws_load16((const ws_u8 *)watch + 38); }
WS_INLINE void ws_watch_set_client(void *watch, ws_u16 x) { ws_store16((ws_u8 *)watch + 38, x); }
WS_INLINE ws_u16 ws_watch_reply_port(const void *watch) { return ws_load16((const ws_u8 *)watch + 40); }
WS_INLINE void ws_watch_set_reply_port(void *watch, ws_u16 x) { ws_store16((ws_u8 *)watch + 40, x); }
WS_INLINE ws_u16 ws_watch_length(const void *watch) { return ws_load16((const ws_u8 *)watch + 42); }
WS_INLINE void ws_watch_set_length(void *watch, ws_u16 x) { ws_store16((ws_u8 *)watch + 42, x); }
WS_INLINE ws_u64 ws_watch_check(const void *watch) { return ws_load64((const ws_u8 *)watch + 48); }
WS_INLINE void ws_watch_set_check(void *watch, ws_u64 x) { ws_store64((ws_u8 *)watch + 48, x); }
WS_INLINE ws_u64 ws_watch_history(const void *watch) { return ws_load64((const ws_u8 *)watch + 56); }
WS_INLINE void ws_watch_set_history(void *watch, ws_u64 x) { ws_store64((ws_u8 *)watch + 56, x); }

/* change, 32 bytes. A version that a key has got. The name follows, padded to whole blocks, then the value likewise. */
#define WS_CHANGE_SEQUENCE_AT 0              /* of the version */
#define WS_CHANGE_BEFORE_SEQUENCE_AT 8       /* of the version that the key had before */
#define WS_CHANGE_EPOCH_AT 16                /* of the version */
#define WS_CHANGE_BEFORE_EPOCH_AT 20         /* of the version before */
#define WS_CHANGE_LENGTH_AT 24               /* bytes of the value */
#define WS_CHANGE_NAME_LENGTH_AT 26          /* bytes of the name; 0: of the key that is watched, or not known */
#define WS_CHANGE_FLAGS_AT 28                /* value flags */
#define WS_CHANGE_PART_AT 30                 /* `name`: the value follows in the next EVENT; `value`: the name is told, or has been */
#define WS_CHANGE_RESERVED_AT 31             /* zero */
WS_INLINE ws_u64 ws_change_sequence(const void *change) { return ws_load64((const ws_u8 *)change + 0); }
WS_INLINE void ws_change_set_sequence(void *change, ws_u64 x) { ws_store64((ws_u8 *)change + 0, x); }
WS_INLINE ws_u64 ws_change_before_sequence(const void *change) { return ws_load64((const ws_u8 *)change + 8); }
WS_INLINE void ws_change_set_before_sequence(void *change, ws_u64 x) { ws_store64((ws_u8 *)change + 8, x); }
WS_INLINE ws_u32 ws_change_epoch(const void *change) { return ws_load32((const ws_u8 *)change + 16); }
WS_INLINE void ws_change_set_epoch(void *change, ws_u32 x) { ws_store32((ws_u8 *)change + 16, x); }
WS_INLINE ws_u32 ws_change_before_epoch(const void *change) { return ws_load32((const ws_u8 *)change + 20); }
WS_INLINE void ws_change_set_before_epoch(void *change, ws_u32 x) { ws_store32((ws_u8 *)change + 20, x); }
WS_INLINE ws_u16 ws_change_length(const void *change) { return ws_load16((const ws_u8 *)change + 24); }
WS_INLINE void ws_change_set_length(void *change, ws_u16 x) { ws_store16((ws_u8 *)change + 24, x); }
WS_INLINE ws_u16 ws_change_name_length(const void *change) { return ws_load16((const ws_u8 *)change + 26); }
WS_INLINE void ws_change_set_name_length(void *change, ws_u16 x) { ws_store16((ws_u8 *)change + 26, x); }
WS_INLINE ws_u16 ws_change_flags(const void *change) { return ws_load16((const ws_u8 *)change + 28); }
WS_INLINE void ws_change_set_flags(void *change, ws_u16 x) { ws_store16((ws_u8 *)change + 28, x); }
WS_INLINE ws_u8 ws_change_part(const void *change) { return ws_load8((const ws_u8 *)change + 30); }
WS_INLINE void ws_change_set_part(void *change, ws_u8 x) { ws_store8((ws_u8 *)change + 30, x); }

/* placement, 64 bytes. A switch's place in a group, and where clients find the group. All of it is given back when it is so. */
#define WS_PLACEMENT_BOOT_AT 0               /* of the switch meant: one that has begun anew since is another */
#define WS_PLACEMENT_PASS_AT 8               /* of a joiner: which copying this is; given back when it has all */
#define WS_PLACEMENT_EPOCH_AT 16             /* of the group's configuration */
#define WS_PLACEMENT_GROUP_AT 20             /* virtual group */
#define WS_PLACEMENT_PREVIOUS_AT 22          /* handle of the switch before; 0: head */
#define WS_PLACEMENT_NEXT_AT 24              /* handle of the switch after; 0: tail */
#define WS_PLACEMENT_SOURCE_AT 26            /* of a joiner: whom to copy from */
#define WS_PLACEMENT_ROLE_AT 28              /* what the switch is to the group */
#define WS_PLACEMENT_REFUSED_AT 29           /* of the answer: 1, it cannot be */
#define WS_PLACEMENT_HEAD_PORT_AT 30         /* UDP port of the switch that takes writes */
#define WS_PLACEMENT_HEAD_ADDRESS_AT 32      /* its IPv4 address */
#define WS_PLACEMENT_TAIL_ADDRESS_AT 36      /* IPv4 address of the switch that is read from */
#define WS_PLACEMENT_TAIL_PORT_AT 40         /* its UDP port */
#define WS_PLACEMENT_RESERVED_AT 42          /* 22 bytes: zero */
WS_INLINE ws_u64 ws_placement_boot(const void *placement) { return ws_load64((const ws_u8 *)placement + 0); }
WS_INLINE void ws_placement_set_boot(void *placement, ws_u64 x) { ws_store64((ws_u8 *)placement + 0, x); }
WS_INLINE ws_u64 ws_placement_pass(const void *placement) { return ws_load64((const ws_u8 *)placement + 8); }
WS_INLINE void ws_placement_set_pass(void *placement, ws_u64 x) { ws_store64((ws_u8 *)placement + 8, x); }
WS_INLINE ws_u32 ws_placement_epoch(const void *placement) { return ws_load32((const ws_u8 *)placement + 16); }
WS_INLINE void ws_placement_set_epoch(void *placement, ws_u32 x) { ws_store32((ws_u8 *)placement + 16, x); }
WS_INLINE ws_u16 ws_placement_group(const void *placement) { return ws_load16((const ws_u8 *)placement + 20); }
WS_INLINE void ws_placement_set_group(void *placement, ws_u16 x) { ws_store16((ws_u8 *)placement + 20, x); }
WS_INLINE ws_u16 ws_placement_previous(const void *placement) { return ws_load16((const ws_u8 *)placement + 22); }
WS_INLINE void ws_placement_set_previous(void *placement, ws_u16 x) { ws_store16((ws_u8 *)placement + 22, x); }
WS_INLINE ws_u16 ws_placement_next(const void *placement) { return ws_load16((const ws_u8 *)placement + 24); }
WS_INLINE void ws_placement_set_next(void *placement, ws_u16 x) { ws_store16((ws_u8 *)placement + 24, x); }
WS_INLINE ws_u16 ws_placement_source(const void *placement) { return ws_load16((const ws_u8 *)placement + 26); }
WS_INLINE void ws_placement_set_source(void *placement, ws_u16 x) { ws_store16((ws_u8 *)placement + 26, x); }
WS_INLINE ws_u8 ws_placement_role(const void *placement) { return ws_load8((const ws_u8 *)placement + 28); }
WS_INLINE void ws_placement_set_role(void *placement, ws_u8 x) { ws_store8((ws_u8 *)placement + 28, x); }
WS_INLINE ws_u8 ws_placement_refused(const void *placement) { return ws_load8((const ws_u8 *)placement + 29); }
WS_INLINE void ws_placement_set_refused(void *placement, ws_u8 x) { ws_store8((ws_u8 *)placement + 29, x); }
WS_INLINE ws_u16 ws_placement_head_port(const void *placement) { return ws_load16((const ws_u8 *)placement + 30); }
WS_INLINE void ws_placement_set_head_port(void *placement, ws_u16 x) { ws_store16((ws_u8 *)placement + 30, x); }
WS_INLINE ws_u32 ws_placement_head_address(const void *placement) { return ws_load32((const ws_u8 *)placement + 32); }
WS_INLINE void ws_placement_set_head_address(void *placement, ws_u32 x) { ws_store32((ws_u8 *)placement + 32, x); }
WS_INLINE ws_u32 ws_placement_tail_address(const void *placement) { return ws_load32((const ws_u8 *)placement + 36); }
WS_INLINE void ws_placement_set_tail_address(void *placement, ws_u32 x) { ws_store32((ws_u8 *)placement + 36, x); }
WS_INLINE ws_u16 ws_placement_tail_port(const void *placement) { return ws_load16((const ws_u8 *)placement + 40); }
WS_INLINE void ws_placement_set_tail_port(void *placement, ws_u16 x) { ws_store16((ws_u8 *)placement + 40, x); }

/* renewal, 64 bytes. A switch's serving lease. */
#define WS_RENEWAL_BOOT_AT 0                 /* of the switch: higher each time that it begins with an empty memory */
#define WS_RENEWAL_SENT_US_AT 8              /* us: the switch's clock when it asked, from which the lease runs; given back */
#define WS_RENEWAL_LEASE_US_AT 16            /* us: how long it lasts */
#define WS_RENEWAL_REFUSED_AT 20             /* 0; for what may have to be said later */
#define WS_RENEWAL_RESERVED_AT 21            /* 43 bytes: zero */
WS_INLINE ws_u64 ws_renewal_boot(const void *renewal) { return ws_load64((const ws_u8 *)renewal + 0); }
WS_INLINE void ws_renewal_set_boot(void *renewal, ws_u64 x) { ws_store64((ws_u8 *)renewal + 0, x); }
WS_INLINE ws_u64 ws_renewal_sent_us(const void *renewal) { return ws_load64((const ws_u8 *)renewal + 8); }
WS_INLINE void ws_renewal_set_sent_us(void *renewal, ws_u64 x) { ws_store64((ws_u8 *)renewal + 8, x); }
WS_INLINE ws_u32 ws_renewal_lease_us(const void *renewal) { return ws_load32((const ws_u8 *)renewal + 16); }
WS_INLINE void ws_renewal_set_lease_us(void *renewal, ws_u32 x) { ws_store32((ws_u8 *)renewal + 16, x); }
WS_INLINE ws_u8 ws_renewal_refused(const void *renewal) { return ws_load8((const ws_u8 *)renewal + 20); }
WS_INLINE void ws_renewal_set_refused(void *renewal, ws_u8 x) { ws_store8((ws_u8 *)renewal + 20, x); }

/* copied, 64 bytes. A piece of a group's memory, or the question for what comes after a key; `length` 0: for the first. Also a key that goes, with the version at which it does. */
#define WS_COPIED_KEY_HIGH_AT 0              /* high half of the piece's key */
#define WS_COPIED_KEY_LOW_AT 8               /* low half of it */
#define WS_COPIED_NONCE_AT 16                /* of the question; given back. REMOVE, REMOVED: the head's count when the key was marked; 0: it is not, and would it go everywhere? */
#define WS_COPIED_SEQUENCE_AT 24             /* of the value's version, or of the key's first */
#define WS_COPIED_EPOCH_AT 32                /* of that version */
#define WS_COPIED_GROUP_AT 36                /* virtual group */
#define WS_COPIED_LENGTH_AT 38               /* bytes of the name or of the value */
#define WS_COPIED_FLAGS_AT 40                /* value flags */
#define WS_COPIED_PART_AT 42                 /* what the blocks have */
#define WS_COPIED_RESERVED_AT 43             /* 13 bytes: zero */
#define WS_COPIED_OWNER_AT 56                /* of a leased version: its owner */
WS_INLINE ws_u64 ws_copied_key_high(const void *copied) { return ws_load64((const ws_u8 *)copied + 0); }
WS_INLINE void ws_copied_set_key_high(void *copied, ws_u64 x) { ws_store64((ws_u8 *)copied + 0, x); }
WS_INLINE ws_u64 ws_copied_key_low(const void *copied) { return ws_load64((const ws_u8 *)copied + 8); }
WS_INLINE void ws_copied_set_key_low(void *copied, ws_u64 x) { ws_store64((ws_u8 *)copied + 8, x); }
WS_INLINE ws_u64 ws_copied_nonce(const void *copied) { return ws_load64((const ws_u8 *)copied + 16); }
WS_INLINE void ws_copied_set_nonce(void *copied, ws_u64 x) { ws_store64((ws_u8 *)copied + 16, x); }
WS_INLINE ws_u64 ws_copied_sequence(const void *copied) { return ws_load64((const ws_u8 *)copied + 24); }
WS_INLINE void ws_copied_set_sequence(void *copied, ws_u64 x) { ws_store64((ws_u8 *)copied + 24, x); }
WS_INLINE ws_u32 ws_copied_epoch(const void *copied) { return ws_load32((const ws_u8 *)copied + 32); }
WS_INLINE void ws_copied_set_epoch(void *copied, ws_u32 x) { ws_store32((ws_u8 *)copied + 32, x); }
WS_INLINE ws_u16 ws_copied_group(const void *copied) { return ws_load16((const ws_u8 *)copied + 36); }
WS_INLINE void ws_copied_set_group(void *copied, ws_u16 x) { ws_store16((ws_u8 *)copied + 36, x); }
WS_INLINE ws_u16 ws_copied_length(const void *copied) { return ws_load16((const ws_u8 *)copied + 38); }
WS_INLINE void ws_copied_set_length(void *copied, ws_u16 x) { ws_store16((ws_u8 *)copied + 38, x); }
WS_INLINE ws_u16 ws_copied_flags(const void *copied) { return ws_load16((const ws_u8 *)copied + 40); }
WS_INLINE void ws_copied_set_flags(void *copied, ws_u16 x) { ws_store16((ws_u8 *)copied + 40, x); }
WS_INLINE ws_u8 ws_copied_part(const void *copied) { return ws_load8((const ws_u8 *)copied + 42); }
WS_INLINE void ws_copied_set_part(void *copied, ws_u8 x) { ws_store8((ws_u8 *)copied + 42, x); }
WS_INLINE ws_u64 ws_copied_owner(const void *copied) { return ws_load64((const ws_u8 *)copied + 56); }
WS_INLINE void ws_copied_set_owner(void *copied, ws_u64 x) { ws_store64((ws_u8 *)copied + 56, x); }

/* attempt, 64 bytes. One request for a lock of the queue service, and what became of it. */
#define WS_ATTEMPT_NAME_AT 0                 /* name id */
#define WS_ATTEMPT_REQUEST_AT 8              /* request id; SERVE: what those of the session begin with, 0: not said */
#define WS_ATTEMPT_TICKET_AT 16              /* the request's number in the lock's queue (40 bits), the low part of its token; 0: none, or not known; CEDED, YIELD, TAKEN: the first that is not used yet; SERVING: the term of the part, whoever has it */
#define WS_ATTEMPT_OVER_AT 24                /* RELEASED, and a GRANT that RELEASE or CANCEL has led to: the request that is over; SERVING: how long a lock server waits for who does not renew, in microseconds; ACQUIRE for a lock server that a lock was handed to: as ticket of YIELD; ASKED: length of its window, in microseconds */
#define WS_ATTEMPT_NUMBER_AT 32              /* PUSH: its own; SETTLE: of the latest push; of the switch: pushes taken so far; SERVING: the term, 0: another one is it; SERVE: what the node can, 1: take and cede locks, 2: have several parts; RECALL, CEDED: of the move; YIELD: pushes taken; ASKED: of its window */
#define WS_ATTEMPT_ORDER_AT 40               /* ACQUIRE for a lock server: its own, 0: the lock is the server's; PUSH, SETTLE: up to which the server has no more; of the switch: given so far; GRANT and QUEUED of a lock server, SERVING: lease of a hold, in microseconds; YIELD: given so far, 0: nothing of it is left; ASKED: requests in its window; REJECT: for how long not to ask again, in microseconds */
#define WS_ATTEMPT_HOLDER_AT 48              /* handle of the requester */
#define WS_ATTEMPT_REPLY_PORT_AT 50          /* UDP port of the requester's thread, stamped by the switch; 0: its agent port */
#define WS_ATTEMPT_ROOM_AT 52                /* of the switch: free cells of the queue; ASKED: holders and waiters at a time, the most in its window; of a queue in the switch those who wait at the server; SERVING: number of the part */
#define WS_ATTEMPT_FLAGS_AT 54               /* queue flags */
#define WS_ATTEMPT_CAUSE_AT 55               /* GRANT of the switch: kind of the packet that has led to it; ACQUIRE, PUSH: priority, xor 4; SERVING: how many parts there are, 0: one */
#define WS_ATTEMPT_SENT_US_AT 56             /* us: of a holder's packet: its clock; of a lock server's: that of the holder's packet that it has answered, or had last */
WS_INLINE ws_u64 ws_attempt_name(const void *attempt) { return ws_load64((const ws_u8 *)attempt + 0); }
WS_INLINE void ws_attempt_set_name(void *attempt, ws_u64 x) { ws_store64((ws_u8 *)attempt + 0, x); }
WS_INLINE ws_u64 ws_attempt_request(const void *attempt) { return ws_load64((const ws_u8 *)attempt + 8); }
WS_INLINE void ws_attempt_set_request(void *attempt, ws_u64 x) { ws_store64((ws_u8 *)attempt + 8, x); }
WS_INLINE ws_u64 ws_attempt_ticket(const void *attempt) { return ws_load64((const ws_u8 *)attempt + 16); }
WS_INLINE void ws_attempt_set_ticket(void *attempt, ws_u64 x) { ws_store64((ws_u8 *)attempt + 16, x); }
WS_INLINE ws_u64 ws_attempt_over(const void *attempt) { return ws_load64((const ws_u8 *)attempt + 24); }
WS_INLINE void ws_attempt_set_over(void *attempt, ws_u64 x) { ws_store64((ws_u8 *)attempt + 24, x); }
WS_INLINE ws_u64 ws_attempt_number(const void *attempt) { return ws_load64((const ws_u8 *)attempt + 32); }
WS_INLINE void ws_attempt_set_number(void *attempt, ws_u64 x) { ws_store64((ws_u8 *)attempt + 32, x); }
WS_INLINE ws_u64 ws_attempt_order(const void *attempt) { return ws_load64((const ws_u8 *)attempt + 40); }
WS_INLINE void ws_attempt_set_order(void *attempt, ws_u64 x) { ws_store64((ws_u8 *)attempt + 40, x); }
WS_INLINE ws_u16 ws_attempt_holder(const void *attempt) { return ws_load16((const ws_u8 *)attempt + 48); }
WS_INLINE void ws_attempt_set_holder(void *attempt, ws_u16 x) { ws_store16((ws_u8 *)attempt + 48, x); }
WS_INLINE ws_u16 ws_attempt_reply_port(const void *attempt) { return ws_load16((const ws_u8 *)attempt + 50); }
WS_INLINE void ws_attempt_set_reply_port(void *attempt, ws_u16 x) { ws_store16((ws_u8 *)attempt + 50, x); }
WS_INLINE ws_u16 ws_attempt_room(const void *attempt) { return ws_load16((const ws_u8 *)attempt + 52); }
WS_INLINE void ws_attempt_set_room(void *attempt, ws_u16 x) { ws_store16((ws_u8 *)attempt + 52, x); }
WS_INLINE ws_u8 ws_attempt_flags(const void *attempt) { return ws_load8((const ws_u8 *)attempt + 54); }
WS_INLINE void ws_attempt_set_flags(void *attempt, ws_u8 x) { ws_store8((ws_u8 *)attempt + 54, x); }
WS_INLINE ws_u8 ws_attempt_cause(const void *attempt) { return ws_load8((const ws_u8 *)attempt + 55); }
WS_INLINE void ws_attempt_set_cause(void *attempt, ws_u8 x) { ws_store8((ws_u8 *)attempt + 55, x); }
WS_INLINE ws_u64 ws_attempt_sent_us(const void *attempt) { return ws_load64((const ws_u8 *)attempt + 56); }
WS_INLINE void ws_attempt_set_sent_us(void *attempt, ws_u64 x) { ws_store64((ws_u8 *)attempt + 56, x); }

/* fetch, 64 bytes. A request for a lock of the queue service that is granted by way of a third node, with data from there: what it asks that node for, or what it was answered, is in the blocks. Where an attempt has the same, its fields are at the same places. */
#define WS_FETCH_NAME_AT 0                   /* name id */
#define WS_FETCH_REQUEST_AT 8                /* request id */
#define WS_FETCH_TICKET_AT 16                /* the request's number in the lock's queue (40 bits), the low part of its token; of a holder's: 0 */
#define WS_FETCH_INCARNATION_AT 24           /* of the third node's session that is meant; FETCHED: 0 */
#define WS_FETCH_RESERVED_AT 32              /* 16 bytes: zero */
#define WS_FETCH_HOLDER_AT 48                /* handle of the requester */
#define WS_FETCH_REPLY_PORT_AT 50            /* UDP port of the requester's thread, stamped by the switch; 0: its agent port */
#define WS_FETCH_LENGTH_AT 52                /* bytes that the blocks have */
#define WS_FETCH_FLAGS_AT 54                 /* queue flags; of a FETCHED the switch's */
#define WS_FETCH_CAUSE_AT 55                 /* of a holder's FETCH: priority, xor 4; of the switch's: FETCH */
#define WS_FETCH_SENT_US_AT 56               /* us: of a holder's FETCH: its clock; given back */
WS_INLINE ws_u64 ws_fetch_name(const void *fetch) { return ws_load64((const ws_u8 *)fetch + 0); }
WS_INLINE void ws_fetch_set_name(void *fetch, ws_u64 x) { ws_store64((ws_u8 *)fetch + 0, x); }
WS_INLINE ws_u64 ws_fetch_request(const void *fetch) { return ws_load64((const ws_u8 *)fetch + 8); }
WS_INLINE void ws_fetch_set_request(void *fetch, ws_u64 x) { ws_store64((ws_u8 *)fetch + 8, x); }
WS_INLINE ws_u64 ws_fetch_ticket(const void *fetch) { return ws_load64((const ws_u8 *)fetch + 16); }
WS_INLINE void ws_fetch_set_ticket(void *fetch, ws_u64 x) { ws_store64((ws_u8 *)fetch + 16, x); }
WS_INLINE ws_u64 ws_fetch_incarnation(const void *fetch) { return ws_load64((const ws_u8 *)fetch + 24); }
WS_INLINE void ws_fetch_set_incarnation(void *fetch, ws_u64 x) { ws_store64((ws_u8 *)fetch + 24, x); }
WS_INLINE ws_u16 ws_fetch_holder(const void *fetch) { return ws_load16((const ws_u8 *)fetch + 48); }
WS_INLINE void ws_fetch_set_holder(void *fetch, ws_u16 x) { ws_store16((ws_u8 *)fetch + 48, x); }
WS_INLINE ws_u16 ws_fetch_reply_port(const void *fetch) { return ws_load16((const ws_u8 *)fetch + 50); }
WS_INLINE void ws_fetch_set_reply_port(void *fetch, ws_u16 x) { ws_store16((ws_u8 *)fetch + 50, x); }
WS_INLINE ws_u16 ws_fetch_length(const void *fetch) { return ws_load16((const ws_u8 *)fetch + 52); }
WS_INLINE void ws_fetch_set_length(void *fetch, ws_u16 x) { ws_store16((ws_u8 *)fetch + 52, x); }
WS_INLINE ws_u8 ws_fetch_flags(const void *fetch) { return ws_load8((const ws_u8 *)fetch + 54); }
WS_INLINE void ws_fetch_set_flags(void *fetch, ws_u8 x) { ws_store8((ws_u8 *)fetch + 54, x); }
WS_INLINE ws_u8 ws_fetch_cause(const void *fetch) { return ws_load8((const ws_u8 *)fetch + 55); }
WS_INLINE void ws_fetch_set_cause(void *fetch, ws_u8 x) { ws_store8((ws_u8 *)fetch + 55, x); }
WS_INLINE ws_u64 ws_fetch_sent_us(const void *fetch) { return ws_load64((const ws_u8 *)fetch + 56); }
WS_INLINE void ws_fetch_set_sent_us(void *fetch, ws_u64 x) { ws_store64((ws_u8 *)fetch + 56, x); }

/* slot_bits, 16 bits. The slot as an entry shows it. */
/* state of the slot */
WS_INLINE ws_u16 ws_slot_bits_state(ws_u16 word) { return (ws_u16)ws_bits(word, 14, 2); }
WS_INLINE ws_u16 ws_slot_bits_with_state(ws_u16 word, ws_u64 x) { return (ws_u16)ws_with_bits(word, 14, 2, x); }
/* the agency was handed over */
WS_INLINE ws_u16 ws_slot_bits_transferred(ws_u16 word) { return (ws_u16)ws_bits(word, 13, 1); }
WS_INLINE ws_u16 ws_slot_bits_with_transferred(ws_u16 word, ws_u64 x) { return (ws_u16)ws_with_bits(word, 13, 1, x); }
/* a try may be refused by the switch */
WS_INLINE ws_u16 ws_slot_bits_tryable(ws_u16 word) { return (ws_u16)ws_bits(word, 12, 1); }
WS_INLINE ws_u16 ws_slot_bits_with_tryable(ws_u16 word, ws_u64 x) { return (ws_u16)ws_with_bits(word, 12, 1, x); }
/* joins of the slot, or the ordinal of one */
WS_INLINE ws_u16 ws_slot_bits_joins(ws_u16 word) { return (ws_u16)ws_bits(word, 0, 12); }
WS_INLINE ws_u16 ws_slot_bits_with_joins(ws_u16 word, ws_u64 x) { return (ws_u16)ws_with_bits(word, 0, 12, x); }

/* slot_w0, 64 bits. A slot's first word in the switch's memory: the one that decides. */
/* state of the slot */
WS_INLINE ws_u64 ws_slot_w0_state(ws_u64 word) { return ws_bits(word, 62, 2); }
WS_INLINE ws_u64 ws_slot_w0_with_state(ws_u64 word, ws_u64 x) { return ws_with_bits(word, 62, 2, x); }
/* the agency was handed over: a claim is not allowed */
WS_INLINE ws_u64 ws_slot_w0_transferred(ws_u64 word) { return ws_bits(word, 61, 1); }
WS_INLINE ws_u64 ws_slot_w0_with_transferred(ws_u64 word, ws_u64 x) { return ws_with_bits(word, 61, 1, x); }
/* every hold is of the name in w1 */
WS_INLINE ws_u64 ws_slot_w0_tryable(ws_u64 word) { return ws_bits(word, 60, 1); }
WS_INLINE ws_u64 ws_slot_w0_with_tryable(ws_u64 word, ws_u64 x) { return ws_with_bits(word, 60, 1, x); }
/* handle of the agent's node, 0 when UNHELD */
WS_INLINE ws_u64 ws_slot_w0_agent(ws_u64 word) { return ws_bits(word, 44, 16); }
WS_INLINE ws_u64 ws_slot_w0_with_agent(ws_u64 word, ws_u64 x) { return ws_with_bits(word, 44, 16, x); }
/* joins of this tenure */
WS_INLINE ws_u64 ws_slot_w0_joins(ws_u64 word) { return ws_bits(word, 32, 12); }
WS_INLINE ws_u64 ws_slot_w0_with_joins(ws_u64 word, ws_u64 x) { return ws_with_bits(word, 32, 12, x); }
/* changes of the slot's agency */
WS_INLINE ws_u64 ws_slot_w0_tenure(ws_u64 word) { return ws_bits(word, 0, 32); }
WS_INLINE ws_u64 ws_slot_w0_with_tenure(ws_u64 word, ws_u64 x) { return ws_with_bits(word, 0, 32, x); }

/* slot_w1, 64 bits. A slot's second word in the switch's memory: helps to answer BUSY. */
/* low 20 bits of w0's tenure; otherwise a leftover */
WS_INLINE ws_u64 ws_slot_w1_tenure(ws_u64 word) { return ws_bits(word, 44, 20); }
WS_INLINE ws_u64 ws_slot_w1_with_tenure(ws_u64 word, ws_u64 x) { return ws_with_bits(word, 44, 20, x); }
/* mix(name id) >> 20 */
WS_INLINE ws_u64 ws_slot_w1_name_hash(ws_u64 word) { return ws_bits(word, 0, 44); }
WS_INLINE ws_u64 ws_slot_w1_with_name_hash(ws_u64 word, ws_u64 x) { return ws_with_bits(word, 0, 44, x); }

/* node_word, 64 bits. A node's word in the switch's memory. */
/* state of the node */
WS_INLINE ws_u64 ws_node_word_state(ws_u64 word) { return ws_bits(word, 56, 8); }
WS_INLINE ws_u64 ws_node_word_with_state(ws_u64 word, ws_u64 x) { return ws_with_bits(word, 56, 8, x); }
/* of its last heartbeat */
WS_INLINE ws_u64 ws_node_word_sequence(ws_u64 word) { return ws_bits(word, 0, 56); }
WS_INLINE ws_u64 ws_node_word_with_sequence(ws_u64 word, ws_u64 x) { return ws_with_bits(word, 0, 56, x); }

/* group_place, 64 bits. A switch's place in the chain of a virtual group. */
/* of the group's configuration; 0: this switch has no part in it */
WS_INLINE ws_u64 ws_group_place_epoch(ws_u64 word) { return ws_bits(word, 32, 32); }
WS_INLINE ws_u64 ws_group_place_with_epoch(ws_u64 word, ws_u64 x) { return ws_with_bits(word, 32, 32, x); }
/* handle of the switch before this one; 0: this is the head */
WS_INLINE ws_u64 ws_group_place_previous(ws_u64 word) { return ws_bits(word, 16, 16); }
WS_INLINE ws_u64 ws_group_place_with_previous(ws_u64 word, ws_u64 x) { return ws_with_bits(word, 16, 16, x); }
/* handle of the switch after it; 0: this is the tail */
WS_INLINE ws_u64 ws_group_place_next(ws_u64 word) { return ws_bits(word, 0, 16); }
WS_INLINE ws_u64 ws_group_place_with_next(ws_u64 word, ws_u64 x) { return ws_with_bits(word, 0, 16, x); }

/* item_lock, 64 bits. An item's lock in the switch's memory, and which of its two versions is the item's. */
/* 1 + lane of the counters of who writes; 0: nobody */
WS_INLINE ws_u64 ws_item_lock_owner(ws_u64 word) { return ws_bits(word, 48, 16); }
WS_INLINE ws_u64 ws_item_lock_with_owner(ws_u64 word, ws_u64 x) { return ws_with_bits(word, 48, 16, x); }
/* changes of the item, modulo 2^47: 4 years at a million a second */
WS_INLINE ws_u64 ws_item_lock_changes(ws_u64 word) { return ws_bits(word, 1, 47); }
WS_INLINE ws_u64 ws_item_lock_with_changes(ws_u64 word, ws_u64 x) { return ws_with_bits(word, 1, 47, x); }
/* which of the two versions is the item's */
WS_INLINE ws_u64 ws_item_lock_which(ws_u64 word) { return ws_bits(word, 0, 1); }
WS_INLINE ws_u64 ws_item_lock_with_which(ws_u64 word, ws_u64 x) { return ws_with_bits(word, 0, 1, x); }

/* lease_owner, 64 bits. Whose a leased version is. All zeros: it is not leased. */
/* zero */
WS_INLINE ws_u64 ws_lease_owner_zero(ws_u64 word) { return ws_bits(word, 48, 16); }
WS_INLINE ws_u64 ws_lease_owner_with_zero(ws_u64 word, ws_u64 x) { return ws_with_bits(word, 48, 16, x); }
/* handle of the session */
WS_INLINE ws_u64 ws_lease_owner_handle(ws_u64 word) { return ws_bits(word, 32, 16); }
WS_INLINE ws_u64 ws_lease_owner_with_handle(ws_u64 word, ws_u64 x) { return ws_with_bits(word, 32, 16, x); }
/* low half of its incarnation */
WS_INLINE ws_u64 ws_lease_owner_incarnation(ws_u64 word) { return ws_bits(word, 0, 32); }
WS_INLINE ws_u64 ws_lease_owner_with_incarnation(ws_u64 word, ws_u64 x) { return ws_with_bits(word, 0, 32, x); }

/* cell_who, 64 bits. Whose request a cell of a queue has. */
/* handle of the requester */
WS_INLINE ws_u64 ws_cell_who_holder(ws_u64 word) { return ws_bits(word, 48, 16); }
WS_INLINE ws_u64 ws_cell_who_with_holder(ws_u64 word, ws_u64 x) { return ws_with_bits(word, 48, 16, x); }
/* UDP port of its thread; 0: its agent port */
WS_INLINE ws_u64 ws_cell_who_reply_port(ws_u64 word) { return ws_bits(word, 32, 16); }
WS_INLINE ws_u64 ws_cell_who_with_reply_port(ws_u64 word, ws_u64 x) { return ws_with_bits(word, 32, 16, x); }
/* zero */
WS_INLINE ws_u64 ws_cell_who_zero(ws_u64 word) { return ws_bits(word, 2, 30); }
WS_INLINE ws_u64 ws_cell_who_with_zero(ws_u64 word, ws_u64 x) { return ws_with_bits(word, 2, 30, x); }
/* mode */
WS_INLINE ws_u64 ws_cell_who_exclusive(ws_u64 word) { return ws_bits(word, 1, 1); }
WS_INLINE ws_u64 ws_cell_who_with_exclusive(ws_u64 word, ws_u64 x) { return ws_with_bits(word, 1, 1, x); }
/* the request is over */
WS_INLINE ws_u64 ws_cell_who_over(ws_u64 word) { return ws_bits(word, 0, 1); }
WS_INLINE ws_u64 ws_cell_who_with_over(ws_u64 word, ws_u64 x) { return ws_with_bits(word, 0, 1, x); }

/* queue_holding, 64 bits. Who holds a queue's lock: counted from its cells. */
/* zero */
WS_INLINE ws_u64 ws_queue_holding_zero(ws_u64 word) { return ws_bits(word, 33, 31); }
WS_INLINE ws_u64 ws_queue_holding_with_zero(ws_u64 word, ws_u64 x) { return ws_with_bits(word, 33, 31, x); }
/* the one holder is exclusive */
WS_INLINE ws_u64 ws_queue_holding_exclusive(ws_u64 word) { return ws_bits(word, 32, 1); }
WS_INLINE ws_u64 ws_queue_holding_with_exclusive(ws_u64 word, ws_u64 x) { return ws_with_bits(word, 32, 1, x); }
/* holders */
WS_INLINE ws_u64 ws_queue_holding_holders(ws_u64 word) { return ws_bits(word, 0, 32); }
WS_INLINE ws_u64 ws_queue_holding_with_holders(ws_u64 word, ws_u64 x) { return ws_with_bits(word, 0, 32, x); }

/* token, 64 bits. Fencing token of a grant, as users see it. */
/* so that it fits a signed 64-bit column */
WS_INLINE ws_u64 ws_token_zero(ws_u64 word) { return ws_bits(word, 63, 1); }
WS_INLINE ws_u64 ws_token_with_zero(ws_u64 word, ws_u64 x) { return ws_with_bits(word, 63, 1, x); }
/* boot epoch of the switch */
WS_INLINE ws_u64 ws_token_epoch(ws_u64 word) { return ws_bits(word, 40, 23); }
WS_INLINE ws_u64 ws_token_with_epoch(ws_u64 word, ws_u64 x) { return ws_with_bits(word, 40, 23, x); }
/* tenure of the slot */
WS_INLINE ws_u64 ws_token_tenure(ws_u64 word) { return ws_bits(word, 8, 32); }
WS_INLINE ws_u64 ws_token_with_tenure(ws_u64 word, ws_u64 x) { return ws_with_bits(word, 8, 32, x); }
/* agent's sequence, 0 by the switch */
WS_INLINE ws_u64 ws_token_sequence(ws_u64 word) { return ws_bits(word, 0, 8); }
WS_INLINE ws_u64 ws_token_with_sequence(ws_u64 word, ws_u64 x) { return ws_with_bits(word, 0, 8, x); }

/* request_id, 64 bits. Names one attempt of one node. */
/* of the node, modulo 2^24 */
WS_INLINE ws_u64 ws_request_id_incarnation(ws_u64 word) { return ws_bits(word, 40, 24); }
WS_INLINE ws_u64 ws_request_id_with_incarnation(ws_u64 word, ws_u64 x) { return ws_with_bits(word, 40, 24, x); }
/* of the node's attempts: 12 days at a million a second */
WS_INLINE ws_u64 ws_request_id_counter(ws_u64 word) { return ws_bits(word, 0, 40); }
WS_INLINE ws_u64 ws_request_id_with_counter(ws_u64 word, ws_u64 x) { return ws_with_bits(word, 0, 40, x); }

/* Exact length of a packet of a known kind with `count` entries or blocks; 0 for a kind that is not known. */
WS_INLINE ws_u32 ws_packet_bytes(ws_u8 service, ws_u8 kind, ws_u8 count)
{
	switch (service) {
	case WS_SERVICE_FABRIC:
		switch (kind) {
		case WS_FABRIC_ENROL:
			return WS_HEADER_BYTES + WS_ENROL_BYTES;
		case WS_FABRIC_ENROLLED:
			return WS_HEADER_BYTES + WS_ENROLLED_BYTES;
		case WS_FABRIC_HEARTBEAT:
		case WS_FABRIC_HEARTBEAT_ACK:
		case WS_FABRIC_LEAVE:
		case WS_FABRIC_LEFT:
		case WS_FABRIC_DOWN:
		case WS_FABRIC_DOWN_ACK:
		case WS_FABRIC_STALE:
		case WS_FABRIC_TURN:
		case WS_FABRIC_TURN_ACK:
		case WS_FABRIC_POLICY:
		case WS_FABRIC_POLICY_ACK:
			return WS_HEADER_BYTES + WS_HEARTBEAT_BYTES;
		case WS_FABRIC_NAMES:
			return WS_HEADER_BYTES + WS_NAMES_BYTES + (ws_u32)count * WS_BLOCK_BYTES;
		default:
			return 0;
		}
	case WS_SERVICE_LOCK:
		switch (kind) {
		case WS_LOCK_ACQUIRE:
		case WS_LOCK_GRANT:
		case WS_LOCK_JOIN:
		case WS_LOCK_RELEASE:
		case WS_LOCK_CANCEL:
		case WS_LOCK_RELEASED:
		case WS_LOCK_DOWNGRADE:
		case WS_LOCK_RETENURE:
		case WS_LOCK_RETENURED:
		case WS_LOCK_BUSY:
		case WS_LOCK_RECOVERING:
		case WS_LOCK_QUEUE:
		case WS_LOCK_QUEUED:
		case WS_LOCK_GAP:
		case WS_LOCK_CENSUS:
		case WS_LOCK_REPORT:
		case WS_LOCK_ADOPT:
		case WS_LOCK_ADOPTED:
		case WS_LOCK_INSPECT:
		case WS_LOCK_REJECT:
		case WS_LOCK_FREE:
		case WS_LOCK_FREED:
			return WS_HEADER_BYTES + (ws_u32)count * WS_ENTRY_BYTES;
		default:
			return 0;
		}
	case WS_SERVICE_QUEUE:
		switch (kind) {
		case WS_QUEUE_ACQUIRE:
		case WS_QUEUE_GRANT:
		case WS_QUEUE_QUEUED:
		case WS_QUEUE_RELEASE:
		case WS_QUEUE_CANCEL:
		case WS_QUEUE_RELEASED:
		case WS_QUEUE_NEXT:
		case WS_QUEUE_BUSY:
		case WS_QUEUE_RECOVERING:
		case WS_QUEUE_PUSH:
		case WS_QUEUE_SETTLE:
		case WS_QUEUE_PUSHED:
		case WS_QUEUE_ROOM:
		case WS_QUEUE_SERVE:
		case WS_QUEUE_SERVING:
		case WS_QUEUE_RECALL:
		case WS_QUEUE_CEDED:
		case WS_QUEUE_YIELD:
		case WS_QUEUE_TAKEN:
		case WS_QUEUE_ASKED:
		case WS_QUEUE_REJECT:
			return WS_HEADER_BYTES + WS_ATTEMPT_BYTES;
		case WS_QUEUE_FETCH:
		case WS_QUEUE_FETCHED:
			return WS_HEADER_BYTES + WS_FETCH_BYTES + (ws_u32)count * WS_BLOCK_BYTES;
		default:
			return 0;
		}
	case WS_SERVICE_CHAIN:
		switch (kind) {
		case WS_CHAIN_FETCH:
		case WS_CHAIN_COPY:
		case WS_CHAIN_REMOVE:
		case WS_CHAIN_REMOVED:
			return WS_HEADER_BYTES + WS_COPIED_BYTES + (ws_u32)count * WS_BLOCK_BYTES;
		case WS_CHAIN_APPLY:
		case WS_CHAIN_ANSWER:
		case WS_CHAIN_INSTALL:
			return WS_HEADER_BYTES + WS_EFFECT_BYTES + (ws_u32)count * WS_BLOCK_BYTES;
		case WS_CHAIN_READ:
		case WS_CHAIN_WRITE:
		case WS_CHAIN_DELETE:
		case WS_CHAIN_INSERT:
			return WS_HEADER_BYTES + WS_OPERATION_BYTES + (ws_u32)count * WS_BLOCK_BYTES;
		case WS_CHAIN_PLACE:
		case WS_CHAIN_PLACED:
			return WS_HEADER_BYTES + WS_PLACEMENT_BYTES + (ws_u32)count * WS_BLOCK_BYTES;
		case WS_CHAIN_RENEW:
		case WS_CHAIN_RENEWED:
			return WS_HEADER_BYTES + WS_RENEWAL_BYTES + (ws_u32)count * WS_BLOCK_BYTES;
		case WS_CHAIN_MAP:
		case WS_CHAIN_ROUTES:
			return WS_HEADER_BYTES + WS_ROUTES_BYTES + (ws_u32)count * WS_BLOCK_BYTES;
		case WS_CHAIN_WATCH:
		case WS_CHAIN_EVENT:
			return WS_HEADER_BYTES + WS_WATCH_BYTES + (ws_u32)count * WS_BLOCK_BYTES;
		default:
			return 0;
		}
	default:
		return 0;
	}
}

/* Whether packets of a known kind may have as many entries or blocks; 0 where they have neither. */
WS_INLINE int ws_count_fits(ws_u8 service, ws_u8 kind, ws_u8 count)
{
	switch (service) {
	case WS_SERVICE_FABRIC:
		return count == 0 || (count <= WS_MAX_BLOCKS && (kind == WS_FABRIC_NAMES));
	case WS_SERVICE_LOCK:
		return count >= 1 && count <= WS_MAX_ENTRIES;
	case WS_SERVICE_QUEUE:
		return count == 0 || (count <= WS_MAX_BLOCKS && (kind == WS_QUEUE_FETCH || kind == WS_QUEUE_FETCHED));
	case WS_SERVICE_CHAIN:
		return count <= WS_MAX_BLOCKS;
	default:
		return 0;
	}
}

#ifndef __bpf__
/* Names, for people. */
WS_INLINE const char *ws_fabric_kind_name(ws_u8 fabric_kind)
{
	switch (fabric_kind) {
	case WS_FABRIC_ENROL: return "enrol";
	case WS_FABRIC_ENROLLED: return "enrolled";
	case WS_FABRIC_HEARTBEAT: return "heartbeat";
	case WS_FABRIC_HEARTBEAT_ACK: return "heartbeat_ack";
	case WS_FABRIC_LEAVE: return "leave";
	case WS_FABRIC_LEFT: return "left";
	case WS_FABRIC_DOWN: return "down";
	case WS_FABRIC_DOWN_ACK: return "down_ack";
	case WS_FABRIC_STALE: return "stale";
	case WS_FABRIC_TURN: return "turn";
	case WS_FABRIC_TURN_ACK: return "turn_ack";
	case WS_FABRIC_NAMES: return "names";
	case WS_FABRIC_POLICY: return "policy";
	case WS_FABRIC_POLICY_ACK: return "policy_ack";
	default: return "unknown";
	}
}
WS_INLINE const char *ws_lock_kind_name(ws_u8 lock_kind)
{
	switch (lock_kind) {
	case WS_LOCK_ACQUIRE: return "acquire";
	case WS_LOCK_GRANT: return "grant";
	case WS_LOCK_JOIN: return "join";
	case WS_LOCK_RELEASE: return "release";
	case WS_LOCK_CANCEL: return "cancel";
	case WS_LOCK_RELEASED: return "released";
	case WS_LOCK_DOWNGRADE: return "downgrade";
	case WS_LOCK_RETENURE: return "retenure";
	case WS_LOCK_RETENURED: return "retenured";
	case WS_LOCK_BUSY: return "busy";
	case WS_LOCK_RECOVERING: return "recovering";
	case WS_LOCK_QUEUE: return "queue";
	case WS_LOCK_QUEUED: return "queued";
	case WS_LOCK_GAP: return "gap";
	case WS_LOCK_CENSUS: return "census";
	case WS_LOCK_REPORT: return "report";
	case WS_LOCK_ADOPT: return "adopt";
	case WS_LOCK_ADOPTED: return "adopted";
	case WS_LOCK_INSPECT: return "inspect";
	case WS_LOCK_REJECT: return "reject";
	case WS_LOCK_FREE: return "free";
	case WS_LOCK_FREED: return "freed";
	default: return "unknown";
	}
}
WS_INLINE const char *ws_queue_kind_name(ws_u8 queue_kind)
{
	switch (queue_kind) {
	case WS_QUEUE_ACQUIRE: return "acquire";
	case WS_QUEUE_GRANT: return "grant";
	case WS_QUEUE_QUEUED: return "queued";
	case WS_QUEUE_RELEASE: return "release";
	case WS_QUEUE_CANCEL: return "cancel";
	case WS_QUEUE_RELEASED: return "released";
	case WS_QUEUE_NEXT: return "next";
	case WS_QUEUE_BUSY: return "busy";
	case WS_QUEUE_RECOVERING: return "recovering";
	case WS_QUEUE_PUSH: return "push";
	case WS_QUEUE_SETTLE: return "settle";
	case WS_QUEUE_PUSHED: return "pushed";
	case WS_QUEUE_ROOM: return "room";
	case WS_QUEUE_SERVE: return "serve";
	case WS_QUEUE_SERVING: return "serving";
	case WS_QUEUE_RECALL: return "recall";
	case WS_QUEUE_CEDED: return "ceded";
	case WS_QUEUE_YIELD: return "yield";
	case WS_QUEUE_TAKEN: return "taken";
	case WS_QUEUE_ASKED: return "asked";
	case WS_QUEUE_REJECT: return "reject";
	case WS_QUEUE_FETCH: return "fetch";
	case WS_QUEUE_FETCHED: return "fetched";
	default: return "unknown";
	}
}
WS_INLINE const char *ws_chain_kind_name(ws_u8 chain_kind)
{
	switch (chain_kind) {
	case WS_CHAIN_READ: return "read";
	case WS_CHAIN_WRITE: return "write";
	case WS_CHAIN_DELETE: return "delete";
	case WS_CHAIN_APPLY: return "apply";
	case WS_CHAIN_ANSWER: return "answer";
	case WS_CHAIN_INSERT: return "insert";
	case WS_CHAIN_INSTALL: return "install";
	case WS_CHAIN_MAP: return "map";
	case WS_CHAIN_ROUTES: return "routes";
	case WS_CHAIN_PLACE: return "place";
	case WS_CHAIN_PLACED: return "placed";
	case WS_CHAIN_RENEW: return "renew";
	case WS_CHAIN_RENEWED: return "renewed";
	case WS_CHAIN_FETCH: return "fetch";
	case WS_CHAIN_COPY: return "copy";
	case WS_CHAIN_WATCH: return "watch";
	case WS_CHAIN_EVENT: return "event";
	case WS_CHAIN_REMOVE: return "remove";
	case WS_CHAIN_REMOVED: return "removed";
	default: return "unknown";
	}
}
WS_INLINE const char *ws_slot_state_name(ws_u8 slot_state)
{
	switch (slot_state) {
	case WS_SLOT_STATE_UNHELD: return "unheld";
	case WS_SLOT_STATE_OPEN: return "open";
	case WS_SLOT_STATE_MANAGED: return "managed";
	case WS_SLOT_STATE_FROZEN: return "frozen";
	default: return "unknown";
	}
}
WS_INLINE const char *ws_node_state_name(ws_u8 node_state)
{
	switch (node_state) {
	case WS_NODE_STATE_VACANT: return "vacant";
	case WS_NODE_STATE_LIVE: return "live";
	case WS_NODE_STATE_EXPIRED: return "expired";
	case WS_NODE_STATE_DISMISSED: return "dismissed";
	default: return "unknown";
	}
}
WS_INLINE const char *ws_policy_name(ws_u8 policy)
{
	switch (policy) {
	case WS_POLICY_FAIR: return "fair";
	case WS_POLICY_READ_PREFERRING: return "read_preferring";
	case WS_POLICY_WRITE_PREFERRING: return "write_preferring";
	default: return "unknown";
	}
}
WS_INLINE const char *ws_engine_name(ws_u8 engine)
{
	switch (engine) {
	case WS_ENGINE_FISSION: return "fission";
	case WS_ENGINE_QUEUE: return "queue";
	case WS_ENGINE_HYBRID: return "hybrid";
	default: return "unknown";
	}
}
WS_INLINE const char *ws_refusal_name(ws_u8 refusal)
{
	switch (refusal) {
	case WS_REFUSAL_NONE: return "none";
	case WS_REFUSAL_VERSION: return "version";
	case WS_REFUSAL_NAMESPACE: return "namespace";
	case WS_REFUSAL_FULL: return "full";
	case WS_REFUSAL_RECOVERING: return "recovering";
	case WS_REFUSAL_SHARDS: return "shards";
	default: return "unknown";
	}
}
WS_INLINE const char *ws_condition_name(ws_u8 condition)
{
	switch (condition) {
	case WS_CONDITION_NONE: return "none";
	case WS_CONDITION_VERSION: return "version";
	case WS_CONDITION_ABSENT: return "absent";
	case WS_CONDITION_WORD: return "word";
	default: return "unknown";
	}
}
WS_INLINE const char *ws_outcome_name(ws_u8 outcome)
{
	switch (outcome) {
	case WS_OUTCOME_DONE: return "done";
	case WS_OUTCOME_UNMET: return "unmet";
	case WS_OUTCOME_MISSING: return "missing";
	case WS_OUTCOME_NO_ROOM: return "no_room";
	case WS_OUTCOME_MOVED: return "moved";
	case WS_OUTCOME_RECOVERING: return "recovering";
	case WS_OUTCOME_FULL: return "full";
	case WS_OUTCOME_COLLISION: return "collision";
	case WS_OUTCOME_UNSURE: return "unsure";
	case WS_OUTCOME_RESET: return "reset";
	default: return "unknown";
	}
}
WS_INLINE const char *ws_role_name(ws_u8 role)
{
	switch (role) {
	case WS_ROLE_NONE: return "none";
	case WS_ROLE_MEMBER: return "member";
	case WS_ROLE_QUIET: return "quiet";
	case WS_ROLE_JOINER: return "joiner";
	default: return "unknown";
	}
}
WS_INLINE const char *ws_scope_name(ws_u8 scope)
{
	switch (scope) {
	case WS_SCOPE_KEY: return "key";
	case WS_SCOPE_PREFIX: return "prefix";
	default: return "unknown";
	}
}
WS_INLINE const char *ws_part_name(ws_u8 part)
{
	switch (part) {
	case WS_PART_NAME: return "name";
	case WS_PART_VALUE: return "value";
	case WS_PART_END: return "end";
	default: return "unknown";
	}
}
WS_INLINE const char *ws_drop_reason_name(ws_u8 drop_reason)
{
	switch (drop_reason) {
	case WS_DROP_REASON_NONE: return "none";
	case WS_DROP_REASON_TOO_SHORT: return "too_short";
	case WS_DROP_REASON_BAD_MAGIC: return "bad_magic";
	case WS_DROP_REASON_FOREIGN_VERSION: return "foreign_version";
	case WS_DROP_REASON_UNKNOWN_SERVICE: return "unknown_service";
	case WS_DROP_REASON_UNKNOWN_KIND: return "unknown_kind";
	case WS_DROP_REASON_BAD_LENGTH: return "bad_length";
	case WS_DROP_REASON_BAD_COUNT: return "bad_count";
	case WS_DROP_REASON_UNKNOWN_NAMESPACE: return "unknown_namespace";
	case WS_DROP_REASON_BAD_SLOT: return "bad_slot";
	case WS_DROP_REASON_UNKNOWN_SOURCE: return "unknown_source";
	case WS_DROP_REASON_SOURCE_NOT_LIVE: return "source_not_live";
	case WS_DROP_REASON_HOLDER_NOT_LIVE: return "holder_not_live";
	case WS_DROP_REASON_FOREIGN_HOLDER: return "foreign_holder";
	case WS_DROP_REASON_STALE_REQUEST: return "stale_request";
	case WS_DROP_REASON_STALE_EPOCH: return "stale_epoch";
	case WS_DROP_REASON_DESTINATION_NOT_LIVE: return "destination_not_live";
	case WS_DROP_REASON_STALE_HEARTBEAT: return "stale_heartbeat";
	case WS_DROP_REASON_BAD_STATE: return "bad_state";
	case WS_DROP_REASON_LOST_RACE: return "lost_race";
	case WS_DROP_REASON_BAD_TAG: return "bad_tag";
	case WS_DROP_REASON_NOT_GRANTED: return "not_granted";
	case WS_DROP_REASON_ENROL_IN_CLEAR: return "enrol_in_clear";
	case WS_DROP_REASON_NO_KEY: return "no_key";
	case WS_DROP_REASON_NOT_SERVING: return "not_serving";
	case WS_DROP_REASON_OVER_BUDGET: return "over_budget";
	case WS_DROP_REASON_UNKNOWN_GROUP: return "unknown_group";
	case WS_DROP_REASON_WRONG_PLACE: return "wrong_place";
	case WS_DROP_REASON_BAD_VALUE: return "bad_value";
	case WS_DROP_REASON_BAD_LANE: return "bad_lane";
	case WS_DROP_REASON_NO_SERVER: return "no_server";
	case WS_DROP_REASON_NOT_ITS_SERVER: return "not_its_server";
	case WS_DROP_REASON_NO_QUEUE: return "no_queue";
	default: return "unknown";
	}
}
#endif

#endif /* WAYSIDE_WIRE_H */
