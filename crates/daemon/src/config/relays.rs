//! Ports that stand for other racks' switches (docs/shards.md, "By way of another switch").

use super::{Layers, Settings};
use crate::failure::Failure;
use std::net::SocketAddrV4;
use std::str::FromStr;

/// One UDP port each, two TCP ports, and a socket for each of their clients' ports.
const MOST: usize = 64;
/// The last port that has two behind it.
const LAST: u16 = u16::MAX - 2;

/// A port at the switch's own address that stands for another switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Relay {
    pub port: u16,
    pub to: SocketAddrV4,
}

impl Relay {
    /// Of packets, of the admin port's connections, and of those to enrol.
    pub fn ports(&self) -> [u16; 3] {
        three(self.port)
    }

    /// The switch's, likewise.
    pub fn switch_ports(&self) -> [u16; 3] {
        three(self.to.port())
    }
}

fn three(first: u16) -> [u16; 3] {
    [first, first + 1, first + 2]
}

impl FromStr for Relay {
    type Err = String;

    fn from_str(text: &str) -> Result<Relay, String> {
        let Some((port, to)) = text.trim().split_once('=') else {
            return Err("has to be PORT=ADDR:PORT, as in 7610=10.0.0.1:7600".into());
        };
        let is_possible = |port: &u16| (1..=LAST).contains(port);
        let port: Option<u16> = port.trim().parse().ok().filter(is_possible);
        let port = port.ok_or_else(|| format!("needs a port from 1 to {LAST}: it takes the next two as well"))?;
        let to: Option<SocketAddrV4> = to.trim().parse().ok();
        let to = to.ok_or("needs the other switch's IPv4 address and port, as in 7610=10.0.0.1:7600")?;
        let is_host = !to.ip().is_unspecified() && !to.ip().is_multicast() && !to.ip().is_broadcast();
        if !is_host || !is_possible(&to.port()) {
            return Err(format!("needs the address of one host, and a port from 1 to {LAST}"));
        }
        Ok(Relay { port, to })
    }
}

impl Layers<'_> {
    /// Where none of their ports is another's. `others`: what else the daemon listens at.
    pub(super) fn relays(&self, listen: SocketAddrV4, others: &[Option<SocketAddrV4>]) -> Result<Vec<Relay>, Failure> {
        let Some((written, flag)) = self.pick(|s: &Settings| s.relays.as_ref()) else { return Ok(Vec::new()) };
        let wrong = |what: &str, rule: &str| self.wrong("relays", &what, flag, rule);
        let mut relays: Vec<Relay> = Vec::new();
        for text in written {
            let relay: Relay = text.parse().map_err(|rule: String| wrong(text, &rule))?;
            let own = others.iter().flatten().chain([&listen]);
            let mut taken = own.filter(|own| own.ip() == listen.ip()).map(|own| own.port());
            if taken.any(|port| relay.ports().contains(&port)) {
                return Err(wrong(
                    text,
                    "takes a port of the switch's own: each relay has three, one behind the other",
                ));
            }
            if relays.iter().any(|other| other.port.abs_diff(relay.port) < 3) {
                return Err(wrong(text, "takes a port of another relay: each has three, one behind the other"));
            }
            if relay.to == listen || relays.iter().any(|other| other.to == relay.to) {
                return Err(wrong(text, "is to a switch that has a port here already"));
            }
            relays.push(relay);
        }
        if relays.len() > MOST {
            return Err(wrong(&format!("{} relays", relays.len()), &format!("are too many: {MOST} is the most")));
        }
        Ok(relays)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn read(text: &str) -> Result<Vec<Relay>, String> {
        let file: Settings = toml::from_str(text).unwrap();
        let config = Settings::default().over(file, Some(Path::new("w.toml")));
        config.map(|config| config.relays).map_err(|failure| failure.message)
    }

    #[test]
    fn relays_have_three_ports_each() {
        assert_eq!(read(""), Ok(vec![]));
        let read = read("relays = ['7610=10.0.0.1:7600', ' 7613 = 10.0.0.2:7600 ']").unwrap();
        let ports: Vec<_> =
            read.iter().map(|relay| (relay.ports(), relay.to.to_string(), relay.switch_ports())).collect();
        let switch = |address: &str| (address.to_string(), [7600, 7601, 7602]);
        let expected = [([7610, 7611, 7612], "10.0.0.1:7600"), ([7613, 7614, 7615], "10.0.0.2:7600")];
        assert_eq!(ports, expected.map(|(ports, to)| (ports, switch(to).0, switch(to).1)));
    }

    #[test]
    fn what_can_be_no_relay_is_refused() {
        for (text, why) in [
            ("'7610'", "w.toml: relays = 7610 has to be PORT=ADDR:PORT, as in 7610=10.0.0.1:7600"),
            ("'0=10.0.0.1:7600'", "needs a port from 1 to 65533: it takes the next two as well"),
            ("'65534=10.0.0.1:7600'", "needs a port from 1 to 65533"),
            ("'7610=east:7600'", "needs the other switch's IPv4 address and port"),
            ("'7610=0.0.0.0:7600'", "needs the address of one host"),
            ("'7610=224.0.0.1:7600'", "needs the address of one host"),
            ("'7610=10.0.0.1:65535'", "and a port from 1 to 65533"),
            ("'7598=10.0.0.1:7600'", "takes a port of the switch's own"),
            ("'7601=10.0.0.1:7600'", "takes a port of the switch's own"),
            ("'7610=10.0.0.1:7600', '7612=10.0.0.2:7600'", "takes a port of another relay"),
            ("'7610=10.0.0.1:7600', '7613=10.0.0.1:7600'", "is to a switch that has a port here already"),
            ("'7610=127.0.0.1:7600'", "is to a switch that has a port here already"),
        ] {
            let refused = read(&format!("relays = [{text}]")).unwrap_err();
            assert!(refused.contains(why), "{text}: {refused}");
        }
        let many: Vec<String> = (0..65).map(|n| format!("'{}=10.0.0.{n}:7600'", 8000 + 3 * n)).collect();
        let refused = read(&format!("relays = [{}]", many.join(","))).unwrap_err();
        assert!(refused.contains("65 relays are too many: 64 is the most"), "{refused}");
    }
}
