/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#include "siphash.h"

ws_u64 ws_siphash(const struct ws_sip_message *message);

ws_u64 ws_siphash(const struct ws_sip_message *message) { return ws_sip_of(message); }
