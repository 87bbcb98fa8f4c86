//! Keys at the hook against bare ways through as many switches: an XDP program that sends every packet on, unread. One
//! client that spins, everything in turns on one core, in short rounds.
//!
//! * Chains of one and of three: a write goes through all of their switches, a read to one and back.
//! * Values of several lengths.
//! * Stores of several sizes, side by side, each with switch, bridge and echo of its own.

use super::driver::VALUE;
use super::stores::hook::{AtHook, Chain, Relays};
use super::stores::{Conditions, Store};
use super::{KeysOptions, tell};
use crate::knobs::{self, CLIENT_CORE};
use crate::report::{How, Mode, Ratio, bars};
use crate::samples::Samples;
use crate::{Error, Waiting};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::{Duration, Instant};
use wayside_client::probe::Probe;
use wayside_client::{Session, Transport};

/// Operations of each kind in a round.
const OPERATIONS: usize = 100;
/// And before those that count.
const WARM_UP: usize = 20;
/// A packet with room for a value.
const BYTES: usize = 224;
const LENGTHS: [usize; 4] = [0, 32, 64, VALUE];
/// Keys where lengths and chains are compared.
const KEYS: usize = 10_000;
/// Nothing else is measured meanwhile: the daemon has time for its heartbeats.
const LEASE: Duration = Duration::from_secs(10);
/// Pins are named by ports: no switch here has that of another one.
const FIRST_PORT: u16 = 7700;

/// Everything. What this machine does not have is a note.
pub(super) fn measure(options: &KeysOptions, notes: &mut Vec<String>) -> Result<Vec<Mode>, Error> {
    let (mut modes, how_long) = (Vec::new(), options.against_echoes);
    for (index, switches) in [1, 3].into_iter().enumerate() {
        tell(&format!("a chain of {switches} against a bare way through as many switches"));
        let chain = Chain { switches, port: FIRST_PORT + index as u16, keys: KEYS.min(options.keys) };
        let grounds: Vec<Ground> = Ground::start(options, &chain, notes)?.into_iter().collect();
        modes.extend(on_own_thread(&grounds, |fields| {
            let mut modes = Vec::new();
            turns(fields, how_long)?;
            for field in fields {
                modes.push(field.mode(format!("a chain of {switches}")));
                if switches == 1 {
                    modes.push(lengths(field, how_long)?);
                }
            }
            Ok(modes)
        })?);
    }
    let mut grounds = Vec::new();
    for (index, &keys) in options.sizes.iter().enumerate() {
        tell(&format!("a store of {keys} keys"));
        let chain = Chain { switches: 1, port: FIRST_PORT + 10 + index as u16, keys };
        grounds.extend(Ground::start(options, &chain, notes)?);
    }
    tell("stores of several sizes");
    modes.extend(on_own_thread(&grounds, |fields| {
        turns(fields, how_long * grounds.len() as u32)?;
        let mut modes = Vec::new();
        for (index, field) in fields.iter().enumerate() {
            let mut mode = field.mode(format!("a store of {} keys", field.names.len()));
            if index > 0 {
                mode.ratios.extend(field.ratios_to(&fields[0]));
            }
            modes.push(mode);
        }
        Ok(modes)
    })?);
    Ok(modes)
}

/// Everything of a client is its thread's: sockets are of the host that it is on when it opens them.
fn on_own_thread(
    grounds: &[Ground],
    work: impl FnOnce(&mut [Field<'_>]) -> Result<Vec<Mode>, Error> + Send,
) -> Result<Vec<Mode>, Error> {
    let measure = || {
        knobs::pin(CLIENT_CORE);
        let mut fields = grounds.iter().map(Field::connect).collect::<Result<Vec<_>, _>>()?;
        work(&mut fields)
    };
    std::thread::scope(|scope| scope.spawn(measure).join()).unwrap_or_else(|_| Err("a client panicked".into()))
}

/// Rounds of all fields in turns, for so long.
fn turns(fields: &mut [Field<'_>], how_long: Duration) -> Result<(), Error> {
    for counts in [false, true] {
        let began = Instant::now();
        let share = if counts { how_long } else { how_long / 10 };
        let mut rounds = 0;
        while rounds == 0 || began.elapsed() < share {
            fields.iter_mut().try_for_each(|field| field.round(counts))?;
            rounds += 1;
        }
    }
    Ok(())
}

/// One chain, and bare ways for comparison: through one switch, and through as many as it has.
struct Ground {
    keys: usize,
    count: usize,
    at_one: Ipv4Addr,
    at_all: Ipv4Addr,
    _ways: [Relays; 2],
    switches: AtHook,
}

impl Ground {
    /// None: this machine has no such thing, which is noted.
    fn start(options: &KeysOptions, chain: &Chain, notes: &mut Vec<String>) -> Result<Option<Ground>, Error> {
        let conditions = Conditions { wayside: &options.wayside, keys: chain.keys, threads: 1 };
        let switches = match AtHook::start(&conditions, chain)? {
            Ok(switches) => switches,
            Err(why) => {
                let (count, keys) = (chain.switches, chain.keys);
                notes.push(format!("{keys} keys on a chain of {count} were not compared with echoes: {why}."));
                return Ok(None);
            }
        };
        switches.fill(chain.keys)?;
        let ((one, at_one), (all, at_all)) = (switches.relays(0, 1)?, switches.relays(1, chain.switches)?);
        Ok(Some(Ground { keys: chain.keys, count: chain.switches, at_one, at_all, _ways: [one, all], switches }))
    }
}

/// A client on such a ground, and what it measured.
struct Field<'g> {
    ground: &'g Ground,
    session: Session,
    names: Vec<String>,
    random: ChaCha8Rng,
    there: Echo,
    through: Echo,
    reads: Samples,
    writes: Samples,
}

struct Echo {
    probe: Probe,
    samples: Samples,
}

impl Echo {
    fn open(at: Ipv4Addr, switches: usize) -> Result<Echo, Error> {
        let probe = Probe::open(&Transport::Udp, SocketAddrV4::new(at, wayside_wire::PORT), Waiting::Spinning.wait());
        let name = format!("echo of {BYTES} bytes through {switches}");
        Ok(Echo { probe: probe.map_err(|error| error.to_string())?, samples: Samples::new(name) })
    }

    fn round(&mut self) -> Result<(), Error> {
        self.probe.tend();
        for _ in 0..WARM_UP {
            self.probe.round_trip(BYTES);
        }
        for _ in 0..OPERATIONS {
            if !self.samples.time(|| self.probe.round_trip(BYTES)) {
                return Err("the echo does not answer".into());
            }
        }
        Ok(())
    }
}

impl<'g> Field<'g> {
    fn connect(ground: &'g Ground) -> Result<Field<'g>, Error> {
        ground.switches.clients[0].move_here().map_err(|error| error.to_string())?;
        let session = Session::builder().endpoint(ground.switches.endpoints()).namespace("default").lease(LEASE);
        let session = session.wait(Waiting::Spinning.wait()).connect().map_err(|error| error.to_string())?;
        Ok(Field {
            ground,
            session,
            names: (0..ground.keys).map(|key| format!("keys/{key}")).collect(),
            random: ChaCha8Rng::seed_from_u64(ground.keys as u64),
            there: Echo::open(ground.at_one, 1)?,
            through: Echo::open(ground.at_all, ground.count)?,
            reads: Samples::new(format!("read of {VALUE} bytes")),
            writes: Samples::new(format!("write of {VALUE} bytes")),
        })
    }

    fn name(&mut self) -> String {
        let key = self.random.random_range(0..self.names.len());
        self.names[key].clone()
    }

    fn round(&mut self, counts: bool) -> Result<(), Error> {
        self.ground.switches.clients[0].move_here().map_err(|error| error.to_string())?;
        self.there.round()?;
        self.write_and_read(VALUE, false)?;
        self.through.round()?;
        let own = [&mut self.reads, &mut self.writes, &mut self.there.samples, &mut self.through.samples];
        own.into_iter().for_each(|samples| samples.end_round(counts));
        Ok(())
    }

    /// One after the other; any key of all, or the very one that was written.
    fn write_and_read(&mut self, bytes: usize, reads_back: bool) -> Result<(), Error> {
        let value = [b'.'; VALUE];
        for counted in [false, true] {
            for _ in 0..if counted { OPERATIONS } else { WARM_UP } {
                let name = self.name();
                let store = self.session.store();
                let began = Instant::now();
                store.put(&name, &value[..bytes]).map_err(|error| error.to_string())?;
                if counted {
                    self.writes.record(began);
                }
                let name = if reads_back { name } else { self.name() };
                let store = self.session.store();
                let began = Instant::now();
                let found = store.get(&name).map_err(|error| error.to_string())?;
                if counted {
                    self.reads.record(began);
                }
                if found.is_none() {
                    return Err(format!("{name} has no value"));
                }
            }
        }
        Ok(())
    }

    fn ratios(&self) -> Vec<Ratio> {
        vec![
            self.reads.ratio("read / echo through one switch", &self.there.samples).meant(bars::VALUE),
            self.writes.ratio("write / echo through as many", &self.through.samples).meant(bars::VALUE),
        ]
    }

    /// To a smaller store.
    fn ratios_to(&self, other: &Field<'_>) -> [Ratio; 2] {
        let keys = other.names.len();
        [
            self.reads.ratio(format!("read / of {keys} keys"), &other.reads).meant(bars::FLAT),
            self.writes.ratio(format!("write / of {keys} keys"), &other.writes).meant(bars::FLAT),
        ]
    }

    fn mode(&self, name: String) -> Mode {
        let samples = [&self.there.samples, &self.through.samples, &self.writes, &self.reads];
        let rows = samples.into_iter().filter_map(|samples| samples.row(&how())).collect();
        Mode { name, rows, ratios: self.ratios(), rates: Vec::new(), seen: None }
    }
}

/// Reads and writes of each length in turns, against the longest.
fn lengths(field: &mut Field<'_>, how_long: Duration) -> Result<Mode, Error> {
    let of = |what: &str| LENGTHS.map(|bytes| Samples::new(format!("{what} of {bytes} bytes")));
    let (mut writes, mut reads) = (of("write"), of("read"));
    let began = Instant::now();
    while began.elapsed() < how_long {
        for (length, bytes) in LENGTHS.into_iter().enumerate() {
            std::mem::swap(&mut field.writes, &mut writes[length]);
            std::mem::swap(&mut field.reads, &mut reads[length]);
            let done = field.write_and_read(bytes, true);
            std::mem::swap(&mut field.writes, &mut writes[length]);
            std::mem::swap(&mut field.reads, &mut reads[length]);
            done?;
            writes[length].end_round(true);
            reads[length].end_round(true);
        }
    }
    let mut ratios = Vec::new();
    for (what, samples) in [("write", &writes), ("read", &reads)] {
        let longest = &samples[LENGTHS.len() - 1];
        let against = LENGTHS.iter().zip(samples).take(LENGTHS.len() - 1);
        let name = |bytes: &usize| format!("{what} of {VALUE} bytes / of {bytes}");
        ratios.extend(against.map(|(bytes, samples)| longest.ratio(name(bytes), samples).meant(bars::FLAT)));
    }
    let rows = writes.iter().chain(&reads).filter_map(|samples| samples.row(&how())).collect();
    Ok(Mode { name: "values of several lengths".into(), rows, ratios, rates: Vec::new(), seen: None })
}

fn how() -> How {
    How { transport: "UDP".into(), cores: 1, waits: Waiting::Spinning.name().into(), signed: "off".into() }
}
