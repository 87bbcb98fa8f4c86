//! The message chart: a run as people read it. Every party has a column: switches first, then hosts.
//!
//! ```text
//!     seconds  switch     h0      h1      h2
//!    0.000512     |<-------o       |       |     ACQUIRE name 1007 exclusive, n1#1
//!    0.000731     o------->|       |       |     GRANT name 1007 exclusive, n1#1, slot 3 tenure 0, AGENCY
//!    0.000731     |        *       |       |     n1#1 is granted, token 1.0+0
//!    0.001100     |        |   x---o       |     lost: ACQUIRE name 1007 exclusive, n2#1
//! ```

use std::fmt::Write as _;
use std::io::Write as _;

use wayside_wire::{
    Attempt, BODY, Body, ChainKind, Copied, Effect, Enrol, Enrolled, Entry, FabricKind, Header, Heartbeat, LockKind,
    Operation, Placement, QueueKind, Service, SlotBits, SlotState, check, entries, entry_flag, header_flag, kind,
    request_id, text,
};

use crate::network::{Flight, Way};
use crate::world::World;

/// Hosts of which each has a column; where there are more, lines name them.
const COLUMNS_MOST: usize = 12;
/// Characters of a column.
const WIDTH: usize = 8;

/// Whom a line is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// A switch or its controller.
    Seat(usize),
    /// A host.
    Host(usize),
}

/// See the module's documentation.
pub struct Story<'a>(&'a World);

impl<'a> Story<'a> {
    /// Of this world.
    pub fn of(world: &'a World) -> Story<'a> {
        Story(world)
    }

    /// How to read what follows, and the head of the columns.
    pub fn begin(&self) {
        let world = self.0;
        println!("A column for the switch (with its controller) and for every host (h0, h1, ...).");
        println!("  o--->  a packet arrives at >      x---o  it never does      *  something happens to this one");
        println!("  |  runs      :  is stopped, or cut off as a process that was killed");
        println!("  n5#17: the 17th request of node 5 (a process's session; sX tY: slot X at its Y-th tenure)");
        for line in [format!("{:?}", world.mix), format!("{:?}", world.setup.namespaces)] {
            println!("{line}");
        }
        let mut head = format!("{:>12} ", "seconds");
        for lane in 0..self.lanes() {
            let name = match self.lane(lane) {
                Lane::Seat(0) => "switch".to_string(),
                Lane::Seat(seat) => format!("switch{seat}"),
                Lane::Host(host) => format!("h{host}"),
            };
            let _ = write!(head, "{name:^WIDTH$}");
        }
        println!("{head}");
    }

    /// A packet arrives.
    pub fn arrives(&self, flight: &Flight) {
        let (from, to) = match flight.way {
            Way::Up => (Lane::Host(flight.host), Lane::Seat(flight.seat)),
            Way::Down => (Lane::Seat(flight.seat), Lane::Host(flight.host)),
        };
        self.line(Some((from, to, false)), None, &packet(&flight.packet));
    }

    /// A packet will not.
    pub fn lost(&self, flight: &Flight, why: &str) {
        let (from, to) = match flight.way {
            Way::Up => (Lane::Host(flight.host), Lane::Seat(flight.seat)),
            Way::Down => (Lane::Seat(flight.seat), Lane::Host(flight.host)),
        };
        self.line(Some((from, to, true)), None, &format!("{why}: {}", packet(&flight.packet)));
    }

    /// A switch does nothing with it.
    pub fn dropped(&self, seat: usize, reason: &str) {
        self.note(Lane::Seat(seat), &format!("dropped: {reason}"));
    }

    /// Something else.
    pub fn note(&self, lane: Lane, what: &str) {
        self.line(None, Some(lane), what);
    }

    /// About everybody.
    pub fn headline(&self, what: &str) {
        print(&format!("{:>12.6} ---- {what} ----", self.0.now as f64 / 1e6));
    }

    fn lanes(&self) -> usize {
        let hosts = self.0.hosts.len();
        self.0.seats.len() + if hosts <= COLUMNS_MOST { hosts } else { 0 }
    }

    fn lane(&self, index: usize) -> Lane {
        let seats = self.0.seats.len();
        if index < seats { Lane::Seat(index) } else { Lane::Host(index - seats) }
    }

    fn column(&self, lane: Lane) -> usize {
        let index = match lane {
            Lane::Seat(seat) => seat,
            Lane::Host(host) => self.0.seats.len() + host,
        };
        index * WIDTH + WIDTH / 2 - 1
    }

    fn line(&self, arrow: Option<(Lane, Lane, bool)>, mark: Option<Lane>, what: &str) {
        let width = self.lanes() * WIDTH;
        let mut row = vec![' '; width];
        for index in 0..self.lanes() {
            let lane = self.lane(index);
            row[self.column(lane)] = if self.runs(lane) { '|' } else { ':' };
        }
        let mut names = String::new();
        if let Some((from, to, lost)) = arrow {
            let (tail, head) = (self.column(from), self.column(to));
            if tail < width && head < width {
                let (low, high) = (tail.min(head), tail.max(head));
                row[low + 1..high].fill('-');
                row[tail] = 'o';
                let tip = if head > tail { head - 1 } else { head + 1 };
                row[tip] = match (lost, head > tail) {
                    (true, _) => 'x',
                    (false, true) => '>',
                    (false, false) => '<',
                };
            } else {
                names = format!("{from:?} {} {to:?}: ", if lost { "-x" } else { "->" });
            }
        }
        if let Some(lane) = mark {
            match row.get_mut(self.column(lane)) {
                Some(place) => *place = '*',
                None => names = format!("{lane:?}: "),
            }
        }
        let row: String = row.into_iter().collect();
        print(&format!("{:>12.6} {row} {names}{what}", self.0.now as f64 / 1e6));
    }

    fn runs(&self, lane: Lane) -> bool {
        match lane {
            Lane::Seat(seat) => {
                let seat = &self.0.seats[seat];
                seat.office.is_some() && seat.stopped_until.is_none()
            }
            Lane::Host(host) => {
                let host = &self.0.hosts[host];
                host.running.is_some() && host.stopped_until.is_none()
            }
        }
    }
}

/// A reader that has seen enough closes the pipe: no reason to stop.
pub fn print(line: &str) {
    let _ = writeln!(std::io::stdout(), "{}", line.trim_end());
}

/// Names of the flags that say something to people.
const HEADER_FLAGS: &[(u16, &str)] = &[
    (header_flag::CLAIM, "CLAIM"),
    (header_flag::APPLIED, "APPLIED"),
    (header_flag::REFUSED, "REFUSED"),
    (header_flag::STALE_TENURE, "STALE"),
    (header_flag::LAST, "LAST"),
    (header_flag::DEAD, "DEAD"),
    (header_flag::EXPIRED, "EXPIRED"),
    (header_flag::CLEAN, "CLEAN"),
    (header_flag::RETRY, "RETRY"),
];

const ENTRY_FLAGS: &[(u8, &str)] = &[
    (entry_flag::TRY, "try"),
    (entry_flag::AGENCY, "AGENCY"),
    (entry_flag::JOINED, "JOINED"),
    (entry_flag::HELD, "HELD"),
    (entry_flag::DEAD, "DEAD"),
];

/// A packet in words.
pub fn packet(bytes: &[u8]) -> String {
    let header = match check(bytes) {
        Ok(header) => header,
        Err(reason) => return format!("{} bytes, {}", bytes.len(), reason.name()),
    };
    let mut line = String::new();
    match Service::try_from(header.service) {
        Ok(Service::Fabric) => fabric(&mut line, &header, bytes),
        Ok(Service::Lock) => lock(&mut line, &header, bytes),
        Ok(Service::Queue) => queue(&mut line, &header, &Attempt::read(bytes, BODY)),
        _ => chain(&mut line, &header, bytes),
    }
    line
}

fn flags(line: &mut String, header: &Header) {
    for (_, name) in HEADER_FLAGS.iter().filter(|(flag, _)| header.flags & flag != 0) {
        let _ = write!(line, " {name}");
    }
}

fn fabric(line: &mut String, header: &Header, bytes: &[u8]) {
    let Ok(kind) = FabricKind::try_from(header.kind) else { return };
    let _ = write!(line, "{}", kind.name().to_uppercase());
    flags(line, header);
    let _ = match kind {
        FabricKind::Enrol => {
            let body = Enrol::read(bytes, BODY);
            write!(line, " to {}", text(&body.namespace_name).unwrap_or("?"))
        }
        FabricKind::Enrolled => {
            let body = Enrolled::read(bytes, BODY);
            write!(line, " as n{}, epoch {}, lease {} us", header.destination, header.epoch, body.lease_us)
        }
        FabricKind::Down | FabricKind::DownAck => write!(line, " of n{}", header.position),
        FabricKind::Stale => write!(line, ": the epoch is {}", header.epoch),
        _ => {
            let body = Heartbeat::read(bytes, BODY);
            let node = if header.source == 0 { header.destination } else { header.source };
            write!(line, " {} of n{node}, epoch {}", body.sequence, header.epoch)
        }
    };
}

fn queue(line: &mut String, header: &Header, attempt: &Attempt) {
    let Ok(kind) = QueueKind::try_from(header.kind) else { return };
    let _ = write!(line, "{} {:#x}", kind.name().to_uppercase(), attempt.name);
    flags(line, header);
    let (counter, ticket) = (request_id::counter(attempt.request), attempt.ticket);
    let _ = write!(line, " n{} request {counter} ticket {ticket}, epoch {}", attempt.holder, header.epoch);
}

fn chain(line: &mut String, header: &Header, bytes: &[u8]) {
    let Ok(kind) = ChainKind::try_from(header.kind) else { return };
    let _ = write!(line, "{}, blocks {}, epoch {}", kind.name().to_uppercase(), header.count, header.epoch);
    let _ = match kind.body() {
        Body::Operation => {
            let told = Operation::read(bytes, BODY);
            write!(line, ", group {}, key {:04x}", told.group, told.key_high >> 48)
        }
        Body::Effect => {
            let told = Effect::read(bytes, BODY);
            write!(line, ", group {}, key {:04x} {}.{}", told.group, told.key_high >> 48, told.epoch, told.sequence)
        }
        Body::Copied => {
            let told = Copied::read(bytes, BODY);
            let key = told.key_high >> 48;
            write!(line, ", group {}, key {key:04x} {}.{}, nonce {}", told.group, told.epoch, told.sequence, told.nonce)
        }
        Body::Placement => {
            let told = Placement::read(bytes, BODY);
            write!(line, ", group {}, role {} between {} and {}", told.group, told.role, told.previous, told.next)
        }
        _ => Ok(()),
    };
}

fn lock(line: &mut String, header: &Header, bytes: &[u8]) {
    let Ok(of) = LockKind::try_from(header.kind) else { return };
    let _ = write!(line, "{}", of.name().to_uppercase());
    flags(line, header);
    if header.position != 0 {
        let _ = write!(line, " @{}", header.position);
    }
    if header.source != 0 && header.destination != 0 {
        let _ = write!(line, " n{}>n{}", header.source, header.destination);
    }
    let mut comma = "";
    for entry in entries(bytes) {
        let _ = write!(line, "{comma} ");
        one(line, header, &entry);
        comma = ";";
    }
}

fn one(line: &mut String, header: &Header, entry: &Entry) {
    if matches!(header.kind, kind::lock::CENSUS | kind::lock::REPORT | kind::lock::ADOPT | kind::lock::ADOPTED)
        && entry.flags == 0
    {
        let _ = match entry.slot as i32 {
            -1 => write!(line, "all slots, census {:x}", entry.request),
            slot => write!(line, "s{slot} t{}, census {:x}", entry.tenure, entry.request),
        };
        return;
    }
    let bits = SlotBits::from_u16(entry.slot_bits);
    if entry.name != 0 {
        let mode = if entry.flags & entry_flag::EXCLUSIVE != 0 { "exclusive" } else { "shared" };
        let _ = write!(line, "name {} {mode}", entry.name);
    }
    let _ = write!(line, " n{}#{}", entry.holder, entry.request & ((1 << 40) - 1));
    let _ = write!(line, " s{} t{}", entry.slot, entry.tenure);
    if bits.state != SlotState::Unheld || bits.joins > 0 {
        let _ = write!(line, " {:?}", bits.state);
        if bits.joins > 0 {
            let _ = write!(line, " joins {}", bits.joins);
        }
        if bits.transferred {
            line.push_str(" moved");
        }
        if bits.tryable {
            line.push_str(" tryable");
        }
    }
    if entry.sequence > 0 {
        let _ = write!(line, " +{}", entry.sequence);
    }
    for (_, name) in ENTRY_FLAGS.iter().filter(|(flag, _)| entry.flags & flag != 0) {
        let _ = write!(line, " {name}");
    }
}
