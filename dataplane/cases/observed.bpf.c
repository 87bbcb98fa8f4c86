/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* The XDP program as it is, with its verdicts to be read. */
#include "observe.h"
#include "../wayside.bpf.c"
#include "copied.h"
