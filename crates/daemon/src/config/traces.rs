//! Whose decisions are followed, and who is told.

use super::{Config, Layers};
use crate::failure::Failure;

/// Where a collector of OpenTelemetry listens for HTTP on the same host.
const DEFAULT_COLLECTOR: &str = "http://127.0.0.1:4318/v1/traces";

impl Config {
    /// Which requests are followed, for people.
    pub fn traces_of(one_in: u32) -> String {
        match one_in {
            0 => "of no request".into(),
            1 => "of every request".into(),
            many => format!("of one request in {many}"),
        }
    }
}

impl Layers<'_> {
    /// Of so many requests one; 0: none.
    pub(super) fn trace_one_in(&self) -> Result<u32, Failure> {
        let Some((&count, flag)) = self.pick(|s| s.trace_one_in.as_ref()) else { return Ok(0) };
        Ok(self.number("trace_one_in", count, flag, 0, u32::MAX.into())? as u32)
    }

    pub(super) fn trace_collector(&self) -> Result<String, Failure> {
        let Some((url, flag)) = self.pick(|s| s.trace_collector.as_ref()) else { return Ok(DEFAULT_COLLECTOR.into()) };
        let is_host = |rest: &str| rest.starts_with(|first: char| first.is_ascii_alphanumeric());
        let is_plain = url.strip_prefix("http://").is_some_and(is_host);
        if !is_plain || !url.bytes().all(|byte| byte.is_ascii_graphic()) {
            let rule =
                format!("must be a URL in clear, such as {DEFAULT_COLLECTOR}: what goes there are times and numbers");
            return Err(self.wrong("trace_collector", url, flag, &rule));
        }
        Ok(url.clone())
    }
}

#[cfg(test)]
mod tests {
    use crate::config::read;

    #[test]
    fn nothing_is_followed_unless_it_is_asked_for() {
        let config = read("").unwrap();
        assert_eq!((config.trace_one_in, config.trace_collector.as_str()), (0, super::DEFAULT_COLLECTOR));
        let config = read("trace_one_in = 1000\ntrace_collector = 'http://otel:4318/v1/traces'").unwrap();
        assert_eq!((config.trace_one_in, config.trace_collector.as_str()), (1000, "http://otel:4318/v1/traces"));
    }

    #[test]
    fn what_can_not_be_says_why() {
        for (text, why) in [
            ("trace_one_in = -1", "trace_one_in = -1 must be 0 to 4294967295"),
            ("trace_collector = 'otel:4318'", "trace_collector = otel:4318 must be a URL in clear"),
            ("trace_collector = 'https://otel:4318/v1/traces'", "must be a URL in clear"),
        ] {
            let refused = read(text).unwrap_err().to_string();
            assert!(refused.contains(why), "{refused}");
        }
    }
}
