/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* A program that hashes the message in its frame, behind 14 bytes, and puts the result in the key's place. */
#include "../platform_bpf.h"
#include "siphash.h"

enum { ETHERNET_BYTES = 14 };

SEC("xdp")
int siphash(struct xdp_md *frame)
{
	ws_u8 *packet = (void *)(long)frame->data;
	struct ws_sip_message message;

	if (packet + ETHERNET_BYTES + sizeof(message) > (ws_u8 *)(long)frame->data_end)
		return XDP_ABORTED;
	__builtin_memcpy(&message, packet + ETHERNET_BYTES, sizeof(message));
	ws_u64 hash = ws_sip_of(&message);
	__builtin_memcpy(packet + ETHERNET_BYTES, &hash, sizeof(hash));
	return XDP_TX;
}

char gpl[] SEC("license") = "GPL v2";
