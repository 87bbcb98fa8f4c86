/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* For tests: SipHash as the official vectors have it, of messages that need not be whole words. Whoever calls it has
 * put the message's length modulo 256 and what is left of it into the last word. */
#ifndef WAYSIDE_CASES_SIPHASH_H
#define WAYSIDE_CASES_SIPHASH_H

#include "../siphash.h"

/* A message of up to 63 bytes. */
struct ws_sip_message {
	struct ws_key key;
	ws_u64 words; /* before the last one */
	ws_u64 word[8];
};

WS_INLINE ws_u64 ws_sip_of(const struct ws_sip_message *message)
{
	struct ws_sip sip = ws_sip_begin(message->key);

	for (ws_u64 i = 0; i < 7 && i < message->words; i++)
		ws_sip_word(&sip, message->word[i]);
	return ws_sip_end(&sip, message->word[message->words & 7]);
}

#endif
