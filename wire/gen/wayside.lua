-- SPDX-License-Identifier: Apache-2.0
-- Wayside's packets for Wireshark. Generated from wire/messages.toml by `cargo xtask wire`; do not edit.
-- Use: tshark -X lua_script:wayside.lua, or put it among Wireshark's personal Lua plugins.

local wayside = Proto("wayside", "Wayside")
local f = wayside.fields
local names = {}

names.service = { [0] = "fabric", [1] = "lock", [2] = "queue", [3] = "chain" }
names.fabric_kind = { [1] = "enrol", [2] = "enrolled", [3] = "heartbeat", [4] = "heartbeat_ack", [5] = "leave", [6] = "left", [7] = "down", [8] = "down_ack", [9] = "stale", [10] = "turn", [11] = "turn_ack", [12] = "names", [13] = "policy", [14] = "policy_ack" }
names.lock_kind = { [1] = "acquire", [2] = "grant", [3] = "join", [4] = "release", [5] = "cancel", [6] = "released", [7] = "downgrade", [8] = "retenure", [9] = "retenured", [10] = "busy", [11] = "recovering", [12] = "queue", [13] = "queued", [14] = "gap", [15] = "census", [16] = "report", [17] = "adopt", [18] = "adopted", [19] = "inspect", [20] = "reject", [21] = "free", [22] = "freed" }
names.queue_kind = { [1] = "acquire", [2] = "grant", [3] = "queued", [4] = "release", [5] = "cancel", [6] = "released", [7] = "next", [8] = "busy", [9] = "recovering", [10] = "push", [11] = "settle", [12] = "pushed", [13] = "room", [14] = "serve", [15] = "serving", [16] = "recall", [17] = "ceded", [18] = "yield", [19] = "taken", [20] = "asked", [21] = "reject", [22] = "fetch", [23] = "fetched" }
names.chain_kind = { [1] = "read", [2] = "write", [3] = "delete", [4] = "apply", [5] = "answer", [6] = "insert", [7] = "install", [8] = "map", [9] = "routes", [10] = "place", [11] = "placed", [12] = "renew", [13] = "renewed", [14] = "fetch", [15] = "copy", [16] = "watch", [17] = "event", [18] = "remove", [19] = "removed" }
names.slot_state = { [0] = "unheld", [1] = "open", [2] = "managed", [3] = "frozen" }
names.node_state = { [0] = "vacant", [1] = "live", [2] = "expired", [3] = "dismissed" }
names.policy = { [0] = "fair", [1] = "read_preferring", [2] = "write_preferring" }
names.engine = { [0] = "fission", [1] = "queue", [2] = "hybrid" }
names.refusal = { [0] = "none", [1] = "version", [2] = "namespace", [3] = "full", [4] = "recovering", [5] = "shards" }
names.condition = { [0] = "none", [1] = "version", [2] = "absent", [3] = "word" }
names.outcome = { [0] = "done", [1] = "unmet", [2] = "missing", [3] = "no_room", [4] = "moved", [5] = "recovering", [6] = "full", [7] = "collision", [8] = "unsure", [9] = "reset" }
names.role = { [0] = "none", [1] = "member", [2] = "quiet", [3] = "joiner" }
names.scope = { [0] = "key", [1] = "prefix" }
names.part = { [0] = "name", [1] = "value", [2] = "end" }
names.drop_reason = { [0] = "none", [1] = "too_short", [2] = "bad_magic", [3] = "foreign_version", [4] = "unknown_service", [5] = "unknown_kind", [6] = "bad_length", [7] = "bad_count", [8] = "unknown_namespace", [9] = "bad_slot", [10] = "unknown_source", [11] = "source_not_live", [12] = "holder_not_live", [13] = "foreign_holder", [14] = "stale_request", [15] = "stale_epoch", [16] = "destination_not_live", [17] = "stale_heartbeat", [18] = "bad_state", [19] = "lost_race", [20] = "bad_tag", [21] = "not_granted", [22] = "enrol_in_clear", [23] = "no_key", [24] = "not_serving", [25] = "over_budget", [26] = "unknown_group", [27] = "wrong_place", [28] = "bad_value", [29] = "bad_lane", [30] = "no_server", [31] = "not_its_server", [32] = "no_queue" }

f.header_magic = ProtoField.uint16("wayside.magic", "magic", base.HEX, nil, nil, "0x5753")
f.header_version = ProtoField.uint8("wayside.version", "version", base.HEX, nil, nil, "major in the high four bits, minor in the low four")
f.header_service = ProtoField.uint8("wayside.service", "service", base.DEC, names.service, nil, "which service's kinds these are")
f.header_kind = ProtoField.uint8("wayside.kind", "kind", base.DEC, nil, nil, "the message")
f.header_count = ProtoField.uint8("wayside.count", "count", base.DEC, nil, nil, "lock entries or blocks that follow; 0 where there are none")
f.header_flags = ProtoField.uint16("wayside.flags", "flags", base.HEX, nil, nil, "header flags")
f.header_flags_claim = ProtoField.bool("wayside.flags.claim", "claim", 16, nil, 0x1, "RETENURE: a claim")
f.header_flags_applied = ProtoField.bool("wayside.flags.applied", "applied", 16, nil, 0x2, "RETENURED: the change stands")
f.header_flags_refused = ProtoField.bool("wayside.flags.refused", "refused", 16, nil, 0x4, "RETENURED: joins differ, or DEAD; ENROLLED: no session; FETCHED: no answer")
f.header_flags_stale_tenure = ProtoField.bool("wayside.flags.stale_tenure", "stale_tenure", 16, nil, 0x8, "RETENURED: the tenure is over")
f.header_flags_last = ProtoField.bool("wayside.flags.last", "last", 16, nil, 0x10, "last page")
f.header_flags_dead = ProtoField.bool("wayside.flags.dead", "dead", 16, nil, 0x20, "the node in question is not LIVE")
f.header_flags_expired = ProtoField.bool("wayside.flags.expired", "expired", 16, nil, 0x40, "HEARTBEAT_ACK: the session is over")
f.header_flags_clean = ProtoField.bool("wayside.flags.clean", "clean", 16, nil, 0x80, "LEAVE: nothing is left to sweep")
f.header_flags_retry = ProtoField.bool("wayside.flags.retry", "retry", 16, nil, 0x100, "BUSY: send it again after a pause")
f.header_flags_quiet = ProtoField.bool("wayside.flags.quiet", "quiet", 16, nil, 0x400, "FREE: to be answered only if one of the slots is not freed by it")
f.header_flags_key = ProtoField.bool("wayside.flags.key", "key", 16, nil, 0x200, "the tag is made with the key of an odd rotation; otherwise of an even one")
f.header_source = ProtoField.uint16("wayside.source", "source", base.DEC, nil, nil, "handle of the sender; of the agent in a switch's GRANT by join")
f.header_destination = ProtoField.uint16("wayside.destination", "destination", base.DEC, nil, nil, "handle of the receiver; 0 to the switch or the controller")
f.header_epoch = ProtoField.uint32("wayside.epoch", "epoch", base.DEC, nil, nil, "boot epoch of the switch (23 bits used); of a chain's packet: the group's")
f.header_shard_map = ProtoField.uint32("wayside.shard_map", "shard_map", base.DEC, nil, nil, "of ENROL and ENROLLED: fingerprint of the shards that names are divided among, and of the one that is asked; 0: there is one")
f.header_namespace = ProtoField.uint16("wayside.namespace", "namespace", base.DEC, nil, nil, "namespace of the slots")
f.header_position = ProtoField.uint16("wayside.position", "position", base.DEC, nil, nil, "hops of a request; offset or total of waiters; page of a report; dead handle of a DOWN; owner's handle of a leased version; engine of an ENROLLED")
f.header_tag = ProtoField.uint64("wayside.tag", "tag", base.HEX, nil, nil, "SipHash-2-4 over the packet with this field as 0; 0 while authentication is off")
f.fabric_kind = ProtoField.uint8("wayside.fabric.kind", "Kind", base.DEC, names.fabric_kind)
f.lock_kind = ProtoField.uint8("wayside.lock.kind", "Kind", base.DEC, names.lock_kind)
f.queue_kind = ProtoField.uint8("wayside.queue.kind", "Kind", base.DEC, names.queue_kind)
f.chain_kind = ProtoField.uint8("wayside.chain.kind", "Kind", base.DEC, names.chain_kind)

f.entry_name = ProtoField.uint64("wayside.entry.name", "name", base.HEX, nil, nil, "name id; of a census of the whole switch: fingerprint of the names that are listed in a hybrid namespace")
f.entry_request = ProtoField.uint64("wayside.entry.request", "request", base.HEX, nil, nil, "request id; nonce of a RETENURE or FREE; id of a census")
f.entry_slot = ProtoField.uint32("wayside.entry.slot", "slot", base.DEC, nil, nil, "slot within the namespace")
f.entry_tenure = ProtoField.uint32("wayside.entry.tenure", "tenure", base.DEC, nil, nil, "tenure of the slot (of the grant, of the condition); REJECT: for how long not to ask again, in microseconds")
f.entry_holder = ProtoField.uint16("wayside.entry.holder", "holder", base.DEC, nil, nil, "handle of the requester; the agent after a RETENURE")
f.entry_reply_port = ProtoField.uint16("wayside.entry.reply_port", "reply_port", base.DEC, nil, nil, "UDP port of the requester's thread, stamped by the switch; 0: its agent port")
f.entry_slot_bits = ProtoField.uint16("wayside.entry.slot_bits", "slot_bits", base.HEX, nil, nil, "state (2 bits), transferred (1), tryable (1), joins or ordinal (12)")
f.entry_slot_bits_state = ProtoField.uint16("wayside.entry.slot_bits.state", "state", base.DEC, names.slot_state, 0xc000, "state of the slot")
f.entry_slot_bits_transferred = ProtoField.uint16("wayside.entry.slot_bits.transferred", "transferred", base.DEC, nil, 0x2000, "the agency was handed over")
f.entry_slot_bits_tryable = ProtoField.uint16("wayside.entry.slot_bits.tryable", "tryable", base.DEC, nil, 0x1000, "a try may be refused by the switch")
f.entry_slot_bits_joins = ProtoField.uint16("wayside.entry.slot_bits.joins", "joins", base.DEC, nil, 0xfff, "joins of the slot, or the ordinal of one")
f.entry_flags = ProtoField.uint8("wayside.entry.flags", "flags", base.HEX, nil, nil, "entry flags")
f.entry_flags_exclusive = ProtoField.bool("wayside.entry.flags.exclusive", "exclusive", 8, nil, 0x1, "mode: exclusive; otherwise shared")
f.entry_flags_try = ProtoField.bool("wayside.entry.flags.try", "try", 8, nil, 0x2, "ACQUIRE: do not queue")
f.entry_flags_agency = ProtoField.bool("wayside.entry.flags.agency", "agency", 8, nil, 0x4, "GRANT: the slot's agent is the holder's node from now on")
f.entry_flags_joined = ProtoField.bool("wayside.entry.flags.joined", "joined", 8, nil, 0x8, "GRANT, JOIN, RELEASE: granted by a join, the ordinal is in slot_bits")
f.entry_flags_held = ProtoField.bool("wayside.entry.flags.held", "held", 8, nil, 0x10, "REPORT, ADOPT, QUEUE: a hold; otherwise a wait")
f.entry_flags_dead = ProtoField.bool("wayside.entry.flags.dead", "dead", 8, nil, 0x20, "JOIN: the ordinal's node is not LIVE: no holder")
f.entry_sequence = ProtoField.uint8("wayside.entry.sequence", "sequence", base.DEC, nil, nil, "agent's sequence of the token; ACQUIRE, and whoever waits: priority, xor 4 (low 3 bits), and how often it was overtaken (5 bits); of a census of the whole switch: the namespace's engine")

f.enrol_nonce = ProtoField.uint64("wayside.enrol.nonce", "nonce", base.HEX, nil, nil, "of this attempt; a repeated one gets the same answer")
f.enrol_pid = ProtoField.uint32("wayside.enrol.pid", "pid", base.DEC, nil, nil, "process id, for people")
f.enrol_lease_us = ProtoField.uint32("wayside.enrol.lease_us", "lease_us (us)", base.DEC, nil, nil, "lease asked for; 0: the namespace's")
f.enrol_namespace_name = ProtoField.string("wayside.enrol.namespace_name", "namespace_name", base.UNICODE, "UTF-8, padded with zeros")
f.enrol_host = ProtoField.string("wayside.enrol.host", "host", base.UNICODE, "UTF-8, padded with zeros")
f.enrol_reserved = ProtoField.uint64("wayside.enrol.reserved", "reserved", base.DEC, nil, nil, "zero")

f.enrolled_nonce = ProtoField.uint64("wayside.enrolled.nonce", "nonce", base.HEX, nil, nil, "of the ENROL")
f.enrolled_incarnation = ProtoField.uint64("wayside.enrolled.incarnation", "incarnation", base.DEC, nil, nil, "cluster-wide count of enrolments")
f.enrolled_lease_us = ProtoField.uint32("wayside.enrolled.lease_us", "lease_us (us)", base.DEC, nil, nil, "lease of the session")
f.enrolled_grace_us = ProtoField.uint32("wayside.enrolled.grace_us", "grace_us (us)", base.DEC, nil, nil, "what the controller adds to it")
f.enrolled_slots = ProtoField.uint32("wayside.enrolled.slots", "slots", base.DEC, nil, nil, "slots of the namespace")
f.enrolled_policy = ProtoField.uint8("wayside.enrolled.policy", "policy", base.DEC, names.policy, nil, "0 fair, 1 read-preferring, 2 write-preferring")
f.enrolled_reason = ProtoField.uint8("wayside.enrolled.reason", "reason", base.DEC, names.refusal, nil, "with REFUSED: why")
f.enrolled_version = ProtoField.uint8("wayside.enrolled.version", "version", base.HEX, nil, nil, "version that the switch speaks")
f.enrolled_patience = ProtoField.uint8("wayside.enrolled.patience", "patience", base.DEC, nil, nil, "1 + how often who waits is overtaken at most; 0: not said, 8")
f.enrolled_lifeline = ProtoField.uint64("wayside.enrolled.lifeline", "lifeline", base.HEX, nil, nil, "secret that ties the local connection to this session")

f.names_nonce = ProtoField.uint64("wayside.names.nonce", "nonce", base.HEX, nil, nil, "of the ENROL")
f.names_fingerprint = ProtoField.uint64("wayside.names.fingerprint", "fingerprint", base.DEC, nil, nil, "of all of them")
f.names_listed = ProtoField.uint16("wayside.names.listed", "listed", base.DEC, nil, nil, "how many there are")
f.names_reserved = ProtoField.bytes("wayside.names.reserved", "reserved", base.NONE, "zero")

f.listed_first = ProtoField.uint64("wayside.listed.first", "first", base.DEC, nil, nil, "name id")
f.listed_second = ProtoField.uint64("wayside.listed.second", "second", base.DEC, nil, nil, "name id")
f.listed_third = ProtoField.uint64("wayside.listed.third", "third", base.DEC, nil, nil, "name id")
f.listed_fourth = ProtoField.uint64("wayside.listed.fourth", "fourth", base.DEC, nil, nil, "name id")

f.heartbeat_sequence = ProtoField.uint64("wayside.heartbeat.sequence", "sequence", base.DEC, nil, nil, "of the heartbeat (56 bits), or of the DOWN; of a TURN: the turn, or 0; of a POLICY: the number of the change")
f.heartbeat_oldest = ProtoField.uint64("wayside.heartbeat.oldest", "oldest", base.DEC, nil, nil, "oldest outstanding request id; of a DOWN: unused")
f.heartbeat_sent_us = ProtoField.uint64("wayside.heartbeat.sent_us", "sent_us (us)", base.DEC, nil, nil, "sender's clock, given back by the acknowledgement")
f.heartbeat_incarnation = ProtoField.uint64("wayside.heartbeat.incarnation", "incarnation", base.DEC, nil, nil, "of the session meant")

f.operation_key_high = ProtoField.uint64("wayside.operation.key_high", "key_high", base.HEX, nil, nil, "high half of the 128-bit hash of namespace and name")
f.operation_key_low = ProtoField.uint64("wayside.operation.key_low", "key_low", base.HEX, nil, nil, "low half of it")
f.operation_request = ProtoField.uint64("wayside.operation.request", "request", base.HEX, nil, nil, "request id: of a write, one effect per (client, request)")
f.operation_expected = ProtoField.uint64("wayside.operation.expected", "expected", base.HEX, nil, nil, "with a condition: sequence of the version expected, or the value's first eight bytes")
f.operation_expected_epoch = ProtoField.uint32("wayside.operation.expected_epoch", "expected_epoch", base.DEC, nil, nil, "epoch of the version expected")
f.operation_group = ProtoField.uint16("wayside.operation.group", "group", base.DEC, nil, nil, "virtual group of the key")
f.operation_client = ProtoField.uint16("wayside.operation.client", "client", base.DEC, nil, nil, "handle of the client")
f.operation_reply_port = ProtoField.uint16("wayside.operation.reply_port", "reply_port", base.DEC, nil, nil, "UDP port of the client's thread, stamped by the switch; 0: its agent port")
f.operation_length = ProtoField.uint16("wayside.operation.length", "length", base.DEC, nil, nil, "bytes of the value, or of the name of an INSERT")
f.operation_lane = ProtoField.uint8("wayside.operation.lane", "lane", base.DEC, nil, nil, "which of the client's writes under way: one at a time in each")
f.operation_condition = ProtoField.uint8("wayside.operation.condition", "condition", base.DEC, names.condition, nil, "what must hold of the item")
f.operation_flags = ProtoField.uint16("wayside.operation.flags", "flags", base.HEX, nil, nil, "value flags")
f.operation_flags_present = ProtoField.bool("wayside.operation.flags.present", "present", 16, nil, 0x1, "the key has a value")
f.operation_flags_leased = ProtoField.bool("wayside.operation.flags.leased", "leased", 16, nil, 0x2, "WRITE: as long as the writer's session lasts; otherwise: the version is leased, or, without a value, ended a lease")
f.operation_flags_leaving = ProtoField.bool("wayside.operation.flags.leaving", "leaving", 16, nil, 0x4, "in a head's memory only: the key is being removed from its chain")
f.operation_check = ProtoField.uint64("wayside.operation.check", "check", base.DEC, nil, nil, "47 further bits of the hash: two names of one key differ here")
f.operation_first_epoch = ProtoField.uint32("wayside.operation.first_epoch", "first_epoch", base.DEC, nil, nil, "of a write that was first sent under another epoch of its group: that one; otherwise 0")
f.operation_reserved = ProtoField.uint32("wayside.operation.reserved", "reserved", base.DEC, nil, nil, "zero")

f.effect_key_high = ProtoField.uint64("wayside.effect.key_high", "key_high", base.HEX, nil, nil, "high half of the 128-bit hash of namespace and name")
f.effect_key_low = ProtoField.uint64("wayside.effect.key_low", "key_low", base.HEX, nil, nil, "low half of it")
f.effect_request = ProtoField.uint64("wayside.effect.request", "request", base.HEX, nil, nil, "request id of the operation")
f.effect_sequence = ProtoField.uint64("wayside.effect.sequence", "sequence", base.DEC, nil, nil, "of the item's version, which the value is of")
f.effect_epoch = ProtoField.uint32("wayside.effect.epoch", "epoch", base.DEC, nil, nil, "of the item's version")
f.effect_group = ProtoField.uint16("wayside.effect.group", "group", base.DEC, nil, nil, "virtual group of the key")
f.effect_client = ProtoField.uint16("wayside.effect.client", "client", base.DEC, nil, nil, "handle of the client")
f.effect_reply_port = ProtoField.uint16("wayside.effect.reply_port", "reply_port", base.DEC, nil, nil, "UDP port of the client's thread; 0: its agent port")
f.effect_length = ProtoField.uint16("wayside.effect.length", "length", base.DEC, nil, nil, "bytes of the value, or of the name of an INSTALL")
f.effect_lane = ProtoField.uint8("wayside.effect.lane", "lane", base.DEC, nil, nil, "which of the client's writes under way")
f.effect_outcome = ProtoField.uint8("wayside.effect.outcome", "outcome", base.DEC, names.outcome, nil, "what became of it")
f.effect_flags = ProtoField.uint16("wayside.effect.flags", "flags", base.HEX, nil, nil, "value flags")
f.effect_flags_present = ProtoField.bool("wayside.effect.flags.present", "present", 16, nil, 0x1, "the key has a value")
f.effect_flags_leased = ProtoField.bool("wayside.effect.flags.leased", "leased", 16, nil, 0x2, "WRITE: as long as the writer's session lasts; otherwise: the version is leased, or, without a value, ended a lease")
f.effect_flags_leaving = ProtoField.bool("wayside.effect.flags.leaving", "leaving", 16, nil, 0x4, "in a head's memory only: the key is being removed from its chain")
f.effect_own_sequence = ProtoField.uint64("wayside.effect.own_sequence", "own_sequence", base.DEC, nil, nil, "of the version that this operation made, or met")
f.effect_own_epoch = ProtoField.uint32("wayside.effect.own_epoch", "own_epoch", base.DEC, nil, nil, "of that version")
f.effect_owner = ProtoField.uint32("wayside.effect.owner", "owner", base.DEC, nil, nil, "of a leased version: low half of its owner's incarnation; the header's position has the handle")

f.routes_first = ProtoField.uint16("wayside.routes.first", "first", base.DEC, nil, nil, "the page's first group, counted within the namespace")
f.routes_base = ProtoField.uint16("wayside.routes.base", "base", base.DEC, nil, nil, "number of the namespace's first group")
f.routes_groups = ProtoField.uint16("wayside.routes.groups", "groups", base.DEC, nil, nil, "groups of the namespace")
f.routes_reserved = ProtoField.bytes("wayside.routes.reserved", "reserved", base.NONE, "zero")

f.route_epoch = ProtoField.uint32("wayside.route.epoch", "epoch", base.DEC, nil, nil, "of the group's chain")
f.route_head_address = ProtoField.uint32("wayside.route.head_address", "head_address", base.DEC, nil, nil, "IPv4 address of the switch that takes writes")
f.route_tail_address = ProtoField.uint32("wayside.route.tail_address", "tail_address", base.DEC, nil, nil, "IPv4 address of the switch that is read from")
f.route_head_port = ProtoField.uint16("wayside.route.head_port", "head_port", base.DEC, nil, nil, "its UDP port")
f.route_tail_port = ProtoField.uint16("wayside.route.tail_port", "tail_port", base.DEC, nil, nil, "its UDP port")
f.route_reserved = ProtoField.bytes("wayside.route.reserved", "reserved", base.NONE, "zero")

f.watch_key_high = ProtoField.uint64("wayside.watch.key_high", "key_high", base.HEX, nil, nil, "high half of the key's hash; of a prefix: zero")
f.watch_key_low = ProtoField.uint64("wayside.watch.key_low", "key_low", base.HEX, nil, nil, "low half of it")
f.watch_request = ProtoField.uint64("wayside.watch.request", "request", base.HEX, nil, nil, "request id of the question; given back")
f.watch_number = ProtoField.uint64("wayside.watch.number", "number", base.DEC, nil, nil, "position within the history")
f.watch_scope = ProtoField.uint8("wayside.watch.scope", "scope", base.DEC, names.scope, nil, "of what the client wants to hear")
f.watch_outcome = ProtoField.uint8("wayside.watch.outcome", "outcome", base.DEC, names.outcome, nil, "EVENT: `done`, `reset` or `full`")
f.watch_changes = ProtoField.uint16("wayside.watch.changes", "changes", base.DEC, nil, nil, "EVENT: changes in the blocks")
f.watch_group = ProtoField.uint16("wayside.watch.group", "group", base.DEC, nil, nil, "virtual group")
f.watch_client = ProtoField.uint16("wayside.watch.client", "client", base.DEC, nil, nil, "handle of the client")
f.watch_reply_port = ProtoField.uint16("wayside.watch.reply_port", "reply_port", base.DEC, nil, nil, "UDP port of the client's thread, stamped by the switch; 0: its agent port")
f.watch_length = ProtoField.uint16("wayside.watch.length", "length", base.DEC, nil, nil, "WATCH: bytes of the prefix that the blocks begin with")
f.watch_reserved = ProtoField.uint32("wayside.watch.reserved", "reserved", base.DEC, nil, nil, "zero")
f.watch_check = ProtoField.uint64("wayside.watch.check", "check", base.DEC, nil, nil, "47 further bits of the key's hash")
f.watch_history = ProtoField.uint64("wayside.watch.history", "history", base.DEC, nil, nil, "which history the number is of; 0: of none yet, from now on")

f.change_sequence = ProtoField.uint64("wayside.change.sequence", "sequence", base.DEC, nil, nil, "of the version")
f.change_before_sequence = ProtoField.uint64("wayside.change.before_sequence", "before_sequence", base.DEC, nil, nil, "of the version that the key had before")
f.change_epoch = ProtoField.uint32("wayside.change.epoch", "epoch", base.DEC, nil, nil, "of the version")
f.change_before_epoch = ProtoField.uint32("wayside.change.before_epoch", "before_epoch", base.DEC, nil, nil, "of the version before")
f.change_length = ProtoField.uint16("wayside.change.length", "length", base.DEC, nil, nil, "bytes of the value")
f.change_name_length = ProtoField.uint16("wayside.change.name_length", "name_length", base.DEC, nil, nil, "bytes of the name; 0: of the key that is watched, or not known")
f.change_flags = ProtoField.uint16("wayside.change.flags", "flags", base.HEX, nil, nil, "value flags")
f.change_flags_present = ProtoField.bool("wayside.change.flags.present", "present", 16, nil, 0x1, "the key has a value")
f.change_flags_leased = ProtoField.bool("wayside.change.flags.leased", "leased", 16, nil, 0x2, "WRITE: as long as the writer's session lasts; otherwise: the version is leased, or, without a value, ended a lease")
f.change_flags_leaving = ProtoField.bool("wayside.change.flags.leaving", "leaving", 16, nil, 0x4, "in a head's memory only: the key is being removed from its chain")
f.change_part = ProtoField.uint8("wayside.change.part", "part", base.DEC, names.part, nil, "`name`: the value follows in the next EVENT; `value`: the name is told, or has been")
f.change_reserved = ProtoField.uint8("wayside.change.reserved", "reserved", base.DEC, nil, nil, "zero")

f.placement_boot = ProtoField.uint64("wayside.placement.boot", "boot", base.DEC, nil, nil, "of the switch meant: one that has begun anew since is another")
f.placement_pass = ProtoField.uint64("wayside.placement.pass", "pass", base.DEC, nil, nil, "of a joiner: which copying this is; given back when it has all")
f.placement_epoch = ProtoField.uint32("wayside.placement.epoch", "epoch", base.DEC, nil, nil, "of the group's configuration")
f.placement_group = ProtoField.uint16("wayside.placement.group", "group", base.DEC, nil, nil, "virtual group")
f.placement_previous = ProtoField.uint16("wayside.placement.previous", "previous", base.DEC, nil, nil, "handle of the switch before; 0: head")
f.placement_next = ProtoField.uint16("wayside.placement.next", "next", base.DEC, nil, nil, "handle of the switch after; 0: tail")
f.placement_source = ProtoField.uint16("wayside.placement.source", "source", base.DEC, nil, nil, "of a joiner: whom to copy from")
f.placement_role = ProtoField.uint8("wayside.placement.role", "role", base.DEC, names.role, nil, "what the switch is to the group")
f.placement_refused = ProtoField.uint8("wayside.placement.refused", "refused", base.DEC, nil, nil, "of the answer: 1, it cannot be")
f.placement_head_port = ProtoField.uint16("wayside.placement.head_port", "head_port", base.DEC, nil, nil, "UDP port of the switch that takes writes")
f.placement_head_address = ProtoField.uint32("wayside.placement.head_address", "head_address", base.DEC, nil, nil, "its IPv4 address")
f.placement_tail_address = ProtoField.uint32("wayside.placement.tail_address", "tail_address", base.DEC, nil, nil, "IPv4 address of the switch that is read from")
f.placement_tail_port = ProtoField.uint16("wayside.placement.tail_port", "tail_port", base.DEC, nil, nil, "its UDP port")
f.placement_reserved = ProtoField.bytes("wayside.placement.reserved", "reserved", base.NONE, "zero")

f.renewal_boot = ProtoField.uint64("wayside.renewal.boot", "boot", base.DEC, nil, nil, "of the switch: higher each time that it begins with an empty memory")
f.renewal_sent_us = ProtoField.uint64("wayside.renewal.sent_us", "sent_us (us)", base.DEC, nil, nil, "the switch's clock when it asked, from which the lease runs; given back")
f.renewal_lease_us = ProtoField.uint32("wayside.renewal.lease_us", "lease_us (us)", base.DEC, nil, nil, "how long it lasts")
f.renewal_refused = ProtoField.uint8("wayside.renewal.refused", "refused", base.DEC, nil, nil, "0; for what may have to be said later")
f.renewal_reserved = ProtoField.bytes("wayside.renewal.reserved", "reserved", base.NONE, "zero")

f.copied_key_high = ProtoField.uint64("wayside.copied.key_high", "key_high", base.HEX, nil, nil, "high half of the piece's key")
f.copied_key_low = ProtoField.uint64("wayside.copied.key_low", "key_low", base.HEX, nil, nil, "low half of it")
f.copied_nonce = ProtoField.uint64("wayside.copied.nonce", "nonce", base.HEX, nil, nil, "of the question; given back. REMOVE, REMOVED: the head's count when the key was marked; 0: it is not, and would it go everywhere?")
f.copied_sequence = ProtoField.uint64("wayside.copied.sequence", "sequence", base.DEC, nil, nil, "of the value's version, or of the key's first")
f.copied_epoch = ProtoField.uint32("wayside.copied.epoch", "epoch", base.DEC, nil, nil, "of that version")
f.copied_group = ProtoField.uint16("wayside.copied.group", "group", base.DEC, nil, nil, "virtual group")
f.copied_length = ProtoField.uint16("wayside.copied.length", "length", base.DEC, nil, nil, "bytes of the name or of the value")
f.copied_flags = ProtoField.uint16("wayside.copied.flags", "flags", base.HEX, nil, nil, "value flags")
f.copied_flags_present = ProtoField.bool("wayside.copied.flags.present", "present", 16, nil, 0x1, "the key has a value")
f.copied_flags_leased = ProtoField.bool("wayside.copied.flags.leased", "leased", 16, nil, 0x2, "WRITE: as long as the writer's session lasts; otherwise: the version is leased, or, without a value, ended a lease")
f.copied_flags_leaving = ProtoField.bool("wayside.copied.flags.leaving", "leaving", 16, nil, 0x4, "in a head's memory only: the key is being removed from its chain")
f.copied_part = ProtoField.uint8("wayside.copied.part", "part", base.DEC, names.part, nil, "what the blocks have")
f.copied_reserved = ProtoField.bytes("wayside.copied.reserved", "reserved", base.NONE, "zero")
f.copied_owner = ProtoField.uint64("wayside.copied.owner", "owner", base.DEC, nil, nil, "of a leased version: its owner")
f.copied_owner_zero = ProtoField.uint64("wayside.copied.owner.zero", "zero", base.DEC, nil, 0xffff000000000000, "zero")
f.copied_owner_handle = ProtoField.uint64("wayside.copied.owner.handle", "handle", base.DEC, nil, 0xffff00000000, "handle of the session")
f.copied_owner_incarnation = ProtoField.uint64("wayside.copied.owner.incarnation", "incarnation", base.DEC, nil, 0xffffffff, "low half of its incarnation")

f.attempt_name = ProtoField.uint64("wayside.attempt.name", "name", base.HEX, nil, nil, "name id")
f.attempt_request = ProtoField.uint64("wayside.attempt.request", "request", base.HEX, nil, nil, "request id; SERVE: what those of the session begin with, 0: not said")
f.attempt_ticket = ProtoField.uint64("wayside.attempt.ticket", "ticket", base.DEC, nil, nil, "the request's number in the lock's queue (40 bits), the low part of its token; 0: none, or not known; CEDED, YIELD, TAKEN: the first that is not used yet; SERVING: the term of the part, whoever has it")
f.attempt_over = ProtoField.uint64("wayside.attempt.over", "over", base.DEC, nil, nil, "RELEASED, and a GRANT that RELEASE or CANCEL has led to: the request that is over; SERVING: how long a lock server waits for who does not renew, in microseconds; ACQUIRE for a lock server that a lock was handed to: as ticket of YIELD; ASKED: length of its window, in microseconds")
f.attempt_number = ProtoField.uint64("wayside.attempt.number", "number", base.DEC, nil, nil, "PUSH: its own; SETTLE: of the latest push; of the switch: pushes taken so far; SERVING: the term, 0: another one is it; SERVE: what the node can, 1: take and cede locks, 2: have several parts; RECALL, CEDED: of the move; YIELD: pushes taken; ASKED: of its window")
f.attempt_order = ProtoField.uint64("wayside.attempt.order", "order", base.DEC, nil, nil, "ACQUIRE for a lock server: its own, 0: the lock is the server's; PUSH, SETTLE: up to which the server has no more; of the switch: given so far; GRANT and QUEUED of a lock server, SERVING: lease of a hold, in microseconds; YIELD: given so far, 0: nothing of it is left; ASKED: requests in its window; REJECT: for how long not to ask again, in microseconds")
f.attempt_holder = ProtoField.uint16("wayside.attempt.holder", "holder", base.DEC, nil, nil, "handle of the requester")
f.attempt_reply_port = ProtoField.uint16("wayside.attempt.reply_port", "reply_port", base.DEC, nil, nil, "UDP port of the requester's thread, stamped by the switch; 0: its agent port")
f.attempt_room = ProtoField.uint16("wayside.attempt.room", "room", base.DEC, nil, nil, "of the switch: free cells of the queue; ASKED: holders and waiters at a time, the most in its window; of a queue in the switch those who wait at the server; SERVING: number of the part")
f.attempt_flags = ProtoField.uint8("wayside.attempt.flags", "flags", base.HEX, nil, nil, "queue flags")
f.attempt_flags_exclusive = ProtoField.bool("wayside.attempt.flags.exclusive", "exclusive", 8, nil, 0x1, "mode: exclusive; otherwise shared")
f.attempt_flags_try = ProtoField.bool("wayside.attempt.flags.try", "try", 8, nil, 0x2, "ACQUIRE: do not queue")
f.attempt_flags_more = ProtoField.bool("wayside.attempt.flags.more", "more", 8, nil, 0x4, "GRANT: whoever is behind may be granted too: send NEXT")
f.attempt_cause = ProtoField.uint8("wayside.attempt.cause", "cause", base.DEC, nil, nil, "GRANT of the switch: kind of the packet that has led to it; ACQUIRE, PUSH: priority, xor 4; SERVING: how many parts there are, 0: one")
f.attempt_sent_us = ProtoField.uint64("wayside.attempt.sent_us", "sent_us (us)", base.DEC, nil, nil, "of a holder's packet: its clock; of a lock server's: that of the holder's packet that it has answered, or had last")

f.fetch_name = ProtoField.uint64("wayside.fetch.name", "name", base.HEX, nil, nil, "name id")
f.fetch_request = ProtoField.uint64("wayside.fetch.request", "request", base.HEX, nil, nil, "request id")
f.fetch_ticket = ProtoField.uint64("wayside.fetch.ticket", "ticket", base.DEC, nil, nil, "the request's number in the lock's queue (40 bits), the low part of its token; of a holder's: 0")
f.fetch_incarnation = ProtoField.uint64("wayside.fetch.incarnation", "incarnation", base.DEC, nil, nil, "of the third node's session that is meant; FETCHED: 0")
f.fetch_reserved = ProtoField.bytes("wayside.fetch.reserved", "reserved", base.NONE, "zero")
f.fetch_holder = ProtoField.uint16("wayside.fetch.holder", "holder", base.DEC, nil, nil, "handle of the requester")
f.fetch_reply_port = ProtoField.uint16("wayside.fetch.reply_port", "reply_port", base.DEC, nil, nil, "UDP port of the requester's thread, stamped by the switch; 0: its agent port")
f.fetch_length = ProtoField.uint16("wayside.fetch.length", "length", base.DEC, nil, nil, "bytes that the blocks have")
f.fetch_flags = ProtoField.uint8("wayside.fetch.flags", "flags", base.HEX, nil, nil, "queue flags; of a FETCHED the switch's")
f.fetch_flags_exclusive = ProtoField.bool("wayside.fetch.flags.exclusive", "exclusive", 8, nil, 0x1, "mode: exclusive; otherwise shared")
f.fetch_flags_try = ProtoField.bool("wayside.fetch.flags.try", "try", 8, nil, 0x2, "ACQUIRE: do not queue")
f.fetch_flags_more = ProtoField.bool("wayside.fetch.flags.more", "more", 8, nil, 0x4, "GRANT: whoever is behind may be granted too: send NEXT")
f.fetch_cause = ProtoField.uint8("wayside.fetch.cause", "cause", base.DEC, nil, nil, "of a holder's FETCH: priority, xor 4; of the switch's: FETCH")
f.fetch_sent_us = ProtoField.uint64("wayside.fetch.sent_us", "sent_us (us)", base.DEC, nil, nil, "of a holder's FETCH: its clock; given back")

f.blocks = ProtoField.bytes("wayside.blocks", "Blocks")
f.drop = ProtoField.string("wayside.drop", "Dropped as")

local dissect = {}

function dissect.header(buffer, tree)
  local branch
  tree:add(f.header_magic, buffer(0, 2))
  tree:add(f.header_version, buffer(2, 1))
  tree:add(f.header_service, buffer(3, 1))
  tree:add(f.header_kind, buffer(4, 1))
  if buffer(3, 1):uint() == 0 then tree:add(f.fabric_kind, buffer(4, 1)) end
  if buffer(3, 1):uint() == 1 then tree:add(f.lock_kind, buffer(4, 1)) end
  if buffer(3, 1):uint() == 2 then tree:add(f.queue_kind, buffer(4, 1)) end
  if buffer(3, 1):uint() == 3 then tree:add(f.chain_kind, buffer(4, 1)) end
  tree:add(f.header_count, buffer(5, 1))
  branch = tree:add(f.header_flags, buffer(6, 2))
  branch:add(f.header_flags_claim, buffer(6, 2))
  branch:add(f.header_flags_applied, buffer(6, 2))
  branch:add(f.header_flags_refused, buffer(6, 2))
  branch:add(f.header_flags_stale_tenure, buffer(6, 2))
  branch:add(f.header_flags_last, buffer(6, 2))
  branch:add(f.header_flags_dead, buffer(6, 2))
  branch:add(f.header_flags_expired, buffer(6, 2))
  branch:add(f.header_flags_clean, buffer(6, 2))
  branch:add(f.header_flags_retry, buffer(6, 2))
  branch:add(f.header_flags_quiet, buffer(6, 2))
  branch:add(f.header_flags_key, buffer(6, 2))
  tree:add(f.header_source, buffer(8, 2))
  tree:add(f.header_destination, buffer(10, 2))
  tree:add(f.header_epoch, buffer(12, 4))
  tree:add(f.header_shard_map, buffer(16, 4))
  tree:add(f.header_namespace, buffer(20, 2))
  tree:add(f.header_position, buffer(22, 2))
  tree:add(f.header_tag, buffer(24, 8))
end

function dissect.entry(buffer, tree)
  local branch
  tree:add(f.entry_name, buffer(0, 8))
  tree:add(f.entry_request, buffer(8, 8))
  tree:add(f.entry_slot, buffer(16, 4))
  tree:add(f.entry_tenure, buffer(20, 4))
  tree:add(f.entry_holder, buffer(24, 2))
  tree:add(f.entry_reply_port, buffer(26, 2))
  branch = tree:add(f.entry_slot_bits, buffer(28, 2))
  branch:add(f.entry_slot_bits_state, buffer(28, 2))
  branch:add(f.entry_slot_bits_transferred, buffer(28, 2))
  branch:add(f.entry_slot_bits_tryable, buffer(28, 2))
  branch:add(f.entry_slot_bits_joins, buffer(28, 2))
  branch = tree:add(f.entry_flags, buffer(30, 1))
  branch:add(f.entry_flags_exclusive, buffer(30, 1))
  branch:add(f.entry_flags_try, buffer(30, 1))
  branch:add(f.entry_flags_agency, buffer(30, 1))
  branch:add(f.entry_flags_joined, buffer(30, 1))
  branch:add(f.entry_flags_held, buffer(30, 1))
  branch:add(f.entry_flags_dead, buffer(30, 1))
  tree:add(f.entry_sequence, buffer(31, 1))
end

function dissect.enrol(buffer, tree)
  tree:add(f.enrol_nonce, buffer(0, 8))
  tree:add(f.enrol_pid, buffer(8, 4))
  tree:add(f.enrol_lease_us, buffer(12, 4))
  tree:add(f.enrol_namespace_name, buffer(16, 24))
  tree:add(f.enrol_host, buffer(40, 32))
  tree:add(f.enrol_reserved, buffer(72, 8))
end

function dissect.enrolled(buffer, tree)
  tree:add(f.enrolled_nonce, buffer(0, 8))
  tree:add(f.enrolled_incarnation, buffer(8, 8))
  tree:add(f.enrolled_lease_us, buffer(16, 4))
  tree:add(f.enrolled_grace_us, buffer(20, 4))
  tree:add(f.enrolled_slots, buffer(24, 4))
  tree:add(f.enrolled_policy, buffer(28, 1))
  tree:add(f.enrolled_reason, buffer(29, 1))
  tree:add(f.enrolled_version, buffer(30, 1))
  tree:add(f.enrolled_patience, buffer(31, 1))
  tree:add(f.enrolled_lifeline, buffer(32, 8))
end

function dissect.names(buffer, tree)
  tree:add(f.names_nonce, buffer(0, 8))
  tree:add(f.names_fingerprint, buffer(8, 8))
  tree:add(f.names_listed, buffer(16, 2))
  tree:add(f.names_reserved, buffer(18, 46))
end

function dissect.listed(buffer, tree)
  tree:add(f.listed_first, buffer(0, 8))
  tree:add(f.listed_second, buffer(8, 8))
  tree:add(f.listed_third, buffer(16, 8))
  tree:add(f.listed_fourth, buffer(24, 8))
end

function dissect.heartbeat(buffer, tree)
  tree:add(f.heartbeat_sequence, buffer(0, 8))
  tree:add(f.heartbeat_oldest, buffer(8, 8))
  tree:add(f.heartbeat_sent_us, buffer(16, 8))
  tree:add(f.heartbeat_incarnation, buffer(24, 8))
end

function dissect.operation(buffer, tree)
  local branch
  tree:add(f.operation_key_high, buffer(0, 8))
  tree:add(f.operation_key_low, buffer(8, 8))
  tree:add(f.operation_request, buffer(16, 8))
  tree:add(f.operation_expected, buffer(24, 8))
  tree:add(f.operation_expected_epoch, buffer(32, 4))
  tree:add(f.operation_group, buffer(36, 2))
  tree:add(f.operation_client, buffer(38, 2))
  tree:add(f.operation_reply_port, buffer(40, 2))
  tree:add(f.operation_length, buffer(42, 2))
  tree:add(f.operation_lane, buffer(44, 1))
  tree:add(f.operation_condition, buffer(45, 1))
  branch = tree:add(f.operation_flags, buffer(46, 2))
  branch:add(f.operation_flags_present, buffer(46, 2))
  branch:add(f.operation_flags_leased, buffer(46, 2))
  branch:add(f.operation_flags_leaving, buffer(46, 2))
  tree:add(f.operation_check, buffer(48, 8))
  tree:add(f.operation_first_epoch, buffer(56, 4))
  tree:add(f.operation_reserved, buffer(60, 4))
end

function dissect.effect(buffer, tree)
  local branch
  tree:add(f.effect_key_high, buffer(0, 8))
  tree:add(f.effect_key_low, buffer(8, 8))
  tree:add(f.effect_request, buffer(16, 8))
  tree:add(f.effect_sequence, buffer(24, 8))
  tree:add(f.effect_epoch, buffer(32, 4))
  tree:add(f.effect_group, buffer(36, 2))
  tree:add(f.effect_client, buffer(38, 2))
  tree:add(f.effect_reply_port, buffer(40, 2))
  tree:add(f.effect_length, buffer(42, 2))
  tree:add(f.effect_lane, buffer(44, 1))
  tree:add(f.effect_outcome, buffer(45, 1))
  branch = tree:add(f.effect_flags, buffer(46, 2))
  branch:add(f.effect_flags_present, buffer(46, 2))
  branch:add(f.effect_flags_leased, buffer(46, 2))
  branch:add(f.effect_flags_leaving, buffer(46, 2))
  tree:add(f.effect_own_sequence, buffer(48, 8))
  tree:add(f.effect_own_epoch, buffer(56, 4))
  tree:add(f.effect_owner, buffer(60, 4))
end

function dissect.routes(buffer, tree)
  tree:add(f.routes_first, buffer(0, 2))
  tree:add(f.routes_base, buffer(2, 2))
  tree:add(f.routes_groups, buffer(4, 2))
  tree:add(f.routes_reserved, buffer(6, 58))
end

function dissect.route(buffer, tree)
  tree:add(f.route_epoch, buffer(0, 4))
  tree:add(f.route_head_address, buffer(4, 4))
  tree:add(f.route_tail_address, buffer(8, 4))
  tree:add(f.route_head_port, buffer(12, 2))
  tree:add(f.route_tail_port, buffer(14, 2))
  tree:add(f.route_reserved, buffer(16, 16))
end

function dissect.watch(buffer, tree)
  tree:add(f.watch_key_high, buffer(0, 8))
  tree:add(f.watch_key_low, buffer(8, 8))
  tree:add(f.watch_request, buffer(16, 8))
  tree:add(f.watch_number, buffer(24, 8))
  tree:add(f.watch_scope, buffer(32, 1))
  tree:add(f.watch_outcome, buffer(33, 1))
  tree:add(f.watch_changes, buffer(34, 2))
  tree:add(f.watch_group, buffer(36, 2))
  tree:add(f.watch_client, buffer(38, 2))
  tree:add(f.watch_reply_port, buffer(40, 2))
  tree:add(f.watch_length, buffer(42, 2))
  tree:add(f.watch_reserved, buffer(44, 4))
  tree:add(f.watch_check, buffer(48, 8))
  tree:add(f.watch_history, buffer(56, 8))
end

function dissect.change(buffer, tree)
  local branch
  tree:add(f.change_sequence, buffer(0, 8))
  tree:add(f.change_before_sequence, buffer(8, 8))
  tree:add(f.change_epoch, buffer(16, 4))
  tree:add(f.change_before_epoch, buffer(20, 4))
  tree:add(f.change_length, buffer(24, 2))
  tree:add(f.change_name_length, buffer(26, 2))
  branch = tree:add(f.change_flags, buffer(28, 2))
  branch:add(f.change_flags_present, buffer(28, 2))
  branch:add(f.change_flags_leased, buffer(28, 2))
  branch:add(f.change_flags_leaving, buffer(28, 2))
  tree:add(f.change_part, buffer(30, 1))
  tree:add(f.change_reserved, buffer(31, 1))
end

function dissect.placement(buffer, tree)
  tree:add(f.placement_boot, buffer(0, 8))
  tree:add(f.placement_pass, buffer(8, 8))
  tree:add(f.placement_epoch, buffer(16, 4))
  tree:add(f.placement_group, buffer(20, 2))
  tree:add(f.placement_previous, buffer(22, 2))
  tree:add(f.placement_next, buffer(24, 2))
  tree:add(f.placement_source, buffer(26, 2))
  tree:add(f.placement_role, buffer(28, 1))
  tree:add(f.placement_refused, buffer(29, 1))
  tree:add(f.placement_head_port, buffer(30, 2))
  tree:add(f.placement_head_address, buffer(32, 4))
  tree:add(f.placement_tail_address, buffer(36, 4))
  tree:add(f.placement_tail_port, buffer(40, 2))
  tree:add(f.placement_reserved, buffer(42, 22))
end

function dissect.renewal(buffer, tree)
  tree:add(f.renewal_boot, buffer(0, 8))
  tree:add(f.renewal_sent_us, buffer(8, 8))
  tree:add(f.renewal_lease_us, buffer(16, 4))
  tree:add(f.renewal_refused, buffer(20, 1))
  tree:add(f.renewal_reserved, buffer(21, 43))
end

function dissect.copied(buffer, tree)
  local branch
  tree:add(f.copied_key_high, buffer(0, 8))
  tree:add(f.copied_key_low, buffer(8, 8))
  tree:add(f.copied_nonce, buffer(16, 8))
  tree:add(f.copied_sequence, buffer(24, 8))
  tree:add(f.copied_epoch, buffer(32, 4))
  tree:add(f.copied_group, buffer(36, 2))
  tree:add(f.copied_length, buffer(38, 2))
  branch = tree:add(f.copied_flags, buffer(40, 2))
  branch:add(f.copied_flags_present, buffer(40, 2))
  branch:add(f.copied_flags_leased, buffer(40, 2))
  branch:add(f.copied_flags_leaving, buffer(40, 2))
  tree:add(f.copied_part, buffer(42, 1))
  tree:add(f.copied_reserved, buffer(43, 13))
  branch = tree:add(f.copied_owner, buffer(56, 8))
  branch:add(f.copied_owner_zero, buffer(56, 8))
  branch:add(f.copied_owner_handle, buffer(56, 8))
  branch:add(f.copied_owner_incarnation, buffer(56, 8))
end

function dissect.attempt(buffer, tree)
  local branch
  tree:add(f.attempt_name, buffer(0, 8))
  tree:add(f.attempt_request, buffer(8, 8))
  tree:add(f.attempt_ticket, buffer(16, 8))
  tree:add(f.attempt_over, buffer(24, 8))
  tree:add(f.attempt_number, buffer(32, 8))
  tree:add(f.attempt_order, buffer(40, 8))
  tree:add(f.attempt_holder, buffer(48, 2))
  tree:add(f.attempt_reply_port, buffer(50, 2))
  tree:add(f.attempt_room, buffer(52, 2))
  branch = tree:add(f.attempt_flags, buffer(54, 1))
  branch:add(f.attempt_flags_exclusive, buffer(54, 1))
  branch:add(f.attempt_flags_try, buffer(54, 1))
  branch:add(f.attempt_flags_more, buffer(54, 1))
  tree:add(f.attempt_cause, buffer(55, 1))
  tree:add(f.attempt_sent_us, buffer(56, 8))
end

function dissect.fetch(buffer, tree)
  local branch
  tree:add(f.fetch_name, buffer(0, 8))
  tree:add(f.fetch_request, buffer(8, 8))
  tree:add(f.fetch_ticket, buffer(16, 8))
  tree:add(f.fetch_incarnation, buffer(24, 8))
  tree:add(f.fetch_reserved, buffer(32, 16))
  tree:add(f.fetch_holder, buffer(48, 2))
  tree:add(f.fetch_reply_port, buffer(50, 2))
  tree:add(f.fetch_length, buffer(52, 2))
  branch = tree:add(f.fetch_flags, buffer(54, 1))
  branch:add(f.fetch_flags_exclusive, buffer(54, 1))
  branch:add(f.fetch_flags_try, buffer(54, 1))
  branch:add(f.fetch_flags_more, buffer(54, 1))
  tree:add(f.fetch_cause, buffer(55, 1))
  tree:add(f.fetch_sent_us, buffer(56, 8))
end

-- By service and kind: the body's size and dissector, and whether entries or blocks follow it.
local body_of = {
  [0] = {
    [1] = { name = "ENROL", bytes = 80, title = "Enrol", dissect = dissect.enrol },
    [2] = { name = "ENROLLED", bytes = 40, title = "Enrolled", dissect = dissect.enrolled },
    [3] = { name = "HEARTBEAT", bytes = 32, title = "Heartbeat", dissect = dissect.heartbeat },
    [4] = { name = "HEARTBEAT_ACK", bytes = 32, title = "Heartbeat", dissect = dissect.heartbeat },
    [5] = { name = "LEAVE", bytes = 32, title = "Heartbeat", dissect = dissect.heartbeat },
    [6] = { name = "LEFT", bytes = 32, title = "Heartbeat", dissect = dissect.heartbeat },
    [7] = { name = "DOWN", bytes = 32, title = "Heartbeat", dissect = dissect.heartbeat },
    [8] = { name = "DOWN_ACK", bytes = 32, title = "Heartbeat", dissect = dissect.heartbeat },
    [9] = { name = "STALE", bytes = 32, title = "Heartbeat", dissect = dissect.heartbeat },
    [10] = { name = "TURN", bytes = 32, title = "Heartbeat", dissect = dissect.heartbeat },
    [11] = { name = "TURN_ACK", bytes = 32, title = "Heartbeat", dissect = dissect.heartbeat },
    [12] = { name = "NAMES", bytes = 64, blocks = true, title = "Names", dissect = dissect.names },
    [13] = { name = "POLICY", bytes = 32, title = "Heartbeat", dissect = dissect.heartbeat },
    [14] = { name = "POLICY_ACK", bytes = 32, title = "Heartbeat", dissect = dissect.heartbeat },
  },
  [1] = {
    [1] = { name = "ACQUIRE", bytes = 0, entries = true },
    [2] = { name = "GRANT", bytes = 0, entries = true },
    [3] = { name = "JOIN", bytes = 0, entries = true },
    [4] = { name = "RELEASE", bytes = 0, entries = true },
    [5] = { name = "CANCEL", bytes = 0, entries = true },
    [6] = { name = "RELEASED", bytes = 0, entries = true },
    [7] = { name = "DOWNGRADE", bytes = 0, entries = true },
    [8] = { name = "RETENURE", bytes = 0, entries = true },
    [9] = { name = "RETENURED", bytes = 0, entries = true },
    [10] = { name = "BUSY", bytes = 0, entries = true },
    [11] = { name = "RECOVERING", bytes = 0, entries = true },
    [12] = { name = "QUEUE", bytes = 0, entries = true },
    [13] = { name = "QUEUED", bytes = 0, entries = true },
    [14] = { name = "GAP", bytes = 0, entries = true },
    [15] = { name = "CENSUS", bytes = 0, entries = true },
    [16] = { name = "REPORT", bytes = 0, entries = true },
    [17] = { name = "ADOPT", bytes = 0, entries = true },
    [18] = { name = "ADOPTED", bytes = 0, entries = true },
    [19] = { name = "INSPECT", bytes = 0, entries = true },
    [20] = { name = "REJECT", bytes = 0, entries = true },
    [21] = { name = "FREE", bytes = 0, entries = true },
    [22] = { name = "FREED", bytes = 0, entries = true },
  },
  [2] = {
    [1] = { name = "ACQUIRE", bytes = 64, title = "Attempt", dissect = dissect.attempt },
    [2] = { name = "GRANT", bytes = 64, title = "Attempt", dissect = dissect.attempt },
    [3] = { name = "QUEUED", bytes = 64, title = "Attempt", dissect = dissect.attempt },
    [4] = { name = "RELEASE", bytes = 64, title = "Attempt", dissect = dissect.attempt },
    [5] = { name = "CANCEL", bytes = 64, title = "Attempt", dissect = dissect.attempt },
    [6] = { name = "RELEASED", bytes = 64, title = "Attempt", dissect = dissect.attempt },
    [7] = { name = "NEXT", bytes = 64, title = "Attempt", dissect = dissect.attempt },
    [8] = { name = "BUSY", bytes = 64, title = "Attempt", dissect = dissect.attempt },
    [9] = { name = "RECOVERING", bytes = 64, title = "Attempt", dissect = dissect.attempt },
    [10] = { name = "PUSH", bytes = 64, title = "Attempt", dissect = dissect.attempt },
    [11] = { name = "SETTLE", bytes = 64, title = "Attempt", dissect = dissect.attempt },
    [12] = { name = "PUSHED", bytes = 64, title = "Attempt", dissect = dissect.attempt },
    [13] = { name = "ROOM", bytes = 64, title = "Attempt", dissect = dissect.attempt },
    [14] = { name = "SERVE", bytes = 64, title = "Attempt", dissect = dissect.attempt },
    [15] = { name = "SERVING", bytes = 64, title = "Attempt", dissect = dissect.attempt },
    [16] = { name = "RECALL", bytes = 64, title = "Attempt", dissect = dissect.attempt },
    [17] = { name = "CEDED", bytes = 64, title = "Attempt", dissect = dissect.attempt },
    [18] = { name = "YIELD", bytes = 64, title = "Attempt", dissect = dissect.attempt },
    [19] = { name = "TAKEN", bytes = 64, title = "Attempt", dissect = dissect.attempt },
    [20] = { name = "ASKED", bytes = 64, title = "Attempt", dissect = dissect.attempt },
    [21] = { name = "REJECT", bytes = 64, title = "Attempt", dissect = dissect.attempt },
    [22] = { name = "FETCH", bytes = 64, blocks = true, title = "Fetch", dissect = dissect.fetch },
    [23] = { name = "FETCHED", bytes = 64, blocks = true, title = "Fetch", dissect = dissect.fetch },
  },
  [3] = {
    [1] = { name = "READ", bytes = 64, blocks = true, title = "Operation", dissect = dissect.operation },
    [2] = { name = "WRITE", bytes = 64, blocks = true, title = "Operation", dissect = dissect.operation },
    [3] = { name = "DELETE", bytes = 64, blocks = true, title = "Operation", dissect = dissect.operation },
    [4] = { name = "APPLY", bytes = 64, blocks = true, title = "Effect", dissect = dissect.effect },
    [5] = { name = "ANSWER", bytes = 64, blocks = true, title = "Effect", dissect = dissect.effect },
    [6] = { name = "INSERT", bytes = 64, blocks = true, title = "Operation", dissect = dissect.operation },
    [7] = { name = "INSTALL", bytes = 64, blocks = true, title = "Effect", dissect = dissect.effect },
    [8] = { name = "MAP", bytes = 64, blocks = true, title = "Routes", dissect = dissect.routes },
    [9] = { name = "ROUTES", bytes = 64, blocks = true, title = "Routes", dissect = dissect.routes },
    [10] = { name = "PLACE", bytes = 64, blocks = true, title = "Placement", dissect = dissect.placement },
    [11] = { name = "PLACED", bytes = 64, blocks = true, title = "Placement", dissect = dissect.placement },
    [12] = { name = "RENEW", bytes = 64, blocks = true, title = "Renewal", dissect = dissect.renewal },
    [13] = { name = "RENEWED", bytes = 64, blocks = true, title = "Renewal", dissect = dissect.renewal },
    [14] = { name = "FETCH", bytes = 64, blocks = true, title = "Copied", dissect = dissect.copied },
    [15] = { name = "COPY", bytes = 64, blocks = true, title = "Copied", dissect = dissect.copied },
    [16] = { name = "WATCH", bytes = 64, blocks = true, title = "Watch", dissect = dissect.watch },
    [17] = { name = "EVENT", bytes = 64, blocks = true, title = "Watch", dissect = dissect.watch },
    [18] = { name = "REMOVE", bytes = 64, blocks = true, title = "Copied", dissect = dissect.copied },
    [19] = { name = "REMOVED", bytes = 64, blocks = true, title = "Copied", dissect = dissect.copied },
  },
}

local HEADER, ENTRY, MAX_ENTRIES, BLOCK, MAX_BLOCKS = 32, 32, 32, 32, 30
local MAGIC, MAJOR = 0x5753, 1

-- Why a packet is dropped, or nil and the size of its body; faults in the order of docs/packets.md.
local function fault(buffer)
  if buffer:len() < HEADER then return "too_short" end
  if buffer(0, 2):uint() ~= MAGIC then return "bad_magic" end
  if bit.rshift(buffer(2, 1):uint(), 4) ~= MAJOR then return "foreign_version" end
  local bodies = body_of[buffer(3, 1):uint()]
  if not bodies then return "unknown_service" end
  local body = bodies[buffer(4, 1):uint()]
  if not body then return "unknown_kind" end
  local count = buffer(5, 1):uint()
  local least, most, each = 0, 0, 0
  if body.entries then least, most, each = 1, MAX_ENTRIES, ENTRY end
  if body.blocks then most, each = MAX_BLOCKS, BLOCK end
  if count < least or count > most then return "bad_count" end
  if buffer:len() ~= HEADER + body.bytes + count * each then return "bad_length" end
  return nil, body, count
end

function wayside.dissector(buffer, pinfo, tree)
  pinfo.cols.protocol = "Wayside"
  local root = tree:add(wayside, buffer())
  local drop, body, count = fault(buffer)
  if buffer:len() >= HEADER and buffer(0, 2):uint() == MAGIC then
    dissect.header(buffer(0, HEADER), root:add(wayside, buffer(0, HEADER), "Header"))
  end
  if drop then
    root:add(f.drop, drop):set_generated()
    root:add_expert_info(PI_MALFORMED, PI_ERROR, "Dropped as " .. drop)
    pinfo.cols.info = "Dropped as " .. drop
    return buffer:len()
  end
  local info = string.format("%s %d > %d", body.name, buffer(8, 2):uint(), buffer(10, 2):uint())
  if body.entries then
    for index = 0, count - 1 do
      local entry = buffer(HEADER + index * ENTRY, ENTRY)
      dissect.entry(entry, root:add(wayside, entry, "Entry " .. index))
    end
    info = info .. string.format(", %d %s, slot %d", count, count == 1 and "entry" or "entries", buffer(HEADER + 16, 4):uint())
  else
    local whole = buffer(HEADER, body.bytes)
    body.dissect(whole, root:add(wayside, whole, body.title))
    if body.blocks then info = info .. string.format(", %d %s", count, count == 1 and "block" or "blocks") end
    if count > 0 then root:add(f.blocks, buffer(HEADER + body.bytes)) end
  end
  pinfo.cols.info = info
  return buffer:len()
end

DissectorTable.get("udp.port"):add(7600, wayside)
