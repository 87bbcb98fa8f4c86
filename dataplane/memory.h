/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * The switch's memory: what one switch knows, and who may write it.
 *
 *   slots     w0, w1 of every slot of every namespace   data plane and controller, by compare-and-swap of w0
 *   regions   where a namespace's slots lie             controller, before the namespace's first session
 *             what its budget is: budget.h              daemon, when it starts; spent by the data plane
 *   nodes     one entry a handle                        word: both, by compare-and-swap; the rest: controller while
 *                                                       the word is not LIVE (`oldest` is raised by heartbeats)
 *   keys      one entry a handle: docs/security.md      controller; `heard` by heartbeats
 *   globals   epoch, serving, authenticated, lease      controller
 *   counters  lanes of one for every outcome            data plane: a lane a CPU, so that none waits for another
 *   traces    decisions that are followed: trace.h      data plane
 *
 * The same layouts lie in BPF maps and in the memory that crates/switch allocates (its src/layout.rs).
 */
#ifndef WAYSIDE_MEMORY_H
#define WAYSIDE_MEMORY_H

#include "siphash.h"

/* Words in docs/protocol.md, "A slot"; fields in wire.h: slot_w0, slot_w1. */
struct ws_slot {
	ws_u64 w0;
	ws_u64 w1;
};

/* One handle's node. Two entries a cache line. */
struct ws_node {
	ws_u64 word;        /* wire.h: node_word */
	ws_u64 oldest;      /* its oldest outstanding request id */
	ws_u64 incarnation; /* an older session of this handle is not this node */
	ws_u32 address;     /* IPv4, in the host's byte order */
	ws_u16 agent_port;  /* UDP */
	ws_u16 namespace;   /* of its session: it may touch no other, so a tenant's nodes stay within the tenant */
};

/* What a namespace has spent, in units of one platform's clock. */
struct ws_meter {
	ws_u64 due;  /* when all that was admitted will have been paid for */
	ws_u64 cost; /* of a request */
};

/* Units of a meter: 2^-10 of a microsecond for 570 years, 2^-24 of a tick of 1 to 10 ms for 34. */
#define WS_METER_CLOCK_SHIFT 10
#define WS_METER_TICK_SHIFT 24

/* Slots of one namespace. `count` 0: no such namespace. A cache line: what is spent is written by whoever decides for
 * this namespace, and costs the others nothing. */
struct ws_region {
	ws_u32 base; /* index of its slot 0 */
	ws_u32 count;
	ws_u32 policy;            /* WS_POLICY_* */
	ws_u32 burst;             /* requests that its budget admits at once; 0: it has none */
	struct ws_meter by_clock; /* of the userspace build */
	struct ws_meter by_tick;  /* of the BPF build, whose clock is another one */
	ws_u64 over_budget;       /* packets that its budget refused */
	ws_u32 told_by_clock;     /* of which meter's state the last of them was told: budget.h */
	ws_u32 told_by_tick;
};

/* One handle's keys. Slot r & 1 holds those of rotation r, and the other those of r - 1 until it takes r + 1's. */
struct ws_keys {
	ws_u32 written[2]; /* of a slot: even and not 0 while it holds keys, odd while it is written or holds none */
	ws_u32 rotation;   /* whose keys sign packets to this handle */
	ws_u32 heard;      /* 1 + slot of the key of its latest heartbeat; 0: none yet */
	struct {
		struct ws_key up;   /* of packets from the node */
		struct ws_key down; /* of packets to it */
	} of[2];
};

/* When a serving lease is over, by the clocks of the two platforms: from then on another switch may serve in this one's
 * place. 0: no other ever does. */
struct ws_lease {
	ws_u64 end_us;
	ws_u64 end_tick;
};

struct ws_globals {
	ws_u32 epoch;         /* 0: the memory is empty, every packet of a node is dropped */
	ws_u32 serving;       /* 0: requests are answered RECOVERING */
	ws_u32 shard_map;     /* version, told in every answer */
	ws_u32 authenticated; /* 0: tags are neither checked nor made */
	ws_u32 reserved;
	ws_u32 trace_one_in;  /* of so many requests one is followed: trace.h; 0: none */
	struct ws_lease lease; /* of the locks */
};

/* A decision on a request that is followed: trace.h. Times are of CLOCK_MONOTONIC. */
struct ws_trace {
	ws_u64 request;
	ws_u64 began; /* 63..58 lap of the ring, modulo 64; below it nanoseconds: nine years of them */
	ws_u64 ended_ns; /* 0: it has not yet */
	/* 63..48 namespace, 47..40 service, 39..32 kind, as it went on; 31..16 handle, 15..8 reason, 7..2 lap of the ring,
	 * modulo 64, 1..0 action */
	ws_u64 what;
};

#define WS_TRACE_TIME ((1ull << 58) - 1)

/* A power of two: who looks ten times a second sees 5,000 a second. */
#define WS_TRACES 512

struct ws_traces {
	ws_u64 begun; /* so far; the next one's place is that modulo WS_TRACES */
	ws_u64 reserved[3];
	struct ws_trace of[WS_TRACES];
};

/* Handles and namespaces have 16 bits: their tables hold all of them, so that no lookup can miss. */
#define WS_NODES 65536
#define WS_REGIONS 65536

_Static_assert(sizeof(struct ws_slot) == 16, "slot");
_Static_assert(sizeof(struct ws_node) == 32, "node");
_Static_assert(sizeof(struct ws_region) == 64, "region");
_Static_assert(sizeof(struct ws_keys) == 80, "keys");
_Static_assert(sizeof(struct ws_globals) == 40, "globals");
_Static_assert(sizeof(struct ws_traces) == 32 + 32 * WS_TRACES, "traces");

/* What is counted besides the drops, which are counted under their reason. One packet counts one verdict and, where it
 * changed or asked a slot or a session, one outcome (a batch: one for every entry granted). */
#define WS_OUTCOMES(X)                                                                     \
	X(to_sender)         /* verdicts */                                                \
	X(to_node)                                                                         \
	X(to_controller)                                                                   \
	X(copied)            /* JOINs sent to agents beside the verdict */                 \
	X(granted)           /* ACQUIRE: slots granted with their agency */                \
	X(joined)            /* ACQUIRE: shared grants on an OPEN slot */                  \
	X(busy)              /* tries refused, and requests that hopped too often */       \
	X(closed)            /* OPEN slots that an exclusive request made MANAGED */       \
	X(forwarded)         /* requests sent on to the slot's agent */                    \
	X(recovering)        /* requests told to come back later */                        \
	X(released)          /* RELEASE, CANCEL, DOWNGRADE of an UNHELD slot */            \
	X(freed)             /* RETENURE, by what it did; entries of FREE */               \
	X(transferred)                                                                     \
	X(transfer_repeated)                                                               \
	X(renewed)                                                                         \
	X(reopened)                                                                        \
	X(claimed)                                                                         \
	X(claim_repeated)                                                                  \
	X(retenure_refused)                                                                \
	X(retenure_stale)                                                                  \
	X(gap)               /* slots handed to the controller by the switch itself */     \
	X(relayed)           /* node to node, by destination */                            \
	X(heartbeat)         /* heartbeats recorded */                                     \
	X(session_over)      /* heartbeats of sessions that are over */                    \
	X(read)              /* READ answered with what the key has */                     \
	X(written)           /* WRITE and DELETE at the head */                            \
	X(unmet)             /* those whose condition did not hold */                      \
	X(repeated)          /* those that had been decided before */                      \
	X(applied)           /* APPLY with a newer version */                              \
	X(overtaken)         /* APPLY that was not */                                      \
	X(missing)           /* no such key */                                             \
	X(no_room)           /* the value is longer than the packet */                     \
	X(moved)             /* the sender knows another chain */                          \
	X(queue_granted)     /* requests granted from a queue */                           \
	X(queue_granted_again) /* those that asked again, or were reminded */              \
	X(queue_waiting)     /* requests told that they wait in a queue */                 \
	X(queue_released)    /* requests that their holders ended */                       \
	X(queue_overflowed)  /* requests sent to a lock server for want of room */         \
	X(queue_passed)      /* packets about locks that are a lock server's */            \
	X(queue_pushed)      /* requests taken from a lock server */                       \
	X(handed_up)         /* XDP: packets that the daemon sends or hears, having no way of the switch's own */ \
	X(handed_up_lost)    /* XDP: those that found its ring full */                     \
	X(rejected)          /* requests over a budget whose senders were told so */       \
	X(free_over)         /* entries of FREE whose slots are not as they say: free by an earlier one, mostly */ \
	X(to_nobody)         /* a verdict: all is done, and nobody waits for an answer */

#define WS_OUTCOME(name) WS_COUNTER_##name,
enum ws_counter {
	WS_COUNTER_last_reason = WS_DROP_REASON_COUNT - 1, /* counters below are drop reasons */
	WS_OUTCOMES(WS_OUTCOME)
	WS_COUNTERS
};
#undef WS_OUTCOME

/* Counters lie in lanes: of the userspace threads first, then one of every CPU's XDP program. */
#define WS_THREAD_LANES 16

struct ws_counters {
	ws_u64 of[128]; /* WS_COUNTERS of them are used: whole cache lines */
};
/* The last one counts nothing: it is what the lane's owner follows at this moment (trace.h). */
#define WS_FOLLOWS 127
_Static_assert(WS_COUNTERS <= WS_FOLLOWS, "counters of a lane");

/* What to do with the packet, which has been rewritten in place. */
enum ws_action {
	WS_DROP,          /* `reason` says why; none: all is done, and nobody waits for an answer */
	WS_TO_SENDER,     /* back to the UDP address it came from */
	WS_TO_NODE,       /* to `handle`'s address, at UDP port `port`; 0: its agent port */
	WS_TO_CONTROLLER,
};

struct ws_verdict {
	ws_u8 action; /* enum ws_action */
	ws_u8 reason; /* WS_DROP_REASON_*: of a drop, or why the sender is told STALE or refused */
	ws_u16 handle;
	ws_u16 port;
	ws_u16 length; /* of the packet now: at most what it was */
	ws_u16 copy;   /* not 0: the same bytes to this node, as ws_make_copy changes them */
	ws_u16 reserved;
};
_Static_assert(sizeof(struct ws_verdict) == 12, "verdict");

#endif
