/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* For the other end of a veth pair: without an XDP program there, the kernel drops what a native one sends back. */
#include <linux/bpf.h>

__attribute__((section("xdp"), used)) int pass(struct xdp_md *frame) { return XDP_PASS; }

char gpl[] __attribute__((section("license"), used)) = "GPL v2";
