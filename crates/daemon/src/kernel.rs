//! Which Linux this is.

/// Its whole name, major and minor number; zeros if it is not known.
pub fn release() -> (String, (u32, u32)) {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let release = release.trim();
    let mut numbers = release.split(['.', '-']).map(|part| part.parse::<u32>().unwrap_or(0));
    (release.into(), (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)))
}
