/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* For tests: what became of the last packet on this CPU. */
#ifndef WAYSIDE_OBSERVE_H
#define WAYSIDE_OBSERVE_H

#include "../platform_bpf.h"

struct {
	WS_UINT(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	WS_UINT(max_entries, 1);
	WS_TYPE(key, ws_u32);
	WS_TYPE(value, struct ws_verdict);
} verdicts SEC(".maps");

WS_INLINE void ws_observe(struct ws_verdict verdict)
{
	ws_u32 key = 0;
	struct ws_verdict *last = bpf_map_lookup_elem(&verdicts, &key);

	if (last)
		*last = verdict;
}

#define WS_OBSERVE(verdict) ws_observe(verdict)

#endif
