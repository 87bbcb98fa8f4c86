//! Cases of `dataplane/cases/*.cases`, as its README.md describes them: read, and run on an engine.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::str::SplitWhitespace;

use wayside_protocol::chain::Key;
use wayside_protocol::memory::{NodeWord, SlotWord};
use wayside_wire::{
    Attempt, BODY, ChainKind, Condition, DropReason, Effect, Entry, FabricKind, Header, Heartbeat, LockKind, NodeState,
    Operation, Outcome, Policy, QueueKind, SlotBits, SlotState, entry_at, entry_flag, header_flag, limits, name_hash,
    packet_bytes, service, value_flag,
};

use super::chain::{KEY, lane_index, padded};
use super::queue::{set_attempt, set_queues};
use super::{ACTIONS, DROP, Engine, Keys, Lease, Race, State, Strike, TO_CONTROLLER, TO_NODE, Verdict, counter_names};

/// One case: a slot and its surroundings, one packet, and what becomes of both.
#[derive(Clone)]
pub struct Case {
    pub file: PathBuf,
    pub line: usize,
    pub title: String,
    pub race: Option<Race>,
    before: State,
    after: State,
    packet: Packet,
    tag: Tag,
    from_port: u16,
    verdict: Verdict,
    out: Packet,
    unchanged: bool,
    /// Service and kind of the copy, if there is one.
    copy: Option<(u8, u8)>,
    counts: Vec<(String, u64)>,
}

/// How a packet comes in while authentication is on.
#[derive(Clone, Copy)]
struct Tag {
    /// Whose key made it; None: the source's own.
    of: Option<u16>,
    slot: usize,
    /// One bit of the packet has changed since.
    is_bad: bool,
    /// There is none.
    is_none: bool,
}

/// A packet, before it is bytes.
#[derive(Clone, Default)]
struct Packet {
    header: Header,
    entries: Vec<Entry>,
    heartbeat: Option<Heartbeat>,
    /// Of a packet of the chain service: its operation, effect or routes, and its blocks.
    chain: Option<([u8; CHAIN_BODY], Vec<u8>)>,
    /// Of a packet of the queue service. In a FETCH its `over` is the incarnation, and `room` the length.
    attempt: Option<Attempt>,
    /// What follows that.
    blocks: Vec<u8>,
    /// Bytes that differ from what the header's fields say: offset and value.
    patches: Vec<(usize, u8)>,
    /// Cut or padded with zeros to this length.
    length: Option<usize>,
}

const CHAIN_BODY: usize = Operation::BYTES;

impl Packet {
    fn bytes(&self) -> Vec<u8> {
        if let Some((body, blocks)) = &self.chain {
            let mut bytes = vec![0; BODY];
            self.header.write(&mut bytes);
            bytes.extend(body);
            bytes.extend(blocks);
            return self.patched(bytes);
        }
        if let Some(attempt) = self.attempt.filter(|_| self.header.service == service::QUEUE) {
            let mut bytes = vec![0; BODY + Attempt::BYTES];
            self.header.write(&mut bytes);
            attempt.write(&mut bytes, BODY);
            bytes.extend(&self.blocks);
            return self.patched(bytes);
        }
        let body = if self.heartbeat.is_some() { 1 } else { self.entries.len() };
        let mut bytes = vec![0; entry_at(body)];
        self.header.write(&mut bytes);
        for (index, entry) in self.entries.iter().enumerate() {
            entry.write(&mut bytes, entry_at(index));
        }
        if let Some(heartbeat) = &self.heartbeat {
            heartbeat.write(&mut bytes, entry_at(0));
        }
        self.patched(bytes)
    }

    fn patched(&self, mut bytes: Vec<u8>) -> Vec<u8> {
        for &(offset, value) in &self.patches {
            bytes[offset] = value;
        }
        bytes.resize(self.length.unwrap_or(bytes.len()), 0);
        bytes
    }
}

/// Every case, in the order of files and lines.
pub fn all() -> Vec<Case> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dataplane/cases");
    let mut files: Vec<PathBuf> = std::fs::read_dir(&directory).unwrap().map(|file| file.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "cases"));
    files.sort();
    assert!(!files.is_empty(), "no cases in {}", directory.display());
    files.iter().flat_map(|file| read(file, &directory.join("given"))).collect()
}

impl Case {
    /// Runs it. What differs, in words, or nothing.
    pub fn run(&self, engine: &mut dyn Engine) -> Option<String> {
        engine.set(&self.before);
        let before = engine.counters();
        let packet = self.packet_in();
        let (verdict, out) = engine.process(&packet, self.from_port, self.race);
        let mut wrong = String::new();
        let mut compare = |what: &str, is: String, expected: String| {
            if is != expected {
                let _ = writeln!(wrong, "  {what}\n    is       {is}\n    expected {expected}");
            }
        };
        let mut expected = self.verdict;
        if expected.action != DROP {
            let expected_out = if self.unchanged { packet } else { self.out.bytes() };
            let expected_out = self.signed_for(self.receiver(), expected_out);
            expected.length = expected_out.len() as u16;
            compare("packet out", hex(&out), hex(&expected_out));
        }
        compare("verdict", format!("{verdict:?}"), format!("{expected:?}"));
        if let Some((of, kind)) = self.copy.filter(|_| out.len() >= 64) {
            let mut copy = self.out.clone();
            copy.header.kind = kind;
            // A JOIN names the holder as its source.
            copy.header.source = if of == service::LOCK { self.out.header.destination } else { 0 };
            copy.header.destination = self.out.header.source;
            let copy = self.signed_for(Some(copy.header.destination), copy.bytes());
            compare("copy", hex(&engine.copy(&out).expect("the node has a key")), hex(&copy));
        }
        let is = engine.get();
        for index in 0..is.slots.len() {
            compare(&format!("slot {index}"), slot(&is, index), slot(&self.after, index));
        }
        for index in 0..is.nodes.len() {
            compare(&format!("node {index}"), node(&is, index), node(&self.after, index));
        }
        for (index, (is, expected)) in is.keys.iter().zip(&self.after.keys).enumerate() {
            compare(&format!("keys {index}"), format!("{is:?}"), format!("{expected:?}"));
        }
        compare("regions", format!("{:?}", is.regions), format!("{:?}", self.after.regions));
        compare("groups", format!("{:?}", is.groups), format!("{:?}", self.after.groups));
        compare("buckets", format!("{:x?}", is.buckets), format!("{:x?}", self.after.buckets));
        compare("store", format!("{:?}", is.store), format!("{:?}", self.after.store));
        for (index, (is, expected)) in is.items.iter().zip(&self.after.items).enumerate() {
            compare(&format!("item {index}"), format!("{is:x?}"), format!("{expected:x?}"));
        }
        for (index, (is, expected)) in is.lanes.iter().zip(&self.after.lanes).enumerate() {
            compare(&format!("lane {index}"), format!("{is:x?}"), format!("{expected:x?}"));
        }
        for (index, (is, expected)) in is.queues.iter().zip(&self.after.queues).enumerate() {
            compare(&format!("queue {index}"), format!("{is:x?}"), format!("{expected:x?}"));
        }
        for (index, (is, expected)) in is.cells.iter().zip(&self.after.cells).enumerate() {
            compare(&format!("cell {index}"), format!("{is:x?}"), format!("{expected:x?}"));
        }
        compare("names", format!("{:x?}", is.names), format!("{:x?}", self.after.names));
        compare("servers", format!("{:?}", is.servers), format!("{:?}", self.after.servers));
        compare("directory", format!("{:?}", is.directory), format!("{:?}", self.after.directory));
        compare("globals", format!("{:?}", is.globals), format!("{:?}", self.after.globals));
        let counted = counter_names().into_iter().zip(before.iter().zip(engine.counters()));
        let counted = counted.filter(|(_, (before, after))| **before != *after);
        let mut counted: Vec<_> = counted.map(|(name, (before, after))| (name.to_string(), after - before)).collect();
        counted.sort();
        compare("counted", format!("{counted:?}"), format!("{:?}", self.counts));
        let place = format!("{}:{}", self.file.file_name().unwrap().to_string_lossy(), self.line);
        (!wrong.is_empty()).then(|| format!("{place} on {}: {}\n{wrong}", engine.name(), self.title))
    }

    /// The packet as its sender signed it, and what became of that.
    fn packet_in(&self) -> Vec<u8> {
        let mut bytes = self.packet.bytes();
        let Tag { of, slot, is_bad, is_none } = self.tag;
        if self.before.globals.authenticated == 0 || is_none || bytes.len() < entry_at(0) {
            return bytes;
        }
        Keys::of_handle(of.unwrap_or(self.packet.header.source)).sign_up(slot, &mut bytes);
        if is_bad {
            // The last bit of the last entry: nothing of a packet is left out.
            *bytes.last_mut().expect("a header at least") ^= 1;
        }
        bytes
    }

    fn receiver(&self) -> Option<u16> {
        match self.verdict.action {
            TO_NODE => Some(self.verdict.handle),
            TO_CONTROLLER => None,
            _ => Some(self.packet.header.source),
        }
    }

    fn signed_for(&self, receiver: Option<u16>, mut packet: Vec<u8>) -> Vec<u8> {
        if let Some(handle) = receiver.filter(|_| self.before.globals.authenticated != 0) {
            self.before.keys[usize::from(handle)].sign_down(&mut packet);
        }
        packet
    }

    /// What it shows: the kind that comes in, and the drop reason or the counters that go up.
    pub fn reaches(&self) -> impl Iterator<Item = &str> {
        self.counts.iter().map(|(name, _)| name.as_str())
    }
}

fn slot(state: &State, index: usize) -> String {
    let slot = state.slots[index];
    format!("{:?} hint {:#018x}", SlotWord::unpack(slot.w0), slot.w1)
}

fn node(state: &State, index: usize) -> String {
    format!("{:?} {:?}", NodeWord::unpack(state.nodes[index].word), state.nodes[index])
}

fn hex(bytes: &[u8]) -> String {
    bytes.chunks(8).map(|chunk| chunk.iter().map(|byte| format!("{byte:02x}")).collect::<String>() + " ").collect()
}

/// Reads a file of cases, which start from what is given.
fn read(file: &Path, given: &Path) -> Vec<Case> {
    let given = read_given(given);
    let text = std::fs::read_to_string(file).unwrap();
    let mut cases: Vec<Case> = Vec::new();
    let mut reader = Reader::default();
    for (number, word, rest) in lines(&text) {
        let place = format!("{}:{number}", file.display());
        if word == "case" {
            reader = Reader::default();
            cases.push(new_case(file, number, rest, &given));
        } else {
            let case = cases.last_mut().unwrap_or_else(|| panic!("{place}: no case begins before this line"));
            reader.line(case, word, &mut Words::new(rest, &place));
        }
    }
    for case in &mut cases {
        assert!(!case.counts.is_empty(), "{}:{}: a case ends in a verdict", file.display(), case.line);
        case.counts.sort();
    }
    cases
}

fn read_given(file: &Path) -> State {
    let text = std::fs::read_to_string(file).unwrap();
    let mut given = State::default();
    for (number, word, rest) in lines(&text) {
        set_state(&mut given, word, &mut Words::new(rest, &format!("{}:{number}", file.display())));
    }
    for handle in (0..given.nodes.len()).filter(|&handle| given.nodes[handle].word != 0) {
        given.keys[handle] = Keys::of_handle(handle as u16);
    }
    given
}

/// Number, first word and rest of every line that says something.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str, &str)> {
    text.lines().enumerate().filter_map(|(index, line)| {
        let line = line.split('#').next().expect("split gives at least one").trim();
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        (!word.is_empty()).then_some((index + 1, word, rest))
    })
}

fn new_case(file: &Path, line: usize, title: &str, given: &State) -> Case {
    Case {
        file: file.to_path_buf(),
        line,
        title: title.into(),
        race: None,
        before: given.clone(),
        after: given.clone(),
        packet: Packet::default(),
        tag: Tag { of: None, slot: 0, is_bad: false, is_none: false },
        from_port: 20_001,
        verdict: Verdict::default(),
        out: Packet::default(),
        unchanged: false,
        copy: None,
        counts: Vec::new(),
    }
}

/// Where in a case we are: entries belong to the last packet.
#[derive(Default)]
struct Reader {
    out: bool,
    entries_out: usize,
}

impl Reader {
    fn line(&mut self, case: &mut Case, word: &str, words: &mut Words) {
        match word {
            "race" => {
                let expires = words.maybe("expires").unwrap_or(0);
                let strikes = [
                    ("moves", Strike::Moves),
                    ("goes", Strike::Goes),
                    ("turns", Strike::Turns),
                    ("ends_lease", Strike::EndsLease),
                ];
                let strike =
                    strikes.into_iter().find_map(|(name, strike)| words.maybe(name).map(|number| (strike, number)));
                let (joined, loses) = (words.flag("joined"), words.flag("loses"));
                case.race = Some(Race { expires, joined, loses, strike });
            }
            "tag" => {
                case.tag = Tag {
                    of: words.maybe("of"),
                    slot: words.maybe::<u8>("slot").unwrap_or(0).into(),
                    is_bad: words.flag("bad"),
                    is_none: words.flag("none"),
                };
                assert_ne!(words.flag("good"), case.tag.is_bad || case.tag.is_none, "{}: one of three", words.place);
            }
            "in" => self.packet_in(case, words),
            "out" => self.packet_out(case, words),
            "entry" if self.out => {
                set_entry(&mut case.out.entries[self.entries_out], words);
                self.entries_out += 1;
            }
            "entry" => {
                case.packet.entries.push(Entry::default());
                set_entry(case.packet.entries.last_mut().expect("just pushed"), words);
                case.packet.header.count = case.packet.entries.len() as u8;
            }
            "body" => {
                let packet = if self.out { &mut case.out } else { &mut case.packet };
                let body = packet.heartbeat.get_or_insert_default();
                words.take_into("sequence", &mut body.sequence);
                words.take_into("oldest", &mut body.oldest);
                words.take_into("sent_us", &mut body.sent_us);
                words.take_into("incarnation", &mut body.incarnation);
            }
            "operation" | "effect" | "routes" => {
                let packet = if self.out { &mut case.out } else { &mut case.packet };
                set_chain(packet, word, words);
            }
            "patch" => {
                let packet = if self.out { &mut case.out } else { &mut case.packet };
                let offset = words.take("offset");
                packet.patches.push((offset, words.take("value")));
            }
            "drop" => {
                self.out = true;
                case.verdict.reason = words.reason();
                case.counts.push((case.verdict.reason().name().into(), 1));
            }
            // All is done, and nobody is told.
            "done" => {
                self.out = true;
                case.counts.push(("to_nobody".into(), 1));
            }
            "attempt" => {
                let packet = if self.out { &mut case.out } else { &mut case.packet };
                let attempt = packet.attempt.as_mut().expect("a packet of the queue service");
                if let Some(value) = words.value() {
                    attempt.room = value.len() as u16;
                    packet.blocks = padded(&value);
                    packet.header.count = (packet.blocks.len() / limits::BLOCK_BYTES) as u8;
                }
                set_attempt(attempt, words);
            }
            "copy" => {
                case.verdict.copy = words.maybe("agent").unwrap_or_else(|| words.take("node"));
                let is_join = case.out.header.service == service::LOCK;
                let name = if is_join { "join".into() } else { words.bare() };
                case.copy = kind_of(&name);
            }
            "count" => {
                while let Some((name, value)) = words.any() {
                    case.counts.push((name, value.map_or(1, |value| number(&value).unwrap())));
                }
            }
            "then" => {
                let word = words.bare();
                set_state(&mut case.after, &word, words);
            }
            _ => {
                set_state(&mut case.before, word, words);
                case.after = case.before.clone();
                return;
            }
        }
        words.end();
    }

    fn packet_in(&mut self, case: &mut Case, words: &mut Words) {
        let name = words.bare();
        let header = &mut case.packet.header;
        header.epoch = 7;
        header.namespace = 1;
        (header.service, header.kind) = kind_of(&name).unwrap_or_else(|| panic!("{}: no kind {name}", words.place));
        if header.service == service::CHAIN {
            header.epoch = 11;
        }
        words.take_into("from", &mut case.from_port);
        if let Some(length) = words.maybe("length") {
            case.packet.length = Some(length);
        }
        set_header(header, words);
        if header.service == service::QUEUE {
            let holder = header.source;
            case.packet.attempt = Some(Attempt { name: 0xaa, holder, ..Attempt::default() });
        }
        if header.service == service::CHAIN {
            // Of switches nothing but the client is known beforehand: the first node.
            let by_switch = [ChainKind::Apply, ChainKind::Install].map(|kind| kind as u8).contains(&header.kind);
            let (client, check) = if by_switch { (1, 0) } else { (header.source, KEY.check) };
            let request = 101 << 40 | 10;
            let (key_high, key_low) = (KEY.high, KEY.low);
            let operation = Operation { key_high, key_low, check, group: 1, client, request, ..Operation::default() };
            case.packet.chain = Some(([0; CHAIN_BODY], vec![]));
            case.packet.set_body(&mut |body| operation.write(body, 0));
        }
    }

    /// The packet as it came in, and what is different.
    fn packet_out(&mut self, case: &mut Case, words: &mut Words) {
        self.out = true;
        let action = words.bare();
        let known = ACTIONS.iter().position(|known| *known == action);
        case.verdict.action = known.unwrap_or_else(|| panic!("{}: no action {action}", words.place)) as u8;
        case.counts.push((action, 1));
        if case.verdict.action == TO_NODE {
            case.verdict.handle = words.take("handle");
            case.verdict.port = words.take("port");
        }
        if words.flag("because") {
            case.verdict.reason = words.reason();
            case.counts.push((case.verdict.reason().name().into(), 1));
        }
        case.out = case.packet.clone();
        if words.flag("unchanged") {
            case.unchanged = true;
            return;
        }
        let name = words.bare();
        let header = &mut case.out.header;
        (header.service, header.kind) = kind_of(&name).unwrap_or_else(|| panic!("{}: no kind {name}", words.place));
        set_header(header, words);
        case.out.length = None;
        if let Some((_, blocks)) = &mut case.out.chain {
            blocks.clear();
            case.out.header.count = 0;
        } else if header.service == service::QUEUE {
            header.count = 0;
            case.out.blocks.clear();
        } else if let Ok(length) = packet_bytes(header.service, header.kind, header.count) {
            case.out.length = Some(length);
        }
    }
}

impl Verdict {
    fn reason(&self) -> DropReason {
        DropReason::ALL[usize::from(self.reason)]
    }
}

fn kind_of(name: &str) -> Option<(u8, u8)> {
    if let Some(name) = name.strip_prefix("queue/") {
        let known = QueueKind::ALL.into_iter().find(|kind| kind.name() == name);
        return known.map(|kind| (service::QUEUE, kind as u8));
    }
    if let Some((service, kind)) = name.split_once('/') {
        return Some((number(service)? as u8, number(kind)? as u8));
    }
    let fabric = (0..=u8::MAX).filter_map(|kind| FabricKind::try_from(kind).ok()).find(|kind| kind.name() == name);
    let lock = (0..=u8::MAX).filter_map(|kind| LockKind::try_from(kind).ok()).find(|kind| kind.name() == name);
    let chain = (0..=u8::MAX).filter_map(|kind| ChainKind::try_from(kind).ok()).find(|kind| kind.name() == name);
    let fabric = fabric.map(|kind| (service::FABRIC, kind as u8));
    fabric.or(lock.map(|kind| (service::LOCK, kind as u8))).or(chain.map(|kind| (service::CHAIN, kind as u8)))
}

fn set_header(header: &mut Header, words: &mut Words) {
    words.take_into("service", &mut header.service);
    words.take_into("kind", &mut header.kind);
    words.take_into("count", &mut header.count);
    words.take_into("source", &mut header.source);
    words.take_into("destination", &mut header.destination);
    words.take_into("epoch", &mut header.epoch);
    words.take_into("shard_map", &mut header.shard_map);
    words.take_into("namespace", &mut header.namespace);
    words.take_into("position", &mut header.position);
    words.take_into("tag", &mut header.tag);
    let flags = [
        ("claim", header_flag::CLAIM),
        ("applied", header_flag::APPLIED),
        ("refused", header_flag::REFUSED),
        ("stale_tenure", header_flag::STALE_TENURE),
        ("last", header_flag::LAST),
        ("dead", header_flag::DEAD),
        ("expired", header_flag::EXPIRED),
        ("retry", header_flag::RETRY),
        ("quiet", header_flag::QUIET),
        ("key", header_flag::KEY),
        ("no_flags", 0),
    ];
    let named: Vec<u16> = flags.into_iter().filter(|(name, _)| words.flag(name)).map(|(_, flag)| flag).collect();
    if !named.is_empty() {
        header.flags = named.iter().sum();
    }
}

fn set_entry(entry: &mut Entry, words: &mut Words) {
    words.take_into("name", &mut entry.name);
    words.take_into("request", &mut entry.request);
    words.take_into("slot", &mut entry.slot);
    words.take_into("tenure", &mut entry.tenure);
    words.take_into("holder", &mut entry.holder);
    words.take_into("reply_port", &mut entry.reply_port);
    words.take_into("sequence", &mut entry.sequence);
    if let Some(state) = words.state() {
        let joins = words.maybe("joins").unwrap_or(0);
        let (transferred, tryable) = (words.flag("transferred"), words.flag("tryable"));
        entry.slot_bits = SlotBits { state, transferred, tryable, joins }.to_u16();
    }
    let flags = [
        ("exclusive", entry_flag::EXCLUSIVE),
        ("try", entry_flag::TRY),
        ("agency", entry_flag::AGENCY),
        ("joined", entry_flag::JOINED),
        ("held", entry_flag::HELD),
        ("dead", entry_flag::DEAD),
        ("no_flags", 0),
    ];
    let named: Vec<u8> = flags.into_iter().filter(|(name, _)| words.flag(name)).map(|(_, flag)| flag).collect();
    if !named.is_empty() {
        entry.flags = named.iter().sum();
    }
}

impl Packet {
    fn set_body(&mut self, set: &mut dyn FnMut(&mut [u8])) {
        set(&mut self.chain.as_mut().expect("a packet of the chain service").0);
    }

    fn set_blocks(&mut self, bytes: Vec<u8>) {
        self.header.count = (bytes.len() / limits::BLOCK_BYTES) as u8;
        self.chain.as_mut().expect("a packet of the chain service").1 = bytes;
    }
}

/// The fields of an operation, an effect or routes. A value fills as many blocks as it takes; `blocks=` says how many
/// there are.
fn set_chain(packet: &mut Packet, word: &str, words: &mut Words) {
    let body = packet.chain.as_ref().unwrap_or_else(|| panic!("{}: not the chain service's", words.place)).0;
    let value = words.value();
    if let Some(value) = &value {
        packet.set_blocks(padded(value));
    }
    if let Some(blocks) = words.maybe::<u8>("blocks") {
        let mut bytes = packet.chain.clone().expect("just seen").1;
        bytes.resize(usize::from(blocks) * limits::BLOCK_BYTES, 0);
        packet.set_blocks(bytes);
    }
    let length = value.map(|value| value.len() as u16);
    match word {
        "operation" => {
            let mut operation = Operation { length: length.unwrap_or(0), ..Operation::read(&body, 0) };
            words.take_into("high", &mut operation.key_high);
            words.take_into("low", &mut operation.key_low);
            words.take_into("check", &mut operation.check);
            words.take_into("request", &mut operation.request);
            words.take_into("group", &mut operation.group);
            words.take_into("client", &mut operation.client);
            words.take_into("lane", &mut operation.lane);
            words.take_into("length", &mut operation.length);
            words.take_into("reply_port", &mut operation.reply_port);
            words.take_into("expected", &mut operation.expected);
            words.take_into("expected_epoch", &mut operation.expected_epoch);
            words.take_into("first_epoch", &mut operation.first_epoch);
            if let Some(condition) = Condition::ALL[1..].iter().find(|condition| words.flag(condition.name())) {
                operation.condition = *condition as u8;
            }
            words.take_into("condition", &mut operation.condition);
            for (name, flag) in [("leased", value_flag::LEASED), ("present", value_flag::PRESENT)] {
                if words.flag(name) {
                    operation.flags |= flag;
                }
            }
            packet.set_body(&mut |body| operation.write(body, 0));
        }
        "effect" => {
            let mut effect = Effect::read(&body, 0);
            words.take_into("high", &mut effect.key_high);
            words.take_into("low", &mut effect.key_low);
            words.take_into("request", &mut effect.request);
            words.take_into("group", &mut effect.group);
            words.take_into("client", &mut effect.client);
            words.take_into("lane", &mut effect.lane);
            words.take_into("reply_port", &mut effect.reply_port);
            effect.epoch = words.maybe("epoch").unwrap_or(0);
            effect.sequence = words.maybe("sequence").unwrap_or(0);
            effect.own_epoch = words.maybe("own_epoch").unwrap_or(0);
            effect.own_sequence = words.maybe("own_sequence").unwrap_or(0);
            let outcome = Outcome::ALL.into_iter().find(|outcome| words.flag(outcome.name()));
            effect.outcome = outcome.unwrap_or_else(|| panic!("{}: an effect has an outcome", words.place)) as u8;
            effect.length = words.maybe("length").or(length).unwrap_or(0);
            effect.flags = if length.is_some() || words.flag("present") { value_flag::PRESENT } else { 0 };
            effect.owner = words.maybe("owner").unwrap_or(0);
            if words.flag("leased") {
                effect.flags |= value_flag::LEASED;
            }
            packet.set_body(&mut |body| effect.write(body, 0));
        }
        _ => {
            // A page of routes has nothing that the switch looks at.
            let first: u16 = words.take("first");
            packet.set_body(&mut |body| {
                body.fill(0);
                body[..2].copy_from_slice(&first.to_be_bytes());
            });
        }
    }
}

fn set_group(state: &mut State, words: &mut Words) {
    let group = &mut state.groups[words.index()];
    let mut place = wayside_protocol::chain::Place::unpack(group.place);
    words.take_into("epoch", &mut place.epoch);
    words.take_into("previous", &mut place.previous);
    words.take_into("next", &mut place.next);
    group.place = place.pack();
    words.take_into("sequence", &mut group.sequence);
    words.take_into("namespace", &mut group.namespace);
    words.take_into("watched", &mut group.watched);
}

/// What the journal has of a version of the first item's key.
fn set_record(state: &mut State, words: &mut Words) {
    let number = words.index();
    let item = state.items[1];
    let record = &mut state.journal[number];
    words.take_into("number", &mut record.lock);
    if let Some(owner) = words.maybe::<u16>("owner") {
        record.lock |= u64::from(owner) << 48;
    }
    if let Some(sequence) = words.maybe("sequence") {
        let (other, was) = ((item.lock & 1) as usize, (item.lock & 1 ^ 1) as usize);
        (record.key_high, record.key_low, record.name) = (item.key_high, item.key_low, item.name);
        (record.before_sequence, record.before_shape) = (item.versions[was].sequence, item.versions[was].shape);
        (record.sequence, record.shape) = (sequence, item.versions[other].shape);
        record.value = item.values[other];
    }
}

/// A key that comes to an item, or a further version of what is there.
fn set_item(state: &mut State, words: &mut Words) {
    let number = words.index();
    let mut key: Key = KEY;
    words.take_into("high", &mut key.high);
    words.take_into("low", &mut key.low);
    words.take_into("check", &mut key.check);
    if let Some(group) = words.maybe("group") {
        state.put_key(number, group, key);
    }
    if let Some(sequence) = words.maybe("sequence") {
        let value = words.value();
        assert!(value.is_some() != words.flag("no_value"), "{}: a value or none", words.place);
        state.write_item(number, (words.take("epoch"), sequence), value.as_deref());
    }
    if let Some(incarnation) = words.maybe("incarnation") {
        state.lease_item(number, words.take("of"), incarnation);
    }
    if words.flag("leaving") {
        let item = &mut state.items[number];
        item.versions[(item.lock & 1) as usize].shape |= u64::from(value_flag::LEAVING);
    }
    if words.flag("turned") {
        state.turn_item(number);
    }
    if let Some(shape) = words.maybe("shape") {
        let item = &mut state.items[number];
        item.versions[(item.lock & 1) as usize].shape = shape;
    }
    if words.flag("gone") {
        state.items[number].name = 0;
    }
    if let Some(owner) = words.maybe::<u16>("owner") {
        state.items[number].lock |= u64::from(owner) << 48;
    }
}

fn set_lane(state: &mut State, words: &mut Words) {
    let lane = &mut state.lanes[lane_index(words.take("of"), words.take("number"))];
    words.take_into("request", &mut lane.request);
    words.take_into("epoch", &mut lane.own_epoch);
    words.take_into("sequence", &mut lane.own_sequence);
    if let Some(outcome) = Outcome::ALL.iter().find(|outcome| words.flag(outcome.name())) {
        lane.outcome = *outcome as u32;
    }
    if let Some(owner) = words.maybe::<u16>("owner") {
        lane.lock |= u64::from(owner) << 48;
    }
}

fn set_state(state: &mut State, word: &str, words: &mut Words) {
    match word {
        "globals" => {
            words.take_into("epoch", &mut state.globals.epoch);
            words.take_into("shard_map", &mut state.globals.shard_map);
            words.take_into("serving", &mut state.globals.serving);
            words.take_into("authenticated", &mut state.globals.authenticated);
            // By both clocks.
            words.take_into("lease_end", &mut state.globals.lease.end_us);
            state.globals.lease = Lease::until(state.globals.lease.end_us);
        }
        "region" => {
            let region = &mut state.regions[words.index()];
            words.take_into("base", &mut region.base);
            words.take_into("count", &mut region.count);
            words.take_into("burst", &mut region.burst);
            words.take_into("over_budget", &mut region.over_budget);
            words.take_into("cost", &mut region.own.cost);
            // By both clocks: a pause is told by the one, whichever counts.
            region.other.cost = region.own.cost;
            words.take_into("due", &mut region.own.due);
            if words.flag("spent") {
                // No moment comes in which it is paid off.
                region.own.due = u64::MAX / 2;
            }
            words.take_into("told", &mut region.told);
            if words.flag("is_told") {
                region.told = (region.own.due ^ region.own.due >> 32) as u32;
            }
            let policies = [Policy::Fair, Policy::ReadPreferring, Policy::WritePreferring];
            for policy in policies.into_iter().filter(|policy| words.flag(policy.name())) {
                region.policy = policy as u32;
            }
        }
        "node" => {
            let node = &mut state.nodes[words.index()];
            let mut word = NodeWord::unpack(node.word);
            let states = [NodeState::Vacant, NodeState::Live, NodeState::Expired, NodeState::Dismissed];
            if let Some(state) = states.into_iter().find(|state| words.flag(state.name())) {
                word.state = state;
            }
            words.take_into("sequence", &mut word.sequence);
            node.word = word.pack();
            words.take_into("oldest", &mut node.oldest);
            words.take_into("incarnation", &mut node.incarnation);
            words.take_into("address", &mut node.address);
            words.take_into("port", &mut node.agent_port);
            words.take_into("namespace", &mut node.namespace);
        }
        "keys" => {
            let keys = &mut state.keys[words.index()];
            words.take_into("rotation", &mut keys.rotation);
            words.take_into("heard", &mut keys.heard);
            if let Some(slot) = words.maybe::<u8>("writing") {
                keys.written[usize::from(slot)] |= 1;
            }
            if words.flag("none") {
                *keys = Keys::default();
            }
        }
        "slot" => {
            let slot = &mut state.slots[words.index()];
            let state = words.state().unwrap_or_else(|| panic!("{}: a slot has a state", words.place));
            let mut word = SlotWord { state, ..SlotWord::unheld(words.take("tenure")) };
            words.take_into("agent", &mut word.agent);
            words.take_into("joins", &mut word.joins);
            word.transferred = words.flag("transferred");
            word.tryable = words.flag("tryable");
            slot.w0 = word.pack();
        }
        "hint" => {
            let tenure: u64 = words.take("tenure");
            state.slots[words.index()].w1 = tenure << 44 | name_hash(words.take("name"));
        }
        "store" => {
            words.take_into("seed", &mut state.store.seed);
            words.take_into("mask", &mut state.store.bucket_mask);
            words.take_into("handle", &mut state.store.handle);
            words.take_into("lease_end", &mut state.store.lease.end_us);
            state.store.lease = Lease::until(state.store.lease.end_us);
            words.take_into("drawn", &mut state.store.drawn);
            words.take_into("torn", &mut state.store.torn);
        }
        "group" => set_group(state, words),
        "item" => set_item(state, words),
        "record" => set_record(state, words),
        "lane" => set_lane(state, words),
        other => assert!(set_queues(state, other, words), "{}: what is {other}?", words.place),
    }
    words.end();
}

/// The words of a line, `name=value` or bare, taken in any order.
pub(super) struct Words {
    words: Vec<(String, Option<String>)>,
    pub(super) place: String,
}

impl Words {
    fn new(rest: &str, place: &str) -> Words {
        let split: SplitWhitespace = rest.split_whitespace();
        let pair = |word: &str| match word.split_once('=') {
            Some((name, value)) => (name.to_string(), Some(value.to_string())),
            None => (word.to_string(), None),
        };
        Words { words: split.map(pair).collect(), place: place.into() }
    }

    fn any(&mut self) -> Option<(String, Option<String>)> {
        (!self.words.is_empty()).then(|| self.words.remove(0))
    }

    fn bare(&mut self) -> String {
        let at = self.words.iter().position(|(_, value)| value.is_none());
        self.words.remove(at.unwrap_or_else(|| panic!("{}: a word is missing", self.place))).0
    }

    pub(super) fn index(&mut self) -> usize {
        let at = self.words.iter().position(|(word, value)| value.is_none() && number(word).is_some());
        let at = at.unwrap_or_else(|| panic!("{}: which one?", self.place));
        number(&self.words.remove(at).0).expect("just seen") as usize
    }

    pub(super) fn flag(&mut self, name: &str) -> bool {
        let at = self.words.iter().position(|(word, value)| word == name && value.is_none());
        at.map(|at| self.words.remove(at)).is_some()
    }

    pub(super) fn maybe<T: TryFrom<u64>>(&mut self, name: &str) -> Option<T> {
        let at = self.words.iter().position(|(word, value)| word == name && value.is_some())?;
        let value = self.words.remove(at).1.expect("just seen");
        let value = number(&value).unwrap_or_else(|| panic!("{}: {value} is no number", self.place));
        Some(T::try_from(value).unwrap_or_else(|_| panic!("{}: {value} is too large", self.place)))
    }

    pub(super) fn take<T: TryFrom<u64>>(&mut self, name: &str) -> T {
        self.maybe(name).unwrap_or_else(|| panic!("{}: {name}= is missing", self.place))
    }

    /// `value=` of these bytes; `value=x*128`: of 128 times this one.
    fn value(&mut self) -> Option<Vec<u8>> {
        let at = self.words.iter().position(|(word, value)| word == "value" && value.is_some())?;
        let text = self.words.remove(at).1.expect("just seen");
        Some(match text.split_once('*') {
            Some((byte, times)) => byte.repeat(number(times).expect("a number of times") as usize).into_bytes(),
            None => text.into_bytes(),
        })
    }

    pub(super) fn take_into<T: TryFrom<u64>>(&mut self, name: &str, field: &mut T) {
        if let Some(value) = self.maybe(name) {
            *field = value;
        }
    }

    fn state(&mut self) -> Option<SlotState> {
        SlotState::ALL.into_iter().find(|state| self.flag(state.name()))
    }

    fn reason(&mut self) -> u8 {
        let name = self.bare();
        let reason = DropReason::ALL.into_iter().find(|reason| reason.name() == name);
        reason.unwrap_or_else(|| panic!("{}: no reason {name}", self.place)) as u8
    }

    fn end(&self) {
        assert!(self.words.is_empty(), "{}: what is {:?}?", self.place, self.words);
    }
}

/// Decimal, 0x hexadecimal, an address, or `incarnation:counter` of a request id.
fn number(text: &str) -> Option<u64> {
    if let Some((incarnation, counter)) = text.split_once(':') {
        return Some(number(incarnation)? << 40 | number(counter)?);
    }
    if let Ok(address) = text.parse::<std::net::Ipv4Addr>() {
        return Some(u64::from(u32::from(address)));
    }
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}
