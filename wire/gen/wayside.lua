-- SPDX-License-Identifier: Apache-2.0
-- Wayside's packets for Wireshark. Generated from wire/messages.toml by `cargo xtask wire`; do not edit.
-- Use: tshark -X lua_script:wayside.lua, or put it among Wireshark's personal Lua plugins.

local wayside = Proto("wayside", "Wayside")
local f = wayside.fields
local names = {}

names.service = { [0] = "fabric", [1] = "lock" }
names.fabric_kind = { [1] = "enrol", [2] = "enrolled", [3] = "heartbeat", [4] = "heartbeat_ack", [5] = "leave", [6] = "left", [7] = "down", [8] = "down_ack", [9] = "stale" }
names.lock_kind = { [1] = "acquire", [2] = "grant", [3] = "join", [4] = "release", [5] = "cancel", [6] = "released", [7] = "downgrade", [8] = "retenure", [9] = "retenured", [10] = "busy", [11] = "recovering", [12] = "queue", [13] = "queued", [14] = "gap", [15] = "census", [16] = "report", [17] = "adopt", [18] = "adopted", [19] = "inspect" }
names.slot_state = { [0] = "unheld", [1] = "open", [2] = "managed", [3] = "frozen" }
names.node_state = { [0] = "vacant", [1] = "live", [2] = "expired" }
names.policy = { [0] = "fair", [1] = "read_preferring", [2] = "write_preferring" }
names.refusal = { [0] = "none", [1] = "version", [2] = "namespace", [3] = "full", [4] = "recovering" }
names.drop_reason = { [0] = "none", [1] = "too_short", [2] = "bad_magic", [3] = "foreign_version", [4] = "unknown_service", [5] = "unknown_kind", [6] = "bad_length", [7] = "bad_count", [8] = "unknown_namespace", [9] = "bad_slot", [10] = "unknown_source", [11] = "source_not_live", [12] = "holder_not_live", [13] = "foreign_holder", [14] = "stale_request", [15] = "stale_epoch", [16] = "destination_not_live", [17] = "stale_heartbeat", [18] = "bad_state", [19] = "lost_race", [20] = "bad_tag", [21] = "not_granted", [22] = "enrol_in_clear", [23] = "no_key", [24] = "not_serving" }

f.header_magic = ProtoField.uint16("wayside.magic", "magic", base.HEX, nil, nil, "0x5753")
f.header_version = ProtoField.uint8("wayside.version", "version", base.HEX, nil, nil, "major in the high four bits, minor in the low four")
f.header_service = ProtoField.uint8("wayside.service", "service", base.DEC, names.service, nil, "which service's kinds these are")
f.header_kind = ProtoField.uint8("wayside.kind", "kind", base.DEC, nil, nil, "the message")
f.header_count = ProtoField.uint8("wayside.count", "count", base.DEC, nil, nil, "lock entries that follow; 0 where the kind has a body of its own")
f.header_flags = ProtoField.uint16("wayside.flags", "flags", base.HEX, nil, nil, "header flags")
f.header_flags_claim = ProtoField.bool("wayside.flags.claim", "claim", 16, nil, 0x1, "RETENURE: a claim")
f.header_flags_applied = ProtoField.bool("wayside.flags.applied", "applied", 16, nil, 0x2, "RETENURED: the change stands")
f.header_flags_refused = ProtoField.bool("wayside.flags.refused", "refused", 16, nil, 0x4, "RETENURED: joins differ, or DEAD; ENROLLED: no session")
f.header_flags_stale_tenure = ProtoField.bool("wayside.flags.stale_tenure", "stale_tenure", 16, nil, 0x8, "RETENURED: the tenure is over")
f.header_flags_last = ProtoField.bool("wayside.flags.last", "last", 16, nil, 0x10, "last page")
f.header_flags_dead = ProtoField.bool("wayside.flags.dead", "dead", 16, nil, 0x20, "the node in question is not LIVE")
f.header_flags_expired = ProtoField.bool("wayside.flags.expired", "expired", 16, nil, 0x40, "HEARTBEAT_ACK: the session is over")
f.header_flags_clean = ProtoField.bool("wayside.flags.clean", "clean", 16, nil, 0x80, "LEAVE: nothing is left to sweep")
f.header_flags_retry = ProtoField.bool("wayside.flags.retry", "retry", 16, nil, 0x100, "BUSY: send it again after a pause")
f.header_flags_key = ProtoField.bool("wayside.flags.key", "key", 16, nil, 0x200, "the tag is made with the key of an odd rotation; otherwise of an even one")
f.header_source = ProtoField.uint16("wayside.source", "source", base.DEC, nil, nil, "handle of the sender; of the agent in a switch's GRANT by join")
f.header_destination = ProtoField.uint16("wayside.destination", "destination", base.DEC, nil, nil, "handle of the receiver; 0 to the switch or the controller")
f.header_epoch = ProtoField.uint32("wayside.epoch", "epoch", base.DEC, nil, nil, "boot epoch of the switch (23 bits used)")
f.header_shard_map = ProtoField.uint32("wayside.shard_map", "shard_map", base.DEC, nil, nil, "version of the shard map that the sender used")
f.header_namespace = ProtoField.uint16("wayside.namespace", "namespace", base.DEC, nil, nil, "namespace of the slots")
f.header_position = ProtoField.uint16("wayside.position", "position", base.DEC, nil, nil, "hops of a request; offset or total of waiters; page of a report; dead handle of a DOWN")
f.header_tag = ProtoField.uint64("wayside.tag", "tag", base.HEX, nil, nil, "SipHash-2-4 over the packet with this field as 0; 0 while authentication is off")
f.fabric_kind = ProtoField.uint8("wayside.fabric.kind", "Kind", base.DEC, names.fabric_kind)
f.lock_kind = ProtoField.uint8("wayside.lock.kind", "Kind", base.DEC, names.lock_kind)

f.entry_name = ProtoField.uint64("wayside.entry.name", "name", base.HEX, nil, nil, "name id")
f.entry_request = ProtoField.uint64("wayside.entry.request", "request", base.HEX, nil, nil, "request id; nonce of a RETENURE; id of a census")
f.entry_slot = ProtoField.uint32("wayside.entry.slot", "slot", base.DEC, nil, nil, "slot within the namespace")
f.entry_tenure = ProtoField.uint32("wayside.entry.tenure", "tenure", base.DEC, nil, nil, "tenure of the slot (of the grant, of the condition)")
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
f.entry_sequence = ProtoField.uint8("wayside.entry.sequence", "sequence", base.DEC, nil, nil, "agent's sequence of the token")

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
f.enrolled_reserved = ProtoField.uint8("wayside.enrolled.reserved", "reserved", base.DEC, nil, nil, "zero")
f.enrolled_lifeline = ProtoField.uint64("wayside.enrolled.lifeline", "lifeline", base.HEX, nil, nil, "secret that ties the local connection to this session")

f.heartbeat_sequence = ProtoField.uint64("wayside.heartbeat.sequence", "sequence", base.DEC, nil, nil, "of the heartbeat (56 bits), or of the DOWN")
f.heartbeat_oldest = ProtoField.uint64("wayside.heartbeat.oldest", "oldest", base.DEC, nil, nil, "oldest outstanding request id; of a DOWN: unused")
f.heartbeat_sent_us = ProtoField.uint64("wayside.heartbeat.sent_us", "sent_us (us)", base.DEC, nil, nil, "sender's clock, given back by the acknowledgement")
f.heartbeat_incarnation = ProtoField.uint64("wayside.heartbeat.incarnation", "incarnation", base.DEC, nil, nil, "of the session meant")

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
  tree:add(f.enrolled_reserved, buffer(31, 1))
  tree:add(f.enrolled_lifeline, buffer(32, 8))
end

function dissect.heartbeat(buffer, tree)
  tree:add(f.heartbeat_sequence, buffer(0, 8))
  tree:add(f.heartbeat_oldest, buffer(8, 8))
  tree:add(f.heartbeat_sent_us, buffer(16, 8))
  tree:add(f.heartbeat_incarnation, buffer(24, 8))
end

-- By service and kind: the body's size and dissector, or that there are entries.
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
  },
  [1] = {
    [1] = { name = "ACQUIRE", entries = true },
    [2] = { name = "GRANT", entries = true },
    [3] = { name = "JOIN", entries = true },
    [4] = { name = "RELEASE", entries = true },
    [5] = { name = "CANCEL", entries = true },
    [6] = { name = "RELEASED", entries = true },
    [7] = { name = "DOWNGRADE", entries = true },
    [8] = { name = "RETENURE", entries = true },
    [9] = { name = "RETENURED", entries = true },
    [10] = { name = "BUSY", entries = true },
    [11] = { name = "RECOVERING", entries = true },
    [12] = { name = "QUEUE", entries = true },
    [13] = { name = "QUEUED", entries = true },
    [14] = { name = "GAP", entries = true },
    [15] = { name = "CENSUS", entries = true },
    [16] = { name = "REPORT", entries = true },
    [17] = { name = "ADOPT", entries = true },
    [18] = { name = "ADOPTED", entries = true },
    [19] = { name = "INSPECT", entries = true },
  },
}

local HEADER, ENTRY, MOST = 32, 32, 32
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
  if body.entries and (count < 1 or count > MOST) then return "bad_count" end
  if not body.entries and count ~= 0 then return "bad_count" end
  local length = HEADER + (body.entries and count * ENTRY or body.bytes)
  if buffer:len() ~= length then return "bad_length" end
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
    local rest = buffer(HEADER)
    body.dissect(rest, root:add(wayside, rest, body.title))
  end
  pinfo.cols.info = info
  return buffer:len()
end

DissectorTable.get("udp.port"):add(7600, wayside)
