/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * The queue service's memory at one switch, and who may write it.
 *
 *   queues     one popular lock's queue: a region of cells, and counters   whoever has the queue's lock
 *   cells      one request in a queue                                      whoever has the lock of the queue whose
 *                                                                          region it is in
 *   names      which queue has a name: buckets as those of keys            daemon alone
 *   servers    a namespace's parts, and the lock server of each            daemon alone
 *   directory  what is one for the switch                                  daemon alone
 *
 *   cells    left                               left + size
 *             | . . . | o x o | e s s x s | . . . |          o holds, x is over, e and s wait
 *                     ^       ^           ^
 *                   head   granted      tail                 tickets: a ticket's cell is left + ticket mod size
 */
#ifndef WAYSIDE_CELLS_H
#define WAYSIDE_CELLS_H

#include "items.h"

/* One request. Written whole before `tail` shows it; after that `who` alone changes. */
struct ws_cell {
	ws_u64 request;
	ws_u64 who; /* wire.h: cell_who */
};

struct ws_queue {
	ws_u64 lock; /* wire.h: item_lock, of which only the owner counts */
	ws_u64 name;
	ws_u32 namespace;
	ws_u32 epoch;     /* of the switch, when the queue was begun: in another one it decides nothing */
	ws_u32 left;
	ws_u32 size; /* 0: nobody's queue */
	/* Tickets. None of these three ever falls; head <= granted <= tail <= head + size. */
	ws_u64 head;
	ws_u64 granted;
	ws_u64 tail;
	ws_u64 holding; /* wire.h: queue_holding. What the cells from head to below granted say */
	/* Of the lock server's part. Orders: 0 <= settled <= given. Pushes: a count. */
	ws_u64 given;
	ws_u64 settled;
	ws_u64 pushed;
	ws_u32 stage; /* enum ws_stage */
	ws_u32 ranked; /* requests with a priority that were given to the lock server since the queue began: a count that wraps */
};

/* Where a lock is: docs/queue.md, "Moves". Changed by the daemon, under the queue's lock. */
enum ws_stage {
	WS_STAGE_HERE,
	WS_STAGE_DRAINS,  /* no request gets a cell any more */
	WS_STAGE_HANDED,  /* from here on it is its lock server's: nobody holds or waits. Its server may not know yet */
	WS_STAGE_AWAITED, /* is still its lock server's, which is to cede it */
};

/* The parts of one namespace's names, and whose each is; which of them a name is in: docs/queue.md, "Parts". `count` 0:
 * no node has been the lock server of any of them. */
#define WS_SERVERS 14

struct ws_servers {
	ws_u16 count;
	ws_u16 reserved;
	ws_u16 of[WS_SERVERS];   /* handles; 0: nobody's */
	ws_u16 term[WS_SERVERS]; /* of this memory, how often there were others: no two have granted under the same */
	ws_u16 spare[2];
};

struct ws_directory {
	ws_u64 seed;        /* of the names' hashes: this switch's secret */
	ws_u64 shape;       /* the daemon's own: which namespaces have queues, and how; 0: none */
	ws_u32 bucket_mask; /* buckets - 1 */
	ws_u32 reserved;
};

/* The most cells of a queue: what a packet looks through at worst, under the queue's lock. */
#define WS_MAX_CELLS 1024

/* The last ticket: 40 bits are the token's. */
#define WS_LAST_TICKET ((1ull << 40) - 1)

_Static_assert(sizeof(struct ws_cell) == 16, "cell");
_Static_assert(sizeof(struct ws_queue) == 96, "queue");
_Static_assert(sizeof(struct ws_servers) == 64, "servers");
_Static_assert(sizeof(struct ws_directory) == 24, "directory");

#endif
