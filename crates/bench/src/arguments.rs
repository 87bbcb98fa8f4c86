//! What `wayside-bench` is called with.

use std::path::PathBuf;
use std::time::Duration;

pub(crate) const USAGE: &str = "\
usage: wayside-bench [--seconds N] [--idle-latency held|free] [--record]
       wayside-bench --recovery [--hook] [--short | --locks N] [--rounds N] [--record]
       wayside-bench --services [--short] [--workload NAME]... [--service NAME]... [--clients N] [--think US]...
                     [--rounds N] [--record]
       wayside-bench --keys [--short | --brief] [--service NAME]... [--clients N] [--rounds N] [--record]
       wayside-bench --queues [PART]... [--short] [--workload NAME] [--clients N] [--rounds N] [--record]
       wayside-bench --calibrated [ID]... [--short] [--requests N] [--record]
       wayside-bench --growth [--short] [--record]
       wayside-bench --figures FILE

  --seconds N                how long to measure all in all; 75 without it
  --idle-latency held|free   keep idle processors awake (/dev/cpu_dma_latency, needs root), or not; held without it
  --recovery                 measure how long locks are away when a switch or a node dies, instead: several minutes
  --hook                     the same with switches at the XDP hook, on hosts of their own: as root
  --services                 measure Wayside beside Redis, etcd, ZooKeeper and PostgreSQL, instead: over an hour
  --keys                     measure keys and values beside etcd and ZooKeeper, instead: some minutes
  --queues [PART]...         measure what the switch's memory, priorities and budgets do, as NetLock's figures 12 to 14
                             (memory, priorities, isolation), and how a plan follows a hot spot that moves (hot-spot; all
                             four without one), instead: twenty minutes; or
                             (contention) both engines from one lock for all clients to more locks, by a model; or
                             (fetches) a lock and a row of another host, in one round trip and in two
  --calibrated [ID]...       reproduce the papers' headlines (N1, F4, ...; all without one) by a model, in virtual time:
                             four to six minutes
  --growth                   measure what time and memory take against locks held, names, nodes, waiters and batches,
                             instead: a minute
  --brief                    all of it but 10 million keys, once: what `make bench` does; two minutes
  --short                    shorter runs, one seed, and no sensitivity; or with 10,000 locks, or 16 clients, once:
                             within half a minute
  --requests N               so many requests for locks in each of the model's runs, instead of 60,000
  --locks N                  with so many locks alone; given several times, with each
  --workload NAME            with this workload alone; given several times, with each; locks are taken in order
  --service NAME             with this service alone; given several times, with each
  --clients N                so many, in all workloads
  --think US                 hold all of a transaction's locks for so many microseconds besides; given several times, run
                             every workload with each
  --rounds N                 so often, instead of three or five times
  --record                   keep the report as
                             bench/runs/<date>-<commit>-<held|free|recovery|recovery-hook|services|keys|queues|calibrated|growth>.json, with its
                             drawings or its page
  --figures FILE             put the figures of such a report into the page that has them; measures nothing";

/// Which measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Echoes,
    Recovery,
    Services,
    Keys,
    Queues,
    Calibrated,
    Growth,
}

impl What {
    /// Whether some of it may be named.
    fn is_of_some(self) -> bool {
        matches!(self, What::Queues | What::Calibrated)
    }
}

pub(crate) struct Arguments {
    pub(crate) what: What,
    pub(crate) seconds: u64,
    pub(crate) hold_latency: bool,
    pub(crate) short: bool,
    pub(crate) brief: bool,
    pub(crate) hook: bool,
    pub(crate) locks: Vec<u64>,
    pub(crate) workloads: Vec<String>,
    pub(crate) services: Vec<String>,
    /// Headlines, or parts of what is measured of queues.
    pub(crate) which: Vec<String>,
    pub(crate) clients: Option<usize>,
    pub(crate) thinks: Vec<Duration>,
    pub(crate) rounds: Option<u32>,
    pub(crate) requests: Option<u64>,
    pub(crate) record: bool,
    pub(crate) figures: Option<PathBuf>,
}

impl Arguments {
    /// None: they make no sense.
    pub(crate) fn read(mut words: impl Iterator<Item = String>) -> Option<Arguments> {
        let mut arguments = Arguments {
            what: What::Echoes,
            seconds: 75,
            hold_latency: true,
            short: false,
            brief: false,
            hook: false,
            locks: Vec::new(),
            workloads: Vec::new(),
            services: Vec::new(),
            which: Vec::new(),
            clients: None,
            thinks: Vec::new(),
            rounds: None,
            requests: None,
            record: false,
            figures: None,
        };
        while let Some(word) = words.next() {
            match word.as_str() {
                "--seconds" => arguments.seconds = words.next()?.parse().ok().filter(|&seconds| seconds > 0)?,
                "--idle-latency" => {
                    arguments.hold_latency = match words.next()?.as_str() {
                        "held" => true,
                        "free" => false,
                        _ => return None,
                    }
                }
                "--recovery" if arguments.what == What::Echoes => arguments.what = What::Recovery,
                "--services" if arguments.what == What::Echoes => arguments.what = What::Services,
                "--keys" if arguments.what == What::Echoes => arguments.what = What::Keys,
                "--queues" if arguments.what == What::Echoes => arguments.what = What::Queues,
                "--calibrated" if arguments.what == What::Echoes => arguments.what = What::Calibrated,
                "--growth" if arguments.what == What::Echoes => arguments.what = What::Growth,
                "--short" => arguments.short = true,
                "--hook" if arguments.what == What::Recovery => arguments.hook = true,
                "--brief" => arguments.brief = true,
                "--locks" => arguments.locks.push(words.next()?.parse().ok().filter(|&locks| locks > 0)?),
                "--workload" => arguments.workloads.push(words.next()?),
                "--service" => arguments.services.push(words.next()?),
                "--clients" => arguments.clients = Some(words.next()?.parse().ok().filter(|&clients| clients > 0)?),
                "--think" => arguments.thinks.push(Duration::from_micros(words.next()?.parse().ok()?)),
                "--rounds" => arguments.rounds = Some(words.next()?.parse().ok().filter(|&rounds| rounds > 0)?),
                "--requests" => arguments.requests = Some(words.next()?.parse().ok().filter(|&requests| requests > 0)?),
                "--record" => arguments.record = true,
                "--figures" => arguments.figures = Some(words.next()?.into()),
                one if arguments.what.is_of_some() && !one.starts_with('-') => arguments.which.push(word),
                _ => return None,
            }
        }
        arguments.makes_sense().then_some(arguments)
    }

    /// Whether everything that was said belongs to what is measured.
    fn makes_sense(&self) -> bool {
        let of_recovery = !self.locks.is_empty();
        let of_services = !self.workloads.is_empty() || !self.services.is_empty() || self.clients.is_some();
        let of_both = self.short || self.rounds.is_some();
        let of_keys = self.brief;
        if self.requests.is_some() && self.what != What::Calibrated || of_keys && self.what != What::Keys {
            return false;
        }
        if !self.thinks.is_empty() && self.what != What::Services {
            return false;
        }
        match self.what {
            What::Echoes => !of_recovery && !of_services && !of_both,
            What::Recovery => !(of_services || self.short && of_recovery),
            What::Services => !of_recovery,
            What::Keys => !of_recovery && self.workloads.is_empty() && !(self.brief && self.short),
            What::Queues => !of_recovery && self.services.is_empty() && self.workloads.len() < 2,
            What::Calibrated | What::Growth => !of_recovery && !of_services && self.rounds.is_none(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_read_or_refused() {
        let read = |line: &str| Arguments::read(line.split_whitespace().map(str::to_owned));
        let given = read("--seconds 5 --idle-latency free --record").unwrap();
        assert_eq!((given.seconds, given.hold_latency, given.record), (5, false, true));
        let given = read("--recovery --locks 5 --locks 6 --rounds 2").unwrap();
        assert_eq!((given.what, given.short, given.rounds), (What::Recovery, false, Some(2)));
        assert_eq!(given.locks, [5, 6]);
        let given = read("--services --workload tatp --service redis --service etcd --clients 8").unwrap();
        assert_eq!((given.what, given.workloads.len(), given.services.len()), (What::Services, 1, 2));
        assert_eq!(given.clients, Some(8));
        let given = read("--services --think 0 --think 100").unwrap();
        assert_eq!(given.thinks, [0, 100].map(Duration::from_micros));
        let given = read("--keys --short --service etcd-3 --clients 8 --record").unwrap();
        assert_eq!((given.what, given.short, given.services.len()), (What::Keys, true, 1));
        let given = read("--keys --brief").unwrap();
        assert!(given.brief && !given.short);
        let given = read("--queues memory --workload tatp --clients 8 --rounds 2").unwrap();
        assert_eq!((given.what, given.workloads.len(), given.rounds), (What::Queues, 1, Some(2)));
        let given = read("--calibrated N1 F4 --short --record --requests 7").unwrap();
        assert_eq!(given.requests, Some(7));
        assert_eq!((given.what, given.short, given.record), (What::Calibrated, true, true));
        assert_eq!(given.which, ["N1", "F4"]);
        for line in [
            "--seconds",
            "--seconds 0",
            "--seconds x",
            "--idle-latency maybe",
            "--figures",
            "--unknown",
            "quick",
            "--short",
            "--recovery --locks 0",
            "--recovery --short --locks 5",
            "--recovery --services",
            "--services --locks 5",
            "--services --clients 0",
            "--services --think",
            "--services --think -1",
            "--queues --think 5",
            "--recovery --workload tatp",
            "--workload tatp",
            "--keys --workload tatp",
            "--keys --locks 5",
            "--keys --brief --short",
            "--brief",
            "--services --brief",
            "--queues --service redis",
            "--queues --workload tatp --workload tpcc",
            "--calibrated --rounds 2",
            "--calibrated --keys",
            "--growth --rounds 2",
            "--growth --requests 2",
            "--calibrated --requests 0",
            "N1",
        ] {
            assert!(read(line).is_none(), "{line:?}");
        }
    }
}
