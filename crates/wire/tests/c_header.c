/* SPDX-License-Identifier: Apache-2.0 */
/* wire.h reads and writes the golden vectors byte for byte, at an odd address. Compiled and run by c_header.rs, with
 * VECTORS today's or those of an earlier version. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../../wire/gen/wire.h"
#include VECTORS

static int failures;

static void expect(const struct ws_vector *vector, const char *what, unsigned long long got, unsigned long long wanted)
{
	if (got == wanted)
		return;
	failures++;
	printf("%s: %s is %#llx, not %#llx\n", vector->name, what, got, wanted);
}

/* Reads one field, and writes the wanted value to the copy. */
#define FIELD(structure, field, from, to, wanted) do { \
	expect(vector, #structure "." #field, ws_##structure##_##field(from), wanted); \
	ws_##structure##_set_##field(to, (__typeof__(ws_##structure##_##field(from)))(wanted)); \
} while (0)

static void header(const struct ws_vector *vector, const ws_u8 *packet, ws_u8 *copy)
{
	const unsigned long long *wanted = vector->header;

	FIELD(header, magic, packet, copy, wanted[0]);
	FIELD(header, version, packet, copy, wanted[1]);
	FIELD(header, service, packet, copy, wanted[2]);
	FIELD(header, kind, packet, copy, wanted[3]);
	FIELD(header, count, packet, copy, wanted[4]);
	FIELD(header, flags, packet, copy, wanted[5]);
	FIELD(header, source, packet, copy, wanted[6]);
	FIELD(header, destination, packet, copy, wanted[7]);
	FIELD(header, epoch, packet, copy, wanted[8]);
	FIELD(header, shard_map, packet, copy, wanted[9]);
	FIELD(header, namespace, packet, copy, wanted[10]);
	FIELD(header, position, packet, copy, wanted[11]);
	FIELD(header, tag, packet, copy, wanted[12]);
}

static void entry(const struct ws_vector *vector, const ws_u8 *from, ws_u8 *to, const unsigned long long *wanted)
{
	ws_u16 bits = ws_entry_slot_bits(from);
	ws_u16 rebuilt = 0;

	FIELD(entry, name, from, to, wanted[0]);
	FIELD(entry, request, from, to, wanted[1]);
	FIELD(entry, slot, from, to, wanted[2]);
	FIELD(entry, tenure, from, to, wanted[3]);
	FIELD(entry, holder, from, to, wanted[4]);
	FIELD(entry, reply_port, from, to, wanted[5]);
	FIELD(entry, slot_bits, from, to, wanted[6]);
	FIELD(entry, flags, from, to, wanted[7]);
	FIELD(entry, sequence, from, to, wanted[8]);

	expect(vector, "slot_bits.state", ws_slot_bits_state(bits), wanted[6] >> 14);
	expect(vector, "slot_bits.transferred", ws_slot_bits_transferred(bits), wanted[6] >> 13 & 1);
	expect(vector, "slot_bits.tryable", ws_slot_bits_tryable(bits), wanted[6] >> 12 & 1);
	expect(vector, "slot_bits.joins", ws_slot_bits_joins(bits), wanted[6] & 4095);
	rebuilt = ws_slot_bits_with_state(rebuilt, ws_slot_bits_state(bits));
	rebuilt = ws_slot_bits_with_transferred(rebuilt, ws_slot_bits_transferred(bits));
	rebuilt = ws_slot_bits_with_tryable(rebuilt, ws_slot_bits_tryable(bits));
	rebuilt = ws_slot_bits_with_joins(rebuilt, ws_slot_bits_joins(bits));
	expect(vector, "slot_bits rebuilt", rebuilt, bits);
}

/* Text is not in the table of numbers: copied as it is. */
static void enrol(const struct ws_vector *vector, const ws_u8 *from, ws_u8 *to, const unsigned long long *wanted)
{
	FIELD(enrol, nonce, from, to, wanted[0]);
	FIELD(enrol, pid, from, to, wanted[1]);
	FIELD(enrol, lease_us, from, to, wanted[2]);
	memcpy(to + WS_ENROL_NAMESPACE_NAME_AT, from + WS_ENROL_NAMESPACE_NAME_AT, WS_MAX_NAMESPACE_BYTES);
	memcpy(to + WS_ENROL_HOST_AT, from + WS_ENROL_HOST_AT, WS_MAX_HOST_BYTES);
}

static void enrolled(const struct ws_vector *vector, const ws_u8 *from, ws_u8 *to, const unsigned long long *wanted)
{
	/* Before 1.10 it was reserved, zero, and not among the numbers. */
	int has_patience = vector->numbers > 9;

	FIELD(enrolled, nonce, from, to, wanted[0]);
	FIELD(enrolled, incarnation, from, to, wanted[1]);
	FIELD(enrolled, lease_us, from, to, wanted[2]);
	FIELD(enrolled, grace_us, from, to, wanted[3]);
	FIELD(enrolled, slots, from, to, wanted[4]);
	FIELD(enrolled, policy, from, to, wanted[5]);
	FIELD(enrolled, reason, from, to, wanted[6]);
	FIELD(enrolled, version, from, to, wanted[7]);
	FIELD(enrolled, patience, from, to, has_patience ? wanted[8] : 0);
	FIELD(enrolled, lifeline, from, to, wanted[8 + has_patience]);
}

static void heartbeat(const struct ws_vector *vector, const ws_u8 *from, ws_u8 *to, const unsigned long long *wanted)
{
	FIELD(heartbeat, sequence, from, to, wanted[0]);
	FIELD(heartbeat, oldest, from, to, wanted[1]);
	FIELD(heartbeat, sent_us, from, to, wanted[2]);
	FIELD(heartbeat, incarnation, from, to, wanted[3]);
}

static void operation(const struct ws_vector *vector, const ws_u8 *from, ws_u8 *to, const unsigned long long *wanted)
{
	FIELD(operation, key_high, from, to, wanted[0]);
	FIELD(operation, key_low, from, to, wanted[1]);
	FIELD(operation, request, from, to, wanted[2]);
	FIELD(operation, expected, from, to, wanted[3]);
	FIELD(operation, expected_epoch, from, to, wanted[4]);
	FIELD(operation, group, from, to, wanted[5]);
	FIELD(operation, client, from, to, wanted[6]);
	FIELD(operation, reply_port, from, to, wanted[7]);
	FIELD(operation, length, from, to, wanted[8]);
	FIELD(operation, lane, from, to, wanted[9]);
	FIELD(operation, condition, from, to, wanted[10]);
	FIELD(operation, flags, from, to, wanted[11]);
	FIELD(operation, check, from, to, wanted[12]);
	FIELD(operation, first_epoch, from, to, wanted[13]);
}

static void attempt(const struct ws_vector *vector, const ws_u8 *from, ws_u8 *to, const unsigned long long *wanted)
{
	FIELD(attempt, name, from, to, wanted[0]);
	FIELD(attempt, request, from, to, wanted[1]);
	FIELD(attempt, ticket, from, to, wanted[2]);
	FIELD(attempt, over, from, to, wanted[3]);
	FIELD(attempt, number, from, to, wanted[4]);
	FIELD(attempt, order, from, to, wanted[5]);
	FIELD(attempt, holder, from, to, wanted[6]);
	FIELD(attempt, reply_port, from, to, wanted[7]);
	FIELD(attempt, room, from, to, wanted[8]);
	FIELD(attempt, flags, from, to, wanted[9]);
	FIELD(attempt, cause, from, to, wanted[10]);
	FIELD(attempt, sent_us, from, to, wanted[11]);
}

static void fetch(const struct ws_vector *vector, const ws_u8 *from, ws_u8 *to, const unsigned long long *wanted)
{
	FIELD(fetch, name, from, to, wanted[0]);
	FIELD(fetch, request, from, to, wanted[1]);
	FIELD(fetch, ticket, from, to, wanted[2]);
	FIELD(fetch, incarnation, from, to, wanted[3]);
	FIELD(fetch, holder, from, to, wanted[4]);
	FIELD(fetch, reply_port, from, to, wanted[5]);
	FIELD(fetch, length, from, to, wanted[6]);
	FIELD(fetch, flags, from, to, wanted[7]);
	FIELD(fetch, cause, from, to, wanted[8]);
	FIELD(fetch, sent_us, from, to, wanted[9]);
}

static void queue(const struct ws_vector *vector, const ws_u8 *from, ws_u8 *to)
{
	ws_u8 kind = ws_header_kind(from - WS_HEADER_BYTES);

	if (kind != WS_QUEUE_FETCH && kind != WS_QUEUE_FETCHED) {
		attempt(vector, from, to, vector->part[0]);
		return;
	}
	fetch(vector, from, to, vector->part[0]);
	memcpy(to + WS_FETCH_BYTES, from + WS_FETCH_BYTES, ws_header_count(from - WS_HEADER_BYTES) * WS_BLOCK_BYTES);
}

static void names(const struct ws_vector *vector, const ws_u8 *from, ws_u8 *to, const unsigned long long *wanted)
{
	FIELD(names, nonce, from, to, wanted[0]);
	FIELD(names, fingerprint, from, to, wanted[1]);
	FIELD(names, listed, from, to, wanted[2]);
}

static void placement(const struct ws_vector *vector, const ws_u8 *from, ws_u8 *to, const unsigned long long *wanted)
{
	FIELD(placement, boot, from, to, wanted[0]);
	FIELD(placement, pass, from, to, wanted[1]);
	FIELD(placement, epoch, from, to, wanted[2]);
	FIELD(placement, group, from, to, wanted[3]);
	FIELD(placement, previous, from, to, wanted[4]);
	FIELD(placement, next, from, to, wanted[5]);
	FIELD(placement, source, from, to, wanted[6]);
	FIELD(placement, role, from, to, wanted[7]);
	FIELD(placement, refused, from, to, wanted[8]);
	FIELD(placement, head_port, from, to, wanted[9]);
	FIELD(placement, head_address, from, to, wanted[10]);
	FIELD(placement, tail_address, from, to, wanted[11]);
	FIELD(placement, tail_port, from, to, wanted[12]);
}

static void renewal(const struct ws_vector *vector, const ws_u8 *from, ws_u8 *to, const unsigned long long *wanted)
{
	FIELD(renewal, boot, from, to, wanted[0]);
	FIELD(renewal, sent_us, from, to, wanted[1]);
	FIELD(renewal, lease_us, from, to, wanted[2]);
	FIELD(renewal, refused, from, to, wanted[3]);
}

static void copied(const struct ws_vector *vector, const ws_u8 *from, ws_u8 *to, const unsigned long long *wanted)
{
	FIELD(copied, key_high, from, to, wanted[0]);
	FIELD(copied, key_low, from, to, wanted[1]);
	FIELD(copied, nonce, from, to, wanted[2]);
	FIELD(copied, sequence, from, to, wanted[3]);
	FIELD(copied, epoch, from, to, wanted[4]);
	FIELD(copied, group, from, to, wanted[5]);
	FIELD(copied, length, from, to, wanted[6]);
	FIELD(copied, flags, from, to, wanted[7]);
	FIELD(copied, part, from, to, wanted[8]);
	FIELD(copied, owner, from, to, wanted[9]);
}

static void watch(const struct ws_vector *vector, const ws_u8 *from, ws_u8 *to, const unsigned long long *wanted)
{
	FIELD(watch, key_high, from, to, wanted[0]);
	FIELD(watch, key_low, from, to, wanted[1]);
	FIELD(watch, request, from, to, wanted[2]);
	FIELD(watch, number, from, to, wanted[3]);
	FIELD(watch, scope, from, to, wanted[4]);
	FIELD(watch, outcome, from, to, wanted[5]);
	FIELD(watch, changes, from, to, wanted[6]);
	FIELD(watch, group, from, to, wanted[7]);
	FIELD(watch, client, from, to, wanted[8]);
	FIELD(watch, reply_port, from, to, wanted[9]);
	FIELD(watch, length, from, to, wanted[10]);
	FIELD(watch, check, from, to, wanted[11]);
	FIELD(watch, history, from, to, wanted[12]);
}

static void routes(const struct ws_vector *vector, const ws_u8 *from, ws_u8 *to, const unsigned long long *wanted)
{
	FIELD(routes, first, from, to, wanted[0]);
	FIELD(routes, base, from, to, wanted[1]);
	FIELD(routes, groups, from, to, wanted[2]);
}

static void effect(const struct ws_vector *vector, const ws_u8 *from, ws_u8 *to, const unsigned long long *wanted)
{
	FIELD(effect, key_high, from, to, wanted[0]);
	FIELD(effect, key_low, from, to, wanted[1]);
	FIELD(effect, request, from, to, wanted[2]);
	FIELD(effect, sequence, from, to, wanted[3]);
	FIELD(effect, epoch, from, to, wanted[4]);
	FIELD(effect, group, from, to, wanted[5]);
	FIELD(effect, client, from, to, wanted[6]);
	FIELD(effect, reply_port, from, to, wanted[7]);
	FIELD(effect, length, from, to, wanted[8]);
	FIELD(effect, lane, from, to, wanted[9]);
	FIELD(effect, outcome, from, to, wanted[10]);
	FIELD(effect, flags, from, to, wanted[11]);
	FIELD(effect, own_sequence, from, to, wanted[12]);
	FIELD(effect, own_epoch, from, to, wanted[13]);
	FIELD(effect, owner, from, to, wanted[14]);
}

static void entries(const struct ws_vector *vector, const ws_u8 *from, ws_u8 *to)
{
	for (int index = 0; index < vector->parts; index++)
		entry(vector, from + index * WS_ENTRY_BYTES, to + index * WS_ENTRY_BYTES, vector->part[index]);
}

static void fabric(const struct ws_vector *vector, const ws_u8 *from, ws_u8 *to)
{
	switch (ws_header_kind(from - WS_HEADER_BYTES)) {
	case WS_FABRIC_ENROL:
		enrol(vector, from, to, vector->part[0]);
		return;
	case WS_FABRIC_ENROLLED:
		enrolled(vector, from, to, vector->part[0]);
		return;
	case WS_FABRIC_NAMES:
		names(vector, from, to, vector->part[0]);
		memcpy(to + WS_NAMES_BYTES, from + WS_NAMES_BYTES, ws_header_count(from - WS_HEADER_BYTES) * WS_BLOCK_BYTES);
		return;
	default:
		heartbeat(vector, from, to, vector->part[0]);
	}
}

/* A body of 64 bytes, then blocks, which are copied as they are. */
static void chain(const struct ws_vector *vector, const ws_u8 *from, ws_u8 *to)
{
	switch (ws_header_kind(from - WS_HEADER_BYTES)) {
	case WS_CHAIN_APPLY:
	case WS_CHAIN_ANSWER:
	case WS_CHAIN_INSTALL:
		effect(vector, from, to, vector->part[0]);
		break;
	case WS_CHAIN_MAP:
	case WS_CHAIN_ROUTES:
		routes(vector, from, to, vector->part[0]);
		break;
	case WS_CHAIN_PLACE:
	case WS_CHAIN_PLACED:
		placement(vector, from, to, vector->part[0]);
		break;
	case WS_CHAIN_RENEW:
	case WS_CHAIN_RENEWED:
		renewal(vector, from, to, vector->part[0]);
		break;
	case WS_CHAIN_FETCH:
	case WS_CHAIN_COPY:
	case WS_CHAIN_REMOVE:
	case WS_CHAIN_REMOVED:
		copied(vector, from, to, vector->part[0]);
		break;
	case WS_CHAIN_WATCH:
	case WS_CHAIN_EVENT:
		watch(vector, from, to, vector->part[0]);
		break;
	default:
		operation(vector, from, to, vector->part[0]);
	}
	memcpy(to + WS_OPERATION_BYTES, from + WS_OPERATION_BYTES,
	       ws_header_count(from - WS_HEADER_BYTES) * WS_BLOCK_BYTES);
}

static void good(const struct ws_vector *vector, const ws_u8 *packet, ws_u8 *copy, unsigned long long length)
{
	ws_u8 service = ws_header_service(packet);

	expect(vector, "length", ws_packet_bytes(service, ws_header_kind(packet), ws_header_count(packet)), length);
	header(vector, packet, copy);
	switch (service) {
	case WS_SERVICE_FABRIC:
		fabric(vector, packet + WS_HEADER_BYTES, copy + WS_HEADER_BYTES);
		break;
	case WS_SERVICE_LOCK:
		entries(vector, packet + WS_HEADER_BYTES, copy + WS_HEADER_BYTES);
		break;
	case WS_SERVICE_QUEUE:
		queue(vector, packet + WS_HEADER_BYTES, copy + WS_HEADER_BYTES);
		break;
	default:
		chain(vector, packet + WS_HEADER_BYTES, copy + WS_HEADER_BYTES);
	}
	if (vector->canonical)
		expect(vector, "difference of what was written", (unsigned long long)!!memcmp(packet, copy, length), 0);
}

/* In the order of docs/packets.md. */
static int fault(const ws_u8 *packet, unsigned long long length)
{
	ws_u8 service, count;

	if (length < WS_HEADER_BYTES)
		return WS_DROP_REASON_TOO_SHORT;
	if (ws_header_magic(packet) != WS_MAGIC)
		return WS_DROP_REASON_BAD_MAGIC;
	if (ws_header_version(packet) >> 4 != WS_MAJOR)
		return WS_DROP_REASON_FOREIGN_VERSION;
	service = ws_header_service(packet);
	count = ws_header_count(packet);
	if (service != WS_SERVICE_FABRIC && service != WS_SERVICE_LOCK && service != WS_SERVICE_QUEUE &&
	    service != WS_SERVICE_CHAIN)
		return WS_DROP_REASON_UNKNOWN_SERVICE;
	if (!ws_packet_bytes(service, ws_header_kind(packet), count))
		return WS_DROP_REASON_UNKNOWN_KIND;
	if (!ws_count_fits(service, ws_header_kind(packet), count))
		return WS_DROP_REASON_BAD_COUNT;
	if (length != ws_packet_bytes(service, ws_header_kind(packet), count))
		return WS_DROP_REASON_BAD_LENGTH;
	return WS_DROP_REASON_NONE;
}

int main(void)
{
	size_t number, total = sizeof(ws_vectors) / sizeof(ws_vectors[0]);
	static ws_u8 packets[2][1 + 2 * WS_MAX_PACKET_BYTES];

	for (number = 0; number < total; number++) {
		const struct ws_vector *vector = &ws_vectors[number];
		size_t length = strlen(vector->hex) / 2, at;
		ws_u8 *packet = packets[0] + 1, *copy = packets[1] + 1;

		for (at = 0; at < length; at++) {
			char digits[3] = { vector->hex[2 * at], vector->hex[2 * at + 1], 0 };

			packet[at] = (ws_u8)strtoul(digits, 0, 16);
		}
		memset(copy, 0, length);
		expect(vector, "drop reason", (unsigned)fault(packet, length), (unsigned)vector->drop);
		if (vector->drop == WS_DROP_REASON_NONE)
			good(vector, packet, copy, length);
	}
	printf("%zu vectors, %d failures\n", total, failures);
	return failures != 0 || total == 0;
}
