//! What everything costs, in nanoseconds of virtual time: the whole model. Each constant has one value for all
//! figures, and its source beside it; the two testbeds differ in their clients alone, whose programs differ.
//!
//! A source begins with what it is worth: *published*; *set by* one of the papers' own figures, which is no prediction
//! then; or *assumed*, of which nobody has written.
//!
//! What is left out: bandwidth (a packet of 64 bytes takes 5 ns of 100 Gbit/s), the switch's own rate (thousands of
//! millions of packets a second, of which no run needs a hundredth), interrupts, caches, loss.

/// A constant of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cost {
    /// One way between a host's memory and the switch: NIC, PCIe, cable.
    Hop,
    /// Through the switch.
    Pipeline,
    /// A core's time to send a packet, or to receive one.
    Packet,
    /// A core's time to decide on one message of a lock manager, packets apart.
    Manager,
    /// From one core to another one of its host.
    Handover,
    /// A core's own time for each lock of FissLock's benchmark: half before it asks, half to give back. Others receive.
    FissLockClient,
    /// The same of NetLock's benchmark.
    NetLockClient,
    /// A NIC's time for an atomic operation on remote memory.
    Atomic,
    /// A NIC's time for a read of remote memory.
    Read,
    /// How long a client of DSLR waits for each exclusive holder ahead of it before it looks again.
    DslrBackoff,
    /// How long a shared hold of DrTM lasts.
    DrtmLease,
    /// The longest pause of who was refused and tries again: DrTM, NetChain's locks. Drawn uniformly.
    Retry,
    /// Redis' core for a command whose client waits for its answer, packets apart.
    Command,
    /// The same for one of many that come together, packets included.
    Pipelined,
    /// The longest pause of RedLock's clients. Drawn uniformly.
    RedlockRetry,
}

/// Value and source of each, in the order of [`Cost`].
const TABLE: [(Cost, &str, u64, &str); 15] = [
    (
        Cost::Hop,
        "hop",
        600,
        "assumed: 4 us, which is usual for a round trip between hosts of one rack with RDMA or DPDK, are 4 hops and 2 \
         pipelines; none of the papers has a number",
    ),
    (Cost::Pipeline, "pipeline", 800, "published as \"less than 1 us\": FissLock 2.2; that it is 0.8 is assumed"),
    (
        Cost::Packet,
        "packet",
        390,
        "set by C1: 16 cores make 20.5 M queries/s, a packet out and one in each (NetChain's slides, its servers)",
    ),
    (
        Cost::Manager,
        "manager",
        750,
        "set by F7's SrvLock: about 3 M requests/s on 8 cores, 2.67 us each; less 3 packets, for 2 messages",
    ),
    (
        Cost::Handover,
        "handover",
        100,
        "assumed: a line of cache that goes from one core to another one takes from some 50 ns within a socket to some \
         150 ns between two",
    ),
    (
        Cost::FissLockClient,
        "client, FissLock",
        5_890,
        "set by F7's fission: \"over 6 M requests/s\", on the 40 of 80 cores that send (its artifact), 6.67 us each; \
         less 2 packets",
    ),
    (
        Cost::NetLockClient,
        "client, NetLock",
        3_850,
        "set by N8: 8.64 M requests/s at most, by its text because of clients and contention, 10 machines with 4 of 8 \
         cores that send (its artifact), 4.63 us each; less 2 packets",
    ),
    (Cost::Atomic, "atomic", 446, "published: 2.24 M atomics/s of a NIC, Kalia et al., ATC 2016"),
    (Cost::Read, "read", 50, "published: about 20 M reads/s of such a NIC, the same"),
    (
        Cost::DslrBackoff,
        "DSLR backoff",
        20_000,
        "published: 20 us for each exclusive request ahead, NetLock's artifact",
    ),
    (Cost::DrtmLease, "DrTM lease", 400_000, "published: 400 us, NetLock's artifact, after DrTM"),
    (Cost::Retry, "retry pause", 20_000, "assumed: no paper tells it; up to as long as DSLR's backoff"),
    (
        Cost::Command,
        "Redis command",
        8_310,
        "published: Redis' documentation, 2.2, about 110,000 SETs/s, 9.09 us each; less 2 packets",
    ),
    (
        Cost::Pipelined,
        "Redis command of 16",
        1_310,
        "published: Redis' author (gist 1892983), 682,593 SETs/s and 862,812 GETs/s in pipelines of 16: the mean",
    ),
    (Cost::RedlockRetry, "RedLock retry", 200_000_000, "published: Redlock-rb's default, at random up to 200 ms"),
];

/// One value for each constant.
#[derive(Clone, Copy, Debug)]
pub struct Costs([u64; TABLE.len()]);

impl Costs {
    /// As their sources say.
    pub fn of_sources() -> Costs {
        Costs(TABLE.map(|row| row.2))
    }

    pub fn get(&self, cost: Cost) -> u64 {
        self.0[cost as usize]
    }

    /// With another value of one of them.
    pub fn with(mut self, cost: Cost, nanoseconds: u64) -> Costs {
        self.0[cost as usize] = nanoseconds;
        self
    }

    /// One of them times `numerator`, by `denominator`.
    pub fn scaled(self, cost: Cost, (numerator, denominator): (u64, u64)) -> Costs {
        self.with(cost, self.get(cost) * numerator / denominator)
    }
}

/// Name, value and source of every constant.
pub fn sources() -> impl Iterator<Item = (Cost, &'static str, u64, &'static str)> {
    TABLE.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_constant_stands_at_its_place() {
        for (place, (cost, ..)) in sources().enumerate() {
            assert_eq!(cost as usize, place);
        }
    }

    /// What a figure was set by is not what it predicts, and what nobody has measured is not measured.
    #[test]
    fn a_source_says_what_it_is_worth() {
        let kinds = ["published", "set by", "assumed"];
        for (_, name, _, source) in sources() {
            assert!(kinds.iter().any(|kind| source.starts_with(kind)), "{name}: {source}");
        }
        let set_by = |name: &str| sources().find(|row| row.1 == name).map(|row| row.3.starts_with("set by"));
        for name in ["packet", "manager", "client, FissLock", "client, NetLock"] {
            assert_eq!(set_by(name), Some(true), "{name}");
        }
    }

    /// What the sources say of sums, of which the constants are parts.
    #[test]
    fn constants_add_up_to_what_their_sources_say() {
        let costs = Costs::of_sources();
        let of = |cost| costs.get(cost) as f64;
        let round_trip = 4.0 * of(Cost::Hop) + 2.0 * of(Cost::Pipeline);
        assert!((round_trip - 4_000.0).abs() < 1.0, "{round_trip}");
        let near =
            |rate: f64, cores: f64, nanos: f64| assert!((cores * 1e3 / nanos / rate - 1.0).abs() < 0.02, "{rate}");
        near(20.5, 16.0, 2.0 * of(Cost::Packet));
        near(3.0, 8.0, 3.0 * of(Cost::Packet) + 2.0 * of(Cost::Manager));
        near(6.0, 40.0, 2.0 * of(Cost::Packet) + of(Cost::FissLockClient));
        near(8.64, 40.0, 2.0 * of(Cost::Packet) + of(Cost::NetLockClient));
    }
}
