//! Processor time, of this process and of others with all of theirs.

use std::collections::HashMap;
use std::fs;
use std::time::Duration;

/// User and system time that a set of processes has had, and their children that have ended.
pub(crate) fn of_processes(roots: &[u32]) -> Duration {
    let mut parents = HashMap::new();
    let mut ticks = HashMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(id) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        let Some((parent, used)) = fs::read_to_string(entry.path().join("stat")).ok().and_then(|stat| read(&stat))
        else {
            continue;
        };
        parents.insert(id, parent);
        ticks.insert(id, used);
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
    let used: u64 = ticks.iter().filter(|(id, _)| descends(**id)).map(|(_, used)| used).sum();
    // SAFETY: reads a constant of the system.
    let per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) }.max(1) as u64;
    Duration::from_millis(used * 1_000 / per_second)
}

/// The parent, and clock ticks in utime, stime, cutime and cstime: fields 4 and 14 to 17 of proc(5), behind a name that
/// may have spaces and brackets.
fn read(stat: &str) -> Option<(u32, u64)> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = fields.get(11..15)?.iter().map(|ticks| ticks.parse::<u64>().ok()).sum::<Option<u64>>()?;
    Some((fields.get(1)?.parse().ok()?, ticks))
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
        let stat = "42 (a) b) (c) S 7 1 1 0 -1 4194304 10 0 0 0 100 20 3 4 20 0 1 0 9 9 9";
        assert_eq!(read(stat), Some((7, 127)));
    }

    #[test]
    fn work_of_a_child_counts_and_that_of_strangers_does_not() {
        // Its own child works, as a shell's does.
        let mut child = Command::new("sh")
            .args(["-c", "sh -c 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done'; sleep 100"])
            .spawn()
            .unwrap();
        let began = std::time::Instant::now();
        while of_processes(&[child.id()]) < Duration::from_millis(50) {
            assert!(began.elapsed() < Duration::from_secs(60), "{:?}", of_processes(&[child.id()]));
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(of_processes(&[]), Duration::ZERO);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(own() > Duration::ZERO);
    }
}
