/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* The native core under libFuzzer and the sanitizers: an input is a sequence of commands, which change the switch as a
 * controller, time or chance would, or are packets. Each packet lies in memory of exactly its length, and after it must
 * hold what crates/switch/tests/invariants.rs asks, said once more here. Built by scripts/fuzz.sh. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../dataplane/native.h"
#include "../../dataplane/packet.h"

enum { SLOTS = 16, NODES = 16, REGIONS = 4, GROUPS = 4, BUCKETS = 2, ITEMS = 6, LANES = NODES * WS_MAX_LANES,
       QUEUES = 4, CELLS = 8 };

/* What a packet may change, and what it may not. */
struct state {
	struct ws_slot slots[SLOTS];
	struct ws_node nodes[NODES];
	struct ws_region regions[REGIONS];
	struct ws_keys keys[NODES];
	struct ws_globals globals;
	struct ws_group groups[GROUPS];
	struct ws_bucket buckets[BUCKETS];
	struct ws_item items[ITEMS];
	struct ws_lane lanes[LANES];
	struct ws_store store;
	struct ws_queue queues[QUEUES];
	struct ws_cell cells[CELLS];
};

static struct ws_switch sw;
static ws_u64 seen[WS_COUNTERS]; /* counters of all inputs */

/* Besides lines of code, libFuzzer looks for new ones of these: what was counted by a packet of each kind. */
static __attribute__((section("__libfuzzer_extra_counters"))) ws_u8 outcomes[96][WS_COUNTERS];

static const ws_u8 *at, *end;

#define MUST(condition)                                                                     \
	do {                                                                                \
		if (!(condition)) {                                                         \
			fprintf(stderr, "native.c:%d: broken: %s\n", __LINE__, #condition); \
			abort();                                                            \
		}                                                                           \
	} while (0)

/* Numbers of the input; zeros after its end. */
static ws_u8 byte(void) { return at < end ? *at++ : 0; }

static ws_u64 number(int bytes)
{
	ws_u64 x = 0;

	while (bytes--)
		x = x << 8 | byte();
	return x;
}

/* Small, or at the end of its 32 bits, or any. */
static ws_u32 counter(void)
{
	ws_u8 x = byte();

	if (x == 0xff)
		return (ws_u32)number(4);
	return x < 0x80 ? x : ~0u - (0xfe - x);
}

/* A node of the tables that are set, or any. */
static ws_u16 handle(void)
{
	ws_u8 x = byte();

	return x == 0xff ? (ws_u16)number(2) : x % NODES;
}

static void save(struct state *state)
{
	memcpy(state->slots, sw.slots, sizeof state->slots);
	memcpy(state->nodes, sw.nodes, sizeof state->nodes);
	memcpy(state->regions, sw.regions, sizeof state->regions);
	memcpy(state->keys, sw.keys, sizeof state->keys);
	state->globals = *sw.globals;
	memcpy(state->groups, sw.groups, sizeof state->groups);
	memcpy(state->buckets, sw.buckets, sizeof state->buckets);
	memcpy(state->items, sw.items, sizeof state->items);
	memcpy(state->lanes, sw.lanes, sizeof state->lanes);
	state->store = *sw.store;
	memcpy(state->queues, sw.queues, sizeof state->queues);
	memcpy(state->cells, sw.cells, sizeof state->cells);
}

/* Key `key` comes to an item of a group: as the daemon does it. */
static void put_key(ws_u32 number, ws_u16 group, ws_u64 key)
{
	struct ws_item *item = &sw.items[number];
	ws_u64 hash = ws_key_hash(sw.store->seed, key, ~key, group);

	for (ws_u32 i = 0; i < BUCKETS * WS_BUCKET_PLACES; i++)
		if ((ws_u32)sw.buckets[i / WS_BUCKET_PLACES].places[i % WS_BUCKET_PLACES] == number)
			sw.buckets[i / WS_BUCKET_PLACES].places[i % WS_BUCKET_PLACES] = 0;
	item->key_high = key;
	item->key_low = ~key;
	item->name = ws_item_name(group, key);
	for (ws_u32 i = 0; i < 2 * WS_BUCKET_PLACES; i++) {
		ws_u32 at = i < WS_BUCKET_PLACES ? ws_first_bucket(hash) : ws_second_bucket(hash);
		ws_u64 *place = &sw.buckets[at % BUCKETS].places[i % WS_BUCKET_PLACES];
		if (!*place) {
			*place = hash >> 32 << 32 | number;
			return;
		}
	}
}

/* A head has counted what its group's items have, and nobody has more than the group's epoch. */
static void make_possible(void)
{
	for (ws_u32 number = 1; number < ITEMS; number++) {
		struct ws_item *item = &sw.items[number];
		ws_u64 group = (item->name & WS_ITEM_GROUP) - 1;
		if (group >= GROUPS)
			continue;
		ws_u64 epoch = ws_group_place_epoch(sw.groups[group].place);
		for (int which = 0; which < 2; which++) {
			struct ws_version *version = &item->versions[which];
			if (ws_version_epoch(*version) > epoch)
				version->shape = epoch << 32 | (ws_u32)version->shape;
			if (version->sequence >> 40)
				version->sequence = 60;
			if (sw.groups[group].sequence < version->sequence)
				sw.groups[group].sequence = version->sequence;
		}
	}
}

static void begin_chains(void)
{
	memset(sw.groups, 0, GROUPS * sizeof *sw.groups);
	memset(sw.buckets, 0, BUCKETS * sizeof *sw.buckets);
	memset(sw.items, 0, ITEMS * sizeof *sw.items);
	memset(sw.lanes, 0, LANES * sizeof *sw.lanes);
	/* The ring begins anew: what an input before this one has written is not of later numbers. */
	for (ws_u64 number = 1; number <= sw.store->drawn && number <= WS_RECORDS; number++)
		sw.journal[number % WS_RECORDS] = (struct ws_record){ 0 };
	*sw.store = (struct ws_store){ .seed = 7, .bucket_mask = BUCKETS - 1, .handle = 9 };
	/* Alone, head, tail and middle. */
	static const ws_u64 places[GROUPS] = { 11ull << 32, 11ull << 32 | 3, 11ull << 32 | 2 << 16, 11ull << 32 | 2 << 16 | 3 };
	for (ws_u16 group = 0; group < GROUPS; group++)
		sw.groups[group] = (struct ws_group){
			.place = places[group], .sequence = 50, .namespace = 1, .watched = group < 3
		};
	for (ws_u16 number = 1; number < ITEMS; number++) {
		put_key(number, number % GROUPS, number);
		sw.items[number].versions[0] = ws_version_of(11, 40, 5, WS_VALUE_FLAG_PRESENT);
	}
}

/* What a daemon, another switch or a slow writer may have done to chains. */
static void disturb_chains(void)
{
	ws_u8 what = byte(), bits = byte();
	struct ws_item *item = &sw.items[1 + bits % (ITEMS - 1)];
	struct ws_group *group = &sw.groups[bits % GROUPS];
	struct ws_lane *lane = &sw.lanes[(1 + bits % 4) * WS_MAX_LANES + bits % 3];

	switch (what % 6) {
	case 0:
		group->place = (bits & 0x80 ? 0 : 10 + (bits >> 6)) * (1ull << 32) | (byte() % 5) << 16 | byte() % 5;
		break;
	case 1:
		group->namespace = byte() % 3;
		break;
	case 2:
		put_key((ws_u32)(item - sw.items), byte() % GROUPS, byte() % 8);
		break;
	case 3: {
		ws_u32 which = (ws_u32)ws_item_lock_which(item->lock);
		item->versions[which] = ws_version_of(9 + byte() % 3, byte(), byte() % (WS_MAX_VALUE_BYTES + 1), byte() & 1);
		item->values[which][0] = number(8);
		break;
	}
	case 4:
		item->lock = ws_item_lock_with_owner(item->lock, bits & 0x80 ? 5 : 0);
		lane->lock = ws_item_lock_with_owner(lane->lock, bits & 0x40 ? 5 : 0);
		item->name = bits & 0x20 ? 0 : item->name;
		break;
	default:
		lane->request = bits & 0x80 ? number(8) : byte() % 8;
		lane->outcome = byte() & 1;
	}
	make_possible();
}

/* A packet about a key of the store, as a rule, with what its lane and its version make plausible. */
static ws_u32 write_chain(ws_u8 *packet)
{
	static const ws_u8 kinds[] = { WS_CHAIN_READ, WS_CHAIN_WRITE, WS_CHAIN_WRITE, WS_CHAIN_DELETE, WS_CHAIN_APPLY,
				       WS_CHAIN_APPLY, WS_CHAIN_INSERT, WS_CHAIN_INSTALL, WS_CHAIN_MAP };
	ws_u8 first = byte(), bits = byte(), count = byte(), lane = byte() % 64 ? bits % 3 : byte();
	ws_u8 kind = first & 0x80 ? first & 31 : kinds[first % sizeof kinds];
	const struct ws_item *item = &sw.items[1 + bits % (ITEMS - 1)];
	ws_u16 group = bits & 0x80 ? byte() : (ws_u16)((item->name & WS_ITEM_GROUP) - 1) % GROUPS;
	ws_u64 place = sw.groups[group].place;
	int by_switch = kind == WS_CHAIN_APPLY || kind == WS_CHAIN_INSTALL;
	ws_u16 source = by_switch && !(bits & 0x40) ? (ws_u16)ws_group_place_previous(place) : handle();
	ws_u16 client = by_switch ? handle() : source;
	struct ws_version version = item->versions[ws_item_lock_which(item->lock)];
	count = count & 0x80 ? count % (WS_MAX_BLOCKS + 1) : count % 5;
	ws_u32 length = WS_HEADER_BYTES + WS_OPERATION_BYTES + count * WS_BLOCK_BYTES;
	ws_u64 request = client < NODES && lane < WS_MAX_LANES ? sw.lanes[client * WS_MAX_LANES + lane].request : 0;

	memset(packet, 0, length);
	ws_header_set_magic(packet, WS_MAGIC);
	ws_header_set_version(packet, WS_VERSION);
	ws_header_set_service(packet, WS_SERVICE_CHAIN);
	ws_header_set_kind(packet, kind);
	ws_header_set_count(packet, count);
	ws_header_set_source(packet, source);
	ws_header_set_namespace(packet, first & 0x20 ? byte() % 4 : (ws_u16)sw.groups[group].namespace);
	ws_header_set_epoch(packet, (ws_u32)ws_group_place_epoch(place) + (first & 0x40 ? byte() % 3 - 1u : 0));
	ws_u8 *op = packet + WS_HEADER_BYTES;
	ws_u8 about = byte(), step = byte();
	ws_operation_set_key_high(op, item->key_high);
	ws_operation_set_key_low(op, item->key_low + (about == 0xff));
	ws_operation_set_request(op, step >= 0xf8 ? number(8) : request + step % 4 - (step >= 0xf0));
	ws_operation_set_group(op, group);
	ws_operation_set_client(op, client + (about == 0xfe));
	ws_operation_set_reply_port(op, 20001);
	ws_operation_set_length(op, about & 0x40 ? (ws_u16)number(2) : count ? (ws_u16)(count * WS_BLOCK_BYTES - step % 32) : 0);
	ws_operation_set_lane(op, lane);
	ws_operation_set_flags(op, WS_VALUE_FLAG_PRESENT | (step & 0x20 ? WS_VALUE_FLAG_LEASED : 0));
	if (by_switch) {
		ws_effect_set_sequence(op, version.sequence + byte() % 4 - 1);
		ws_effect_set_epoch(op, (ws_u32)ws_version_epoch(version));
		ws_effect_set_own_sequence(op, byte());
		ws_effect_set_own_epoch(op, (ws_u32)ws_version_epoch(version));
		ws_effect_set_outcome(op, byte() & 1);
	} else {
		ws_u8 condition = byte();
		ws_operation_set_condition(op, condition % 5);
		ws_operation_set_expected_epoch(op, (ws_u32)ws_version_epoch(version));
		ws_operation_set_expected(op, condition % 5 == WS_CONDITION_WORD
						      ? item->values[ws_item_lock_which(item->lock)][0]
						      : version.sequence + (condition >> 7));
		ws_operation_set_check(op, (item->name >> 17) + (about == 0xfd));
	}
	for (ws_u32 block = 0; block < count; block++)
		packet[WS_HEADER_BYTES + WS_OPERATION_BYTES + block * WS_BLOCK_BYTES] = step;
	return length;
}

/* Queues of one cell and of more, with lock servers and without; the names' buckets as the daemon fills them. */
static void begin_queues(void)
{
	static const struct ws_queue queues[QUEUES] = {
		[1] = { .name = 10, .namespace = 1, .left = 0, .size = 1 },
		[2] = { .name = 11, .namespace = 1, .left = 1, .size = 3 },
		[3] = { .name = 12, .namespace = 2, .left = 4, .size = 4 },
	};

	memset(sw.names, 0, BUCKETS * sizeof *sw.names);
	memset(sw.cells, 0, CELLS * sizeof *sw.cells);
	memset(sw.servers, 0, REGIONS * sizeof *sw.servers);
	*sw.directory = (struct ws_directory){ .seed = 7, .bucket_mask = BUCKETS - 1 };
	sw.servers[1] = (struct ws_servers){ .count = 2, .of = { 2, 3 } };
	sw.servers[3] = (struct ws_servers){ .count = 1, .of = { 7 } };
	for (ws_u32 number = 0; number < QUEUES; number++) {
		struct ws_queue *queue = &sw.queues[number];
		*queue = queues[number];
		queue->epoch = 7;
		/* Ticket 0 is nobody's. */
		queue->head = queue->granted = queue->tail = 1;
		ws_u64 hash = ws_key_hash(sw.directory->seed, queue->name, 0, (ws_u16)queue->namespace);
		if (queue->namespace)
			sw.names[ws_first_bucket(hash) % BUCKETS].places[number] = hash >> 32 << 32 | number;
	}
}

/* What a daemon, a lock server that was silent or a slow writer may have done to queues. */
static void disturb_queues(void)
{
	ws_u8 what = byte(), bits = byte();
	struct ws_queue *queue = &sw.queues[1 + bits % (QUEUES - 1)];

	switch (what % 5) {
	case 0:
		queue->stage = bits >> 6;
		break;
	case 1:
		queue->epoch = 6 + (bits >> 6);
		break;
	case 2:
		queue->given += bits >> 5;
		break;
	case 3:
		queue->lock = ws_item_lock_with_owner(queue->lock, bits & 0x80 ? 5 : 0);
		break;
	default:
		sw.servers[queue->namespace].count = bits >> 6;
		sw.servers[queue->namespace].of[byte() & 1] = handle();
	}
}

static void begin(void)
{
	static const struct ws_region regions[REGIONS] = {
		[1] = { .base = 0, .count = 8, .policy = WS_POLICY_FAIR },
		[2] = { .base = 8, .count = 4, .policy = WS_POLICY_READ_PREFERRING },
		[3] = { .base = 12, .count = 100, .policy = WS_POLICY_FAIR }, /* the memory ends before it does */
	};

	/* Of every four one that nobody holds, two that somebody does, and one that is frozen. */
	for (ws_u64 slot = 0; slot < SLOTS; slot++) {
		ws_u64 held = slot % 4 == WS_SLOT_STATE_OPEN || slot % 4 == WS_SLOT_STATE_MANAGED;
		sw.slots[slot].w0 = ws_slot_word(slot % 4, slot / 4 & held, held, held ? 1 + slot / 4 : 0, 0, 9);
		sw.slots[slot].w1 = ws_hint_word(9, ws_name_hash(slot % 4));
	}
	memcpy(sw.regions, regions, sizeof regions);
	memset(sw.nodes, 0, NODES * sizeof *sw.nodes);
	memset(sw.keys, 0, NODES * sizeof *sw.keys);
	memset(sw.counters, 0, ws_counter_count() * sizeof *sw.counters);
	*sw.globals = (struct ws_globals){ .epoch = 7, .serving = 1, .shard_map = 3, .trace_one_in = 1 };
	sw.now_us = 1000000;
	for (ws_u64 node = 1; node < 9; node++)
		sw.nodes[node] = (struct ws_node){
			.word = (ws_u64)(node == 4 ? WS_NODE_STATE_EXPIRED : WS_NODE_STATE_LIVE) << 56 | 5,
			.oldest = (100 + node) << 40 | 10,
			.incarnation = 100 + node,
			.address = 0x0a000000 + (ws_u32)node,
			.agent_port = (ws_u16)(10000 + node),
			.namespace = node < 5 ? 1 : node < 7 ? 2 : 3,
		};
	begin_chains();
	begin_queues();
	for (ws_u32 node = 1; node < NODES; node++) {
		sw.keys[node].written[0] = sw.keys[node].written[1] = 2;
		for (ws_u32 slot = 0; slot < 2; slot++) {
			sw.keys[node].of[slot].up.halves[0] = node << 8 | slot;
			sw.keys[node].of[slot].down.halves[0] = node << 8 | slot | 2;
		}
	}
}

/* What the controller alone may do, and time. */
static void disturb(void)
{
	switch (byte() % 6) {
	case 0: {
		struct ws_slot *slot = &sw.slots[byte() % SLOTS];
		ws_u8 bits = byte();
		ws_u64 state = bits & 3;
		int held = state == WS_SLOT_STATE_OPEN || state == WS_SLOT_STATE_MANAGED;
		/* Whoever holds a slot has an agent; a frozen one, or one that nobody holds, may keep leavings. */
		ws_u64 agent = held ? 1 + byte() % (NODES - 1) : bits & 16 ? byte() % NODES : 0;
		ws_u64 joins = bits & 32 ? WS_MAX_JOINS - (bits >> 6) : bits >> 6;
		slot->w0 = ws_slot_word(state, bits >> 2 & 1, bits >> 3 & 1, agent, held ? joins : 0, counter());
		slot->w1 = ws_hint_word(slot->w0 & 0xfffff, ws_name_hash(byte() & 3));
		break;
	}
	case 1: {
		struct ws_node *node = &sw.nodes[1 + byte() % (NODES - 1)];
		ws_u8 bits = byte();
		node->word = (ws_u64)(bits % 3) << 56 | (bits & 128 ? (1ull << 56) - 2 : bits >> 5);
		node->incarnation = bits & 64 ? number(3) : node->incarnation + (bits >> 4 & 1);
		node->oldest = node->incarnation << 40 | (byte() & 15);
		node->namespace = byte() % 5;
		break;
	}
	case 2: {
		struct ws_region *region = &sw.regions[byte() % REGIONS];
		region->base = counter();
		region->count = counter();
		ws_u8 bits = byte();
		region->policy = bits % 4;
		/* No budget, one with room, or one that is spent for ever. */
		region->burst = bits >> 7;
		region->by_clock = (struct ws_meter){ bits & 0x40 ? ~0ull / 2 : 0, 1 };
		break;
	}
	case 3: {
		struct ws_keys *keys = &sw.keys[1 + byte() % (NODES - 1)];
		keys->written[byte() & 1] = byte() % 4;
		keys->rotation = byte() % 4;
		break;
	}
	case 4: {
		static const ws_u64 ends[] = { 0, 1, 1000000, 1000001, ~0ull };
		sw.globals->epoch = byte() & 1 ? 7 : counter();
		sw.globals->serving = byte() & 1;
		sw.globals->lease.end_us = ends[byte() % 5];
		sw.store->lease.end_us = ends[byte() % 5];
		break;
	}
	default:
		sw.globals->authenticated = byte() & 1;
	}
}

/* A request's id: one that its holder's session may have, around both ends, or any. */
static ws_u64 request(ws_u16 holder)
{
	ws_u64 oldest = sw.nodes[holder].oldest;
	ws_u8 x = byte();

	return x == 0xff ? number(8) : x == 0xfe ? oldest + (1ull << 40) : oldest + x % 8 - (x >= 0xf0);
}

/* An entry about some slot, as a rule with its tenure, and in a RETENURE with its joins. */
static void write_entry(ws_u8 *entry, ws_u16 namespace, ws_u16 holder)
{
	ws_u8 index = byte();
	ws_u32 place = sw.regions[namespace].base + index % 12u;
	ws_u64 w0 = place < SLOTS ? sw.slots[place].w0 : 0;
	ws_u8 tenure = byte(), bits = byte(), flags = byte();

	ws_entry_set_name(entry, byte() & 3);
	ws_entry_set_request(entry, request(holder));
	ws_entry_set_slot(entry, index == 0xff ? counter() : index % 12u);
	ws_entry_set_tenure(entry, tenure == 0xff ? counter() : (ws_u32)w0 - tenure % 4);
	ws_entry_set_holder(entry, holder);
	ws_entry_set_reply_port(entry, (ws_u16)(20000 + (flags >> 5)));
	ws_entry_set_slot_bits(entry, (ws_u16)(bits << 12 | (bits & 0x80 ? bits : ws_slot_w0_joins(w0))));
	ws_entry_set_flags(entry, flags & 0x1f);
	ws_entry_set_sequence(entry, 0);
}

/* A packet that is right in its form, and in the rest as the input says. */
static ws_u32 write_packet(ws_u8 *packet)
{
	ws_u8 first = byte();
	ws_u8 service = first & 0x80 ? WS_SERVICE_FABRIC : WS_SERVICE_LOCK;
	/* RETENURE has most ways to go. */
	ws_u8 kind = (first & 31) < 24 ? first & 31 : WS_LOCK_RETENURE, many = byte();
	ws_u16 source = handle(), holder = many & 0x40 ? handle() : source;
	ws_u16 namespace = many & 0x80 ? byte() % 5 : sw.nodes[source].namespace;
	ws_u8 count = service == WS_SERVICE_FABRIC ? 0 : many & 0x20 ? many % 32 + 1 : 1;
	ws_u32 length = ws_packet_bytes(service, kind, count);

	if (!length)
		length = WS_HEADER_BYTES + WS_ENTRY_BYTES;
	memset(packet, 0, length);
	ws_header_set_magic(packet, WS_MAGIC);
	ws_header_set_version(packet, WS_VERSION);
	ws_header_set_service(packet, service);
	ws_header_set_kind(packet, kind);
	ws_header_set_count(packet, count);
	ws_header_set_source(packet, source);
	ws_header_set_namespace(packet, namespace);
	ws_header_set_epoch(packet, first & 0x40 ? counter() : sw.globals->epoch);
	if (first & 0x20) {
		ws_header_set_flags(packet, byte());
		ws_header_set_position(packet, byte() % 16);
		ws_header_set_destination(packet, handle());
	}
	for (ws_u32 i = 0; i < count; i++)
		write_entry(packet + WS_HEADER_BYTES + i * WS_ENTRY_BYTES, namespace, holder);
	if (kind == WS_LOCK_FREE && many & 1)
		ws_header_set_flags(packet, ws_header_flags(packet) | WS_HEADER_FLAG_QUIET);
	/* Only a slot's agent gets far with a change of it. */
	if (count && (kind == WS_LOCK_RETENURE || kind == WS_LOCK_FREE) && !(many & 0x10)) {
		ws_u32 place = sw.regions[namespace].base + ws_entry_slot(packet + WS_HEADER_BYTES);
		ws_u16 agent = place < SLOTS ? (ws_u16)ws_slot_w0_agent(sw.slots[place].w0) : 0;
		if (agent)
			ws_header_set_source(packet, agent);
		for (ws_u32 i = 0; agent && kind == WS_LOCK_FREE && i < count; i++)
			ws_entry_set_holder(packet + WS_HEADER_BYTES + i * WS_ENTRY_BYTES, agent);
	}
	if (!count && length == WS_HEADER_BYTES + WS_HEARTBEAT_BYTES) {
		ws_u8 *body = packet + WS_HEADER_BYTES;
		ws_u8 beat = byte();
		ws_heartbeat_set_sequence(body, ws_node_word_sequence(sw.nodes[source].word) + beat % 4 - (beat >= 0xf0));
		ws_heartbeat_set_oldest(body, request(source));
		ws_heartbeat_set_incarnation(body, sw.nodes[source].incarnation + (beat == 0xff));
	}
	return length;
}

/* The lock server of a name; 0: there is none. */
static ws_u16 server_of(ws_u16 namespace, ws_u64 name)
{
	const struct ws_servers *servers = &sw.servers[namespace % REGIONS];

	return servers->count ? servers->of[ws_name_hash(name) % servers->count] : 0;
}

/* A packet about a queue, as a rule, and about a request that is in it. */
static ws_u32 write_queue(ws_u8 *packet)
{
	static const ws_u8 kinds[] = { WS_QUEUE_ACQUIRE, WS_QUEUE_ACQUIRE, WS_QUEUE_ACQUIRE, WS_QUEUE_RELEASE,
				       WS_QUEUE_RELEASE, WS_QUEUE_CANCEL, WS_QUEUE_NEXT, WS_QUEUE_PUSH,
				       WS_QUEUE_PUSH, WS_QUEUE_SETTLE, WS_QUEUE_GRANT, WS_QUEUE_RELEASED,
				       WS_QUEUE_FETCH, WS_QUEUE_FETCH, WS_QUEUE_FETCHED };
	ws_u32 length = WS_HEADER_BYTES + WS_ATTEMPT_BYTES;
	ws_u8 first = byte(), bits = byte(), about = byte(), step = byte();
	ws_u8 kind = first & 0x80 ? first & 15 : kinds[first % sizeof kinds];
	const struct ws_queue *queue = &sw.queues[1 + bits % (QUEUES - 1)];
	ws_u64 name = bits & 0x80 ? 20 + (step & 3) : queue->name;
	ws_u16 namespace = first & 0x20 ? byte() % 5 : (ws_u16)queue->namespace;
	int asks = kind == WS_QUEUE_ACQUIRE || kind == WS_QUEUE_RELEASE || kind == WS_QUEUE_CANCEL ||
		   kind == WS_QUEUE_NEXT || kind == WS_QUEUE_FETCH;
	ws_u64 ticket = queue->head + step % 5;
	const struct ws_cell *cell = &sw.cells[queue->left + ticket % queue->size];
	int known = (about & 1) && queue->head <= ticket && ticket < queue->tail;
	ws_u16 holder = known ? (ws_u16)ws_cell_who_holder(cell->who) : handle();
	ws_u16 source = asks ? holder + (about == 0xfe) : bits & 0x40 ? handle() : server_of(namespace, name);

	memset(packet, 0, length);
	ws_header_set_magic(packet, WS_MAGIC);
	ws_header_set_version(packet, WS_VERSION);
	ws_header_set_service(packet, WS_SERVICE_QUEUE);
	ws_header_set_kind(packet, kind);
	ws_header_set_source(packet, source);
	ws_header_set_destination(packet, asks ? 0 : holder);
	ws_header_set_namespace(packet, namespace);
	ws_header_set_epoch(packet, first & 0x40 ? counter() : sw.globals->epoch);
	ws_u8 *attempt = packet + WS_HEADER_BYTES;
	ws_attempt_set_name(attempt, name);
	ws_attempt_set_request(attempt, known ? cell->request : request(holder));
	ws_attempt_set_ticket(attempt, about & 2 ? ticket : 0);
	ws_attempt_set_number(attempt, queue->pushed + 1 - (kind == WS_QUEUE_SETTLE) + (step >= 0xf0));
	ws_attempt_set_order(attempt, queue->given - (step >> 5) % 3 + (step >= 0xf8));
	ws_attempt_set_holder(attempt, holder);
	ws_attempt_set_reply_port(attempt, 20001);
	ws_attempt_set_flags(attempt, about >> 2 & 3);
	ws_attempt_set_cause(attempt, kind);
	if (kind == WS_QUEUE_FETCH || kind == WS_QUEUE_FETCHED) {
		ws_u8 blocks = step % 4;
		ws_u16 third = handle();
		memset(packet + length, 0xdd, blocks * WS_BLOCK_BYTES);
		length += blocks * WS_BLOCK_BYTES;
		ws_header_set_count(packet, blocks);
		ws_fetch_set_length(attempt, (ws_u16)(blocks * WS_BLOCK_BYTES - (blocks ? about % 33 : 0)));
		ws_fetch_set_incarnation(attempt, sw.nodes[third].incarnation);
		if (asks)
			ws_header_set_destination(packet, third);
	}
	return length;
}

/* As its source, mostly. */
static void sign(ws_u8 *packet, ws_u32 length)
{
	ws_u8 how = byte();
	ws_u16 source = ws_header_source(packet) + (how == 0xff);
	ws_u32 slot = how & 1;

	if (how == 0xfe || length < WS_HEADER_BYTES + WS_ENTRY_BYTES || length % WS_ENTRY_BYTES)
		return;
	ws_header_set_flags(packet, (ws_header_flags(packet) & (ws_u16)~WS_HEADER_FLAG_KEY) |
					    (slot ? WS_HEADER_FLAG_KEY : 0));
	ws_header_set_tag(packet, ws_tag_of(&sw.keys[source].of[slot].up, packet, packet + WS_HEADER_BYTES,
					    packet + length, length));
}

static void check_slot(ws_u64 before, ws_u64 after)
{
	ws_u64 was = ws_slot_w0_state(before), is = ws_slot_w0_state(after);
	int same_agent = ws_slot_w0_agent(before) == ws_slot_w0_agent(after) &&
			 ws_slot_w0_transferred(before) == ws_slot_w0_transferred(after);

	if (before == after)
		return;
	MUST(was != WS_SLOT_STATE_FROZEN && is != WS_SLOT_STATE_FROZEN);
	MUST((ws_slot_w0_agent(after) == 0) == (is == WS_SLOT_STATE_UNHELD));
	if ((ws_u32)before == (ws_u32)after) {
		ws_u64 joins = ws_slot_w0_joins(before);
		int seized = was == WS_SLOT_STATE_UNHELD && !ws_slot_w0_joins(after);
		int open = was == WS_SLOT_STATE_OPEN && same_agent;
		int joined = open && is == WS_SLOT_STATE_OPEN && ws_slot_w0_joins(after) == joins + 1;
		int closed = open && is == WS_SLOT_STATE_MANAGED && ws_slot_w0_joins(after) == joins;
		MUST(seized || joined || closed);
		MUST(seized || ws_slot_w0_tryable(before) || !ws_slot_w0_tryable(after));
		return;
	}
	MUST((ws_u32)before != WS_MAX_TENURE && (ws_u32)after == (ws_u32)before + 1);
	MUST(was != WS_SLOT_STATE_UNHELD);
	int claimed = is == WS_SLOT_STATE_MANAGED && ws_slot_w0_transferred(after) &&
		      ws_slot_w0_agent(before) == ws_slot_w0_agent(after) &&
		      ws_slot_w0_joins(before) == ws_slot_w0_joins(after);
	MUST(!ws_slot_w0_joins(after) || claimed);
}

static void check_node(const struct ws_node *before, const struct ws_node *after)
{
	struct ws_node same = *after;

	if (before->word != after->word) {
		MUST(ws_is_live(before->word) && ws_is_live(after->word));
		MUST(ws_node_word_sequence(after->word) > ws_node_word_sequence(before->word));
	}
	MUST(after->oldest - before->oldest < 1ull << 40);
	same.word = before->word;
	same.oldest = before->oldest;
	MUST(!memcmp(&same, before, sizeof same));
}

static void check_item(const struct ws_item *before, const struct ws_item *after)
{
	ws_u64 was = ws_item_lock_which(before->lock);

	/* One change, and the lock given back; what was stays in the other version. */
	MUST(after->lock == ((before->lock + 2) ^ 1) && !ws_item_lock_owner(before->lock));
	MUST(!memcmp(&before->versions[was], &after->versions[was], sizeof before->versions[was]));
	MUST(!memcmp(before->values[was], after->values[was], sizeof before->values[was]));
	MUST(ws_is_newer(after->versions[!was], before->versions[was]));
	MUST(after->key_high == before->key_high && after->key_low == before->key_low && after->name == before->name);
}

/* A packet changes one item and one lane at most; heads count, and nobody else. */
static void check_chains(const struct state *before, const struct state *after, int writes, int applies)
{
	int items = 0, lanes = 0, counted = 0, watched = 0;

	MUST(!memcmp(before->buckets, after->buckets, sizeof before->buckets));
	struct ws_store store = after->store;
	store.drawn = before->store.drawn;
	MUST(!memcmp(&before->store, &store, sizeof store));
	for (int item = 0; item < ITEMS; item++)
		if (memcmp(&before->items[item], &after->items[item], sizeof *before->items)) {
			check_item(&before->items[item], &after->items[item]);
			items++;
			watched = before->groups[(before->items[item].name - 1) % (1 << 17)].watched;
		}
	/* Hardly any packet changes one, and the sanitizers look at every comparison. */
	int same_lanes = !memcmp(before->lanes, after->lanes, sizeof before->lanes);
	for (int lane = 0; lane < LANES && !same_lanes; lane++) {
		const struct ws_lane *was = &before->lanes[lane], *is = &after->lanes[lane];
		if (!memcmp(was, is, sizeof *was))
			continue;
		MUST(was->lock == is->lock && !ws_item_lock_owner(was->lock));
		MUST(is->request && (!was->request || is->request - was->request - 1 < 1ull << 63));
		lanes++;
	}
	for (int group = 0; group < GROUPS; group++) {
		const struct ws_group *was = &before->groups[group], *is = &after->groups[group];
		MUST(was->place == is->place && was->namespace == is->namespace);
		counted += is->sequence != was->sequence;
		MUST(is->sequence == was->sequence || (is->sequence == was->sequence + 1 && ws_is_head(was->place)));
	}
	MUST(items <= 1 && lanes <= 1 && counted <= (writes ? items : 0));
	MUST(!items || (writes && counted && lanes) || applies);
	MUST(!lanes || writes || applies);
	/* Of a version taken in a group that is watched, and of nothing else, there is a record. */
	MUST(after->store.drawn == before->store.drawn + (items && watched));
}

/* What docs/queue.md promises of a queue after every packet: Q1, Q2, Q3. */
static void check_queue(const struct state *state, const struct ws_queue *queue)
{
	ws_u64 holders = 0, exclusive = 0;

	MUST(queue->head <= queue->granted && queue->granted <= queue->tail && queue->tail <= queue->head + queue->size);
	for (ws_u64 ticket = queue->head; ticket < queue->granted; ticket++) {
		ws_u64 who = state->cells[queue->left + ticket % queue->size].who;
		if (ws_cell_who_over(who))
			continue;
		holders++;
		exclusive += ws_cell_who_exclusive(who);
	}
	MUST(!exclusive || (exclusive == 1 && holders == 1));
	MUST(ws_queue_holding_holders(queue->holding) == holders);
	MUST(!holders || ws_queue_holding_exclusive(queue->holding) == exclusive);
}

/* A packet changes one queue at most, of which nothing falls; it grants one request at most, and gives one cell. */
static void check_queues(const struct state *before, const struct state *after, int of_queues)
{
	int changed = 0;

	for (int number = 0; number < QUEUES; number++) {
		const struct ws_queue *was = &before->queues[number], *is = &after->queues[number];
		struct ws_queue same = *is;
		if (!is->namespace)
			continue;
		check_queue(after, is);
		MUST(is->head >= was->head && is->granted >= was->granted && is->tail - was->tail <= 1);
		MUST(is->given - was->given <= 1 && is->settled >= was->settled && is->pushed - was->pushed <= 1);
		MUST(is->settled <= is->given && is->ranked - was->ranked <= is->given - was->given);
		for (ws_u32 cell = is->left; cell < is->left + is->size; cell++)
			if (memcmp(&before->cells[cell], &after->cells[cell], sizeof *after->cells)) {
				MUST(of_queues && !ws_item_lock_owner(was->lock));
				/* Of one that is in use only the port changes, or that it is over. */
				MUST(is->tail != was->tail || before->cells[cell].request == after->cells[cell].request);
			}
		changed += memcmp(was, is, sizeof *was) != 0;
		MUST(!memcmp(was, is, sizeof *was) || !ws_item_lock_owner(was->lock));
		same.head = was->head, same.granted = was->granted, same.tail = was->tail, same.holding = was->holding;
		same.given = was->given, same.settled = was->settled, same.pushed = was->pushed;
		same.ranked = was->ranked;
		MUST(!memcmp(&same, was, sizeof same));
	}
	MUST(changed <= of_queues);
}

/* What is charged for and what is refused is counted; makes regions that differ in that alone the same. */
static void check_regions(const struct ws_verdict *verdict, const struct ws_region *before, struct ws_region *after)
{
	for (int region = 0; region < REGIONS; region++, before++, after++) {
		ws_u64 refused = after->over_budget - before->over_budget;
		/* NO_KEY: it was to be told. */
		MUST(refused == 0 || (refused == 1 && (verdict->reason == WS_DROP_REASON_OVER_BUDGET ||
						       verdict->reason == WS_DROP_REASON_NO_KEY)));
		MUST(after->by_clock.due >= before->by_clock.due);
		MUST(before->burst || after->by_clock.due == before->by_clock.due);
		MUST(after->told_by_clock == before->told_by_clock || refused);
		after->told_by_clock = before->told_by_clock;
		after->over_budget = before->over_budget;
		after->by_clock.due = before->by_clock.due;
	}
}

static void check_changes(const struct ws_verdict *verdict, const struct state *before, const struct state *after,
			  const ws_u8 *packet, ws_u32 length)
{
	int chain = length > WS_HEADER_KIND_AT && ws_header_service(packet) == WS_SERVICE_CHAIN;
	int queue = length > WS_HEADER_KIND_AT && ws_header_service(packet) == WS_SERVICE_QUEUE;
	int kind = chain ? ws_header_kind(packet) : 0;
	int writes = kind == WS_CHAIN_WRITE || kind == WS_CHAIN_DELETE, applies = kind == WS_CHAIN_APPLY;

	/* NO_KEY is the answer's, which comes after the change; so is, of what goes on along a chain, that its receiver is
	 * not there. NOT_GRANTED takes a race, and there is none here; LOST_RACE a lock that somebody has. */
	MUST(verdict->reason != WS_DROP_REASON_NOT_GRANTED);
	MUST(chain || queue || verdict->reason != WS_DROP_REASON_LOST_RACE);
	int lost = (writes || applies) && verdict->reason == WS_DROP_REASON_DESTINATION_NOT_LIVE;
	static struct state same;
	same = *after;
	check_regions(verdict, before->regions, same.regions);
	if (!lost && verdict->reason != WS_DROP_REASON_NO_KEY && verdict->reason)
		MUST(!memcmp(before, &same, sizeof *before));
	check_chains(before, after, writes, applies);
	check_queues(before, after, queue);
	for (int slot = 0; slot < SLOTS; slot++)
		check_slot(before->slots[slot].w0, after->slots[slot].w0);
	for (int node = 0; node < NODES; node++) {
		struct ws_keys keys = after->keys[node];
		check_node(&before->nodes[node], &after->nodes[node]);
		keys.heard = before->keys[node].heard;
		MUST(!memcmp(&keys, &before->keys[node], sizeof keys));
	}
	MUST(!memcmp(before->regions, same.regions, sizeof before->regions));
	MUST(!memcmp(&before->globals, &after->globals, sizeof before->globals));
}

/* One verdict or, dropped, one reason; an answer that says why counts both. */
static void check_counts(const struct ws_verdict *verdict, ws_u8 kind, ws_u8 service)
{
	ws_u64 counted = 0, expected = 1 + (verdict->action != WS_DROP && verdict->reason);
	ws_u32 names = ws_counter_count();
	ws_u32 row = service == WS_SERVICE_CHAIN ? 32 : service == WS_SERVICE_QUEUE ? 64 : 0;

	for (ws_u32 name = 0; name < names; name++) {
		seen[name] += sw.counters[name];
		outcomes[kind % 32 + row][name] |= sw.counters[name] != 0;
		if (name < WS_DROP_REASON_COUNT || name == WS_COUNTER_to_sender || name == WS_COUNTER_to_node ||
		    name == WS_COUNTER_to_controller || name == WS_COUNTER_to_nobody)
			counted += sw.counters[name];
	}
	if (verdict->reason == WS_DROP_REASON_NO_KEY)
		MUST(counted == 2 || counted == 3);
	else
		MUST(counted == expected);
}

static void decide(const ws_u8 *bytes, ws_u32 length, ws_u16 port)
{
	static struct state before, after;
	ws_u8 *packet = malloc(length ? length : 1);

	memcpy(packet, bytes, length);
	save(&before);
	memset(sw.counters, 0, ws_counter_count() * sizeof *sw.counters);
	struct ws_verdict verdict = ws_process(&sw, packet, length, port);
	save(&after);
	MUST(verdict.action <= WS_TO_CONTROLLER && verdict.reason < WS_DROP_REASON_COUNT && !verdict.reserved);
	int quiet = length >= WS_HEADER_BYTES && ws_header_service(bytes) == WS_SERVICE_LOCK &&
		    ws_header_kind(bytes) == WS_LOCK_FREE && ws_header_flags(bytes) & WS_HEADER_FLAG_QUIET;
	MUST(verdict.length <= length);
	MUST(verdict.action != WS_DROP || ((verdict.reason || quiet) && !verdict.copy));
	MUST(verdict.action == WS_DROP || verdict.length);
	MUST(verdict.action != WS_TO_NODE || verdict.handle != WS_CONTROLLER_HANDLE);
	check_changes(&verdict, &before, &after, bytes, length);
	int whole = length > WS_HEADER_KIND_AT;
	check_counts(&verdict, whole ? bytes[WS_HEADER_KIND_AT] : 0, whole ? bytes[WS_HEADER_SERVICE_AT] : 0);
	/* What leaves is a packet again; one of another version is the controller's to answer. */
	if (verdict.action != WS_DROP && verdict.reason != WS_DROP_REASON_FOREIGN_VERSION)
		MUST(!ws_check_structure(packet, packet + verdict.length, verdict.length));
	if (verdict.copy && ws_process_copy(&sw, packet, verdict.length)) {
		ws_u8 kind = ws_header_kind(packet);
		int answers = kind == WS_QUEUE_RELEASED || kind == WS_QUEUE_PUSHED || kind == WS_QUEUE_ROOM;
		MUST(ws_header_service(packet) == WS_SERVICE_QUEUE ? answers : kind == WS_LOCK_JOIN);
		MUST(ws_header_destination(packet) == verdict.copy);
	}
	free(packet);
}

/* A packet: right in its form or any bytes, then perhaps spoiled. */
static void receive(int raw, ws_u32 (*write)(ws_u8 *))
{
	static ws_u8 packet[WS_MAX_PACKET_BYTES + 256];
	ws_u16 ports[] = { 20001, 0, 65535, 9000 };
	ws_u16 port = ports[byte() & 3];
	ws_u32 length;

	if (raw) {
		length = (ws_u32)number(2) % sizeof packet;
		for (ws_u32 i = 0; i < length; i++)
			packet[i] = byte();
	} else {
		length = write(packet);
	}
	if (sw.globals->authenticated)
		sign(packet, length);
	ws_u8 spoil = byte();
	if (spoil == 0xff)
		length = (ws_u32)number(2) % sizeof packet;
	else if (spoil >= 0xf0 && length)
		packet[number(2) % length] ^= byte();
	decide(packet, length, port);
}

/* Which counters never counted: what the corpus does not reach. */
static void tell_unseen(void)
{
	for (ws_u32 name = 1; name < ws_counter_count(); name++)
		if (!seen[name])
			fprintf(stderr, "unseen: %s\n", ws_counter_name(name));
}

int LLVMFuzzerTestOneInput(const ws_u8 *data, size_t size)
{
	if (!sw.slots) {
		sw = (struct ws_switch){
			.slots = calloc(SLOTS, sizeof(struct ws_slot)),
			.nodes = calloc(WS_NODES, sizeof(struct ws_node)),
			.regions = calloc(WS_REGIONS, sizeof(struct ws_region)),
			.keys = calloc(WS_NODES, sizeof(struct ws_keys)),
			.globals = calloc(1, sizeof(struct ws_globals)),
			.counters = calloc(1, sizeof(struct ws_counters)),
			.alone = 1, /* else nothing is followed */
			.slot_count = SLOTS,
			.groups = calloc(WS_GROUPS, sizeof(struct ws_group)),
			.buckets = calloc(BUCKETS, sizeof(struct ws_bucket)),
			.items = calloc(ITEMS, sizeof(struct ws_item)),
			.lanes = calloc(LANES, sizeof(struct ws_lane)),
			.journal = calloc(WS_RECORDS, sizeof(struct ws_record)),
			.store = calloc(1, sizeof(struct ws_store)),
			.bucket_count = BUCKETS,
			.item_count = ITEMS,
			.lane_count = LANES,
			.owner = 1,
			.queues = calloc(QUEUES, sizeof(struct ws_queue)),
			.cells = calloc(CELLS, sizeof(struct ws_cell)),
			.names = calloc(BUCKETS, sizeof(struct ws_bucket)),
			.queue_count = QUEUES,
			.cell_count = CELLS,
			.name_count = BUCKETS,
			.servers = calloc(WS_REGIONS, sizeof(struct ws_servers)),
			.directory = calloc(1, sizeof(struct ws_directory)),
			.traces = calloc(1, sizeof(struct ws_traces)),
		};
		if (getenv("FUZZ_UNSEEN"))
			atexit(tell_unseen);
	}
	at = data;
	end = data + size;
	begin();
	while (at < end) {
		ws_u8 command = byte();
		if (command < 0x40)
			disturb();
		else if (command < 0x4c)
			disturb_chains();
		else if (command < 0x50)
			disturb_queues();
		else
			receive(command >= 0xf0, command < 0xa0 ? write_packet : command < 0xc0 ? write_queue : write_chain);
	}
	return 0;
}
