//! What a figure depends on besides the code: set here, and written down.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::mem;
use std::process::Command;
use std::time::Duration;

/// Core of the clients, all their threads.
pub(crate) const CLIENT_CORE: usize = 0;
/// Core of the server, all its threads.
pub(crate) const SERVER_CORE: usize = 1;
/// For AF_XDP to take over: a thread that has just begun to use a session has sockets until then. A tenth of a second
/// mostly; where the kernel still has the socket of the session before, as once on a machine that compiled and tested
/// beside it, more than three.
pub(crate) const TAKES_OVER: Duration = Duration::from_secs(15);

/// Binds the calling thread, and threads and processes that it starts later, to a core. False on a single core, and
/// where it is not allowed: then nothing is bound.
pub(crate) fn pin(core: usize) -> bool {
    if std::thread::available_parallelism().is_ok_and(|count| count.get() < 2) && !is_pinned() {
        return false;
    }
    // SAFETY: a set of zeros is an empty one; `core` is below its 1,024 bits; it outlives the call.
    unsafe {
        let mut set: libc::cpu_set_t = mem::zeroed();
        libc::CPU_SET(core, &mut set);
        libc::sched_setaffinity(0, mem::size_of_val(&set), &raw const set) == 0
    }
}

/// Whether the calling thread is bound already, so that it sees one core only.
fn is_pinned() -> bool {
    // SAFETY: as above.
    unsafe {
        let mut set: libc::cpu_set_t = mem::zeroed();
        libc::sched_getaffinity(0, mem::size_of_val(&set), &raw mut set) == 0
            && libc::CPU_COUNT(&set) == 1
            && libc::sysconf(libc::_SC_NPROCESSORS_ONLN) > 1
    }
}

/// Has the calling thread, and threads and processes that it starts later, go before others (-20) or behind (19). Does
/// nothing without the right to.
#[cfg(feature = "xdp")]
pub(crate) fn favour(nice: i32) {
    // SAFETY: numbers only; 0 is the calling thread.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) };
}

/// Keeps idle processors awake while it is held: a processor that must be woken from deep sleep takes tens of
/// microseconds, which drown whatever is measured.
pub(crate) struct LatencyHeld {
    _device: File,
}

impl LatencyHeld {
    /// None without the right to.
    pub(crate) fn hold() -> Option<LatencyHeld> {
        let mut device = OpenOptions::new().write(true).open("/dev/cpu_dma_latency").ok()?;
        device.write_all(&0i32.to_ne_bytes()).ok()?;
        Some(LatencyHeld { _device: device })
    }
}

/// Where and how it was measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Machine {
    pub(crate) processor: String,
    pub(crate) cores: usize,
    pub(crate) kernel: String,
    pub(crate) commit: String,
    pub(crate) load_before: String,
    pub(crate) command: String,
    /// Of today, UTC.
    pub(crate) date: String,
    /// What Redis calls itself; empty without it.
    pub(crate) redis: String,
    /// Of the whole machine; empty in records of before 2026-11-24, as the next two are.
    #[serde(default)]
    pub(crate) memory: String,
    /// What this program was built by.
    #[serde(default)]
    pub(crate) rustc: String,
    /// And how: features, and whether it was optimized.
    #[serde(default)]
    pub(crate) build: String,
}

/// How this program was built.
fn build() -> String {
    let features = match (cfg!(feature = "xdp"), cfg!(feature = "peers")) {
        (true, true) => "xdp and peers",
        (true, false) => "xdp",
        (false, true) => "peers",
        (false, false) => "no features",
    };
    format!("{features}, {}", if cfg!(debug_assertions) { "with debug assertions" } else { "optimized" })
}

impl Machine {
    pub(crate) fn look() -> Machine {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let cpu = read("/proc/cpuinfo");
        let model = cpu.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or("unknown");
        let said = |program: &str, words: &[&str]| {
            let output = Command::new(program).args(words).output();
            output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default()
        };
        let redis = said("redis-server", &["--version"]);
        Machine {
            processor: model.trim_start_matches(['\t', ' ', ':']).into(),
            cores: cpu.lines().filter(|line| line.starts_with("processor")).count(),
            kernel: read("/proc/sys/kernel/osrelease").trim().into(),
            commit: said("git", &["describe", "--always", "--dirty", "--exclude=*"]),
            load_before: load(),
            command: command_line(),
            date: said("date", &["-u", "+%Y-%m-%d"]),
            // `Redis server v=7.0.15 sha=...`
            redis: redis
                .split(' ')
                .nth(2)
                .and_then(|word| word.strip_prefix("v="))
                .map_or_else(String::new, |version| format!("Redis {version}")),
            memory: memory(&read("/proc/meminfo")),
            rustc: env!("WAYSIDE_RUSTC").into(),
            build: build(),
        }
    }

    /// That of a record of any kind; None: it is none.
    pub(crate) fn of_record(record: &str) -> Option<Machine> {
        let value: serde_json::Value = serde_json::from_str(record).ok()?;
        Machine::deserialize(&value["machine"]).ok()
    }

    /// What there was besides processors; nothing of an old record.
    pub(crate) fn besides(&self) -> String {
        let Machine { memory, rustc, build, .. } = self;
        if memory.is_empty() { String::new() } else { format!("; {memory} of memory; {rustc}, {build}") }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Machine { processor, cores, kernel, commit, date, load_before, .. } = self;
        let besides = self.besides();
        write!(f, "{processor}, {cores} cores; Linux {kernel}{besides}; commit {commit}, {date}; ")?;
        write!(f, "load {load_before} before")
    }
}

/// Of the first line of `/proc/meminfo`: `MemTotal:  8137844 kB`.
fn memory(meminfo: &str) -> String {
    let total = meminfo.split_whitespace().nth(1).and_then(|kib| kib.parse::<f64>().ok());
    total.map_or_else(String::new, |kib| format!("{:.1} GiB", kib / f64::from(1 << 20)))
}

/// Processes that ran or wanted to, on average of the last minute.
pub(crate) fn load() -> String {
    fs::read_to_string("/proc/loadavg").unwrap_or_default().split(' ').next().unwrap_or_default().into()
}

/// As it was called, without the folder of the program.
fn command_line() -> String {
    let mut words: Vec<String> = std::env::args().collect();
    if let Some(program) = words.first_mut() {
        *program = program.rsplit('/').next().unwrap_or_default().into();
    }
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_from_the_kernels_own_line() {
        assert_eq!(memory("MemTotal:        8137844 kB\nMemFree: 1 kB\n"), "7.8 GiB");
        assert_eq!(memory(""), "");
    }

    #[test]
    fn a_machine_says_what_it_was_built_by_and_one_of_before_is_still_read() {
        let machine = Machine::look();
        let record = |machine: &serde_json::Value| serde_json::json!({ "machine": machine }).to_string();
        let mut json = serde_json::to_value(&machine).unwrap();
        let again = Machine::of_record(&record(&json)).unwrap();
        assert_eq!(again.to_string(), machine.to_string());
        assert!(again.to_string().contains("GiB of memory; rustc 1."), "{again}");
        for later in ["memory", "rustc", "build"] {
            json.as_object_mut().unwrap().remove(later).unwrap();
        }
        let before = Machine::of_record(&record(&json)).unwrap();
        assert!(before.to_string().contains(&machine.kernel) && !before.to_string().contains("rustc"), "{before}");
        assert!(Machine::of_record("{}").is_none() && Machine::of_record("nothing").is_none());
    }
}
