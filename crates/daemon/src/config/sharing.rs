//! What switches of one shard share, and where they find it (docs/availability.md).

use super::{LONGEST_PATH, Layers, Shown};
use crate::failure::Failure;
use std::net::SocketAddrV4;
use std::path::PathBuf;
use std::time::Duration;

/// A quarter of it must be enough for etcd to write (10 ms on a slow disk); the time without a switch after it died.
const DEFAULT_SERVING_LEASE: Duration = Duration::from_millis(300);
const SHORTEST_SERVING_LEASE: Duration = Duration::from_millis(100);
const LONGEST_SERVING_LEASE: Duration = Duration::from_secs(60);

const DEFAULT_CHAIN_LENGTH: usize = 3;

/// Renewals are 13 writes a second: without compaction they would fill etcd's 2 GiB within days.
const DEFAULT_HISTORY: Duration = Duration::from_secs(3600);
const LONGEST_HISTORY: Duration = Duration::from_secs(7 * 24 * 3600);

/// How a switch shares its shard with standbys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sharing {
    pub etcd: Vec<String>,
    pub shard: String,
    pub serving_lease: Duration,
    /// Switches of a chain, as far as there are so many.
    pub chain_length: usize,
    /// Zero: for ever.
    pub history: Duration,
    /// Where another switch hands over to this one. None: at the TCP port of the UDP port's number.
    pub hand_over_listen: Option<SocketAddrV4>,
    /// Files, where the connection is secure.
    pub ca: Option<PathBuf>,
    pub certificate: Option<PathBuf>,
    pub key: Option<PathBuf>,
}

impl Layers<'_> {
    /// `others`: what else the daemon listens at for connections.
    pub(super) fn sharing(
        &self,
        lease: Duration,
        others: &[(&str, Option<SocketAddrV4>)],
    ) -> Result<Option<Sharing>, Failure> {
        let Some((etcd, _)) = self.pick(|s| s.etcd.as_ref()).filter(|(etcd, _)| !etcd.is_empty()) else {
            return Ok(None);
        };
        let (shard, _) = self.shard()?;
        let serving_lease = match self.pick(|s| s.serving_lease.as_ref()) {
            Some((text, flag)) => {
                self.duration("serving_lease", text, flag, SHORTEST_SERVING_LEASE, LONGEST_SERVING_LEASE)?
            }
            None => DEFAULT_SERVING_LEASE,
        };
        if serving_lease > lease / 2 {
            let flag = self.flags.serving_lease.is_some();
            let rule = format!(
                "must be at most half of lease = {}: no heartbeat is acknowledged until a standby serves, and sessions would end",
                Shown(lease)
            );
            return Err(self.wrong("serving_lease", &Shown(serving_lease), flag, &rule));
        }
        let history = match self.pick(|s| s.etcd_history.as_ref()) {
            Some((text, flag)) => self.duration("etcd_history", text, flag, Duration::ZERO, LONGEST_HISTORY)?,
            None => DEFAULT_HISTORY,
        };
        let chain_length = match self.pick(|s| s.chain_length.as_ref()) {
            Some((&count, flag)) => {
                self.number("chain_length", count, flag, 1, wayside_wire::limits::MAX_CHAIN as i64)? as usize
            }
            None => DEFAULT_CHAIN_LENGTH,
        };
        let hand_over_listen = match self.pick(|s| s.hand_over_listen.as_ref()) {
            Some((text, flag)) => {
                let address = self.address("hand_over_listen", text, flag)?;
                let is_it = |other: &Option<SocketAddrV4>| address.port() != 0 && *other == Some(address);
                if let Some((key, _)) = others.iter().find(|(_, other)| is_it(other)) {
                    return Err(self.wrong("hand_over_listen", &address, flag, &format!("is {key}, too")));
                }
                Some(address)
            }
            None => None,
        };
        let certificate = self.path("etcd_certificate", |s| s.etcd_certificate.as_ref(), LONGEST_PATH)?;
        let key = self.path("etcd_key", |s| s.etcd_key.as_ref(), LONGEST_PATH)?;
        if certificate.is_some() != key.is_some() {
            return Err(Failure::usage("etcd_certificate and etcd_key go together: one is missing"));
        }
        let ca = self.path("etcd_ca", |s| s.etcd_ca.as_ref(), LONGEST_PATH)?;
        let etcd = etcd.clone();
        let sharing =
            Sharing { etcd, shard, serving_lease, chain_length, history, hand_over_listen, ca, certificate, key };
        Ok(Some(sharing))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Settings;
    use super::*;
    use std::path::Path;

    fn read(text: &str) -> Result<Option<Sharing>, String> {
        let file: Settings = toml::from_str(text).unwrap();
        let config = Settings::default().over(file, Some(Path::new("w.toml")));
        config.map(|config| config.sharing).map_err(|failure| failure.message)
    }

    #[test]
    fn hand_overs_come_where_the_file_says() {
        let told = |text: &str| {
            let sharing = read(&format!("etcd = ['http://e:2379']\nlisten = '10.0.0.1:7600'\n{text}")).unwrap();
            sharing.unwrap().hand_over_listen.map(|address| address.to_string())
        };
        assert_eq!(told(""), None);
        assert_eq!(told("hand_over_listen = '10.0.0.1:7603'"), Some("10.0.0.1:7603".into()));
        assert_eq!(told("hand_over_listen = '10.0.0.2:0'"), Some("10.0.0.2:0".into()));
        assert_eq!(read("hand_over_listen = '10.0.0.2:1'"), Ok(None), "nobody hands over to a switch that is alone");
    }

    #[test]
    fn no_other_connections_come_there() {
        for (text, why) in [
            ("hand_over_listen = '127.0.0.1:7601'", "w.toml: hand_over_listen = 127.0.0.1:7601 is admin_listen, too"),
            ("authentication = 'on'\nhand_over_listen = '127.0.0.1:7602'", "is enrol_listen, too"),
            (
                "hand_over_listen = '127.0.0.1:7611'\nrelays = ['7610=10.0.0.1:7600']",
                "takes a port of the switch's own",
            ),
        ] {
            let refused = read(&format!("etcd = ['http://e:2379']\n{text}")).unwrap_err();
            assert!(refused.contains(why), "{text}: {refused}");
        }
    }
}
