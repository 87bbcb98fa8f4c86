//! Processor time, of this process and of others with all of theirs; and how many threads those have.

use std::collections::HashMap;
use std::fs;
use std::time::Duration;

/// What processes have taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Taken {
    /// User and system time, that of their children that have ended, too.
    pub(crate) time: Duration,
    /// That there are now.
    pub(crate) threads: u64,
}

/// Of a set of processes and all that they have started.
pub(crate) fn of_processes(roots: &[u32]) -> Taken {
    let mut parents = HashMap::new();
    let mut all = HashMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(id) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        let Some((parent, ticks, threads)) =
            fs::read_to_string(entry.path().join("stat")).ok().and_then(|stat| read(&stat))
        else {
            continue;
        };
        parents.insert(id, parent);
        all.insert(id, (ticks, threads));
    }
    let descends = |mut id: u32| loop {
        if roots.contains(&id) {
            return true;
        }
        match parents.get(&id) {
            Some(&parent) if parent != 0 => id = parent,
            _ => return false,
        }
    };
    let these = all.iter().filter(|(id, _)| descends(**id)).map(|(_, one)| one);
    let (ticks, threads) = these.fold((0, 0), |sum: (u64, u64), one| (sum.0 + one.0, sum.1 + one.1));
    // SAFETY: reads a constant of the system.
    let per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) }.max(1) as u64;
    Taken { time: Duration::from_millis(ticks * 1_000 / per_second), threads }
}

/// The parent, clock ticks in utime, stime, cutime and cstime, and threads: fields 4, 14 to 17 and 20 of proc(5),
/// behind a name that may have spaces and brackets.
fn read(stat: &str) -> Option<(u32, u64, u64)> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = fields.get(11..15)?.iter().map(|ticks| ticks.parse::<u64>().ok()).sum::<Option<u64>>()?;
    Some((fields.get(1)?.parse().ok()?, ticks, fields.get(17)?.parse().ok()?))
}

/// Of this process alone.
pub(crate) fn own() -> Duration {
    // SAFETY: zeros are a usage; the call fills it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
        usage
    };
    let time = |time: libc::timeval| Duration::new(time.tv_sec as u64, time.tv_usec as u32 * 1_000);
    time(usage.ru_utime) + time(usage.ru_stime)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_line_of_proc_is_read_whatever_the_process_is_called() {
        let stat = "42 (a) b) (c) S 7 1 1 0 -1 4194304 10 0 0 0 100 20 3 4 20 0 5 0 9 9 9";
        assert_eq!(read(stat), Some((7, 127, 5)));
    }

    #[test]
    fn threads_that_there_are_are_counted() {
        const MANY: u64 = 40;
        let (sender, receiver) = std::sync::mpsc::channel::<()>();
        let receiver = std::sync::Arc::new(std::sync::Mutex::new(receiver));
        let wait = |_| {
            let receiver = receiver.clone();
            std::thread::spawn(move || receiver.lock().unwrap().recv().is_err())
        };
        let waiting: Vec<_> = (0..MANY).map(wait).collect();
        // Those of other tests come and go meanwhile.
        assert!(of_processes(&[std::process::id()]).threads > MANY);
        drop(sender);
        assert!(waiting.into_iter().all(|thread| thread.join().unwrap()));
    }

    #[test]
    fn work_of_a_child_counts_and_that_of_strangers_does_not() {
        // Its own child works, as a shell's does.
        let mut child = Command::new("sh")
            .args(["-c", "sh -c 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done'; sleep 100"])
            .spawn()
            .unwrap();
        let began = std::time::Instant::now();
        while of_processes(&[child.id()]).time < Duration::from_millis(50) {
            assert!(began.elapsed() < Duration::from_secs(60), "{:?}", of_processes(&[child.id()]));
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(of_processes(&[]), Taken::default());
        // The shell, and what it waits for; or that in its place.
        assert!((1..=2).contains(&of_processes(&[child.id()]).threads));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(own() > Duration::ZERO);
    }
}
