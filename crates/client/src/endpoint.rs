//! Where the switch is: `host`, `host:port`, or several of them; or where those of each shard are.

use crate::{Error, Name};
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, ToSocketAddrs};
use wayside_protocol::Shards;

/// Names the switch for every session that is not told otherwise: `host[:port]`, several separated by commas; where
/// locks are divided among shards, `name=` and those of each, separated by semicolons.
pub const ENDPOINTS_VARIABLE: &str = "WAYSIDE_ENDPOINTS";

/// One way to the switch, or to a standby of it. Any other switch would know nothing of the locks.
///
/// Resolved anew at every enrolment, so that a switch that has moved is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    host: String,
    port: u16,
}

impl Endpoint {
    /// Reads `host` or `host:port`; the port is 7600 where there is none.
    ///
    /// # Errors
    /// [`Error::InvalidEndpoint`] if it is neither.
    pub fn parse(text: &str) -> Result<Endpoint, Error> {
        let invalid = |why: &str| Error::InvalidEndpoint(format!("{text:?}: {why}, as in 127.0.0.1:7600"));
        let text = text.trim();
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) => (host, port.parse().map_err(|_| invalid("the port is a number from 1 to 65535"))?),
            None => (text, wayside_wire::PORT),
        };
        if host.contains(':') {
            return Err(invalid("Wayside speaks IPv4: write host:port"));
        }
        if host.is_empty() || host.contains(char::is_whitespace) || port == 0 {
            return Err(invalid("write host:port"));
        }
        Ok(Endpoint { host: host.into(), port })
    }

    /// Whether nothing has to be looked up to find it.
    pub(crate) fn is_address(&self) -> bool {
        self.host.parse::<Ipv4Addr>().is_ok()
    }

    /// Reads several, separated by commas.
    ///
    /// # Errors
    /// [`Error::InvalidEndpoint`] if one of them is none, or there is none.
    pub fn parse_list(text: &str) -> Result<Vec<Endpoint>, Error> {
        text.split(',').map(Endpoint::parse).collect()
    }

    /// The address it leads to now.
    ///
    /// # Errors
    /// [`Error::InvalidEndpoint`] if it leads to no IPv4 address.
    pub fn resolve(&self) -> Result<SocketAddrV4, Error> {
        let addresses = (self.host.as_str(), self.port)
            .to_socket_addrs()
            .map_err(|error| Error::InvalidEndpoint(format!("{self}: {error}")))?;
        addresses
            .filter_map(|address| match address {
                SocketAddr::V4(address) => Some(address),
                SocketAddr::V6(_) => None,
            })
            .next()
            .ok_or_else(|| Error::InvalidEndpoint(format!("{self} has no IPv4 address")))
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// Where the switches of each shard are. There is one shard without a name, or there are several with names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoints {
    shards: Option<Shards>,
    /// In the order of the shards.
    of_each: Vec<Vec<Endpoint>>,
}

impl Endpoints {
    /// Reads `10.0.0.1:7600,10.0.0.2:7600`, or `east=10.0.0.1:7600,10.0.0.2:7600;west=10.0.1.1:7600`.
    ///
    /// # Errors
    /// [`Error::InvalidEndpoint`] if it is neither.
    pub fn parse(text: &str) -> Result<Endpoints, Error> {
        if !text.contains(['=', ';']) {
            return Ok(Endpoints { shards: None, of_each: vec![Endpoint::parse_list(text)?] });
        }
        let mut named = Vec::new();
        for part in text.split(';') {
            let Some((name, list)) = part.split_once('=') else {
                let why = "each shard has a name, as in east=10.0.0.1:7600;west=10.0.1.1:7600";
                return Err(Error::InvalidEndpoint(format!("{part:?}: {why}")));
            };
            named.push((name.trim().to_owned(), Endpoint::parse_list(list)?));
        }
        let shards = Shards::new(named.iter().map(|(name, _)| name.clone()))
            .map_err(|error| Error::InvalidEndpoint(format!("{text:?}: {error}")))?;
        named.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        Ok(Endpoints { shards: Some(shards), of_each: named.into_iter().map(|(_, list)| list).collect() })
    }

    /// Among which names are divided, if there are several.
    #[must_use]
    pub fn shards(&self) -> Option<&Shards> {
        self.shards.as_ref()
    }

    /// Those of each shard.
    #[must_use]
    pub fn of_each(&self) -> &[Vec<Endpoint>] {
        &self.of_each
    }

    /// Those of the shard that has the keys: the first.
    #[must_use]
    pub fn of_keys(&self) -> &[Endpoint] {
        &self.of_each[0]
    }

    /// Those of the shard that has this lock.
    ///
    /// # Errors
    /// [`Error::InvalidName`].
    pub fn of_lock(&self, name: Name<'_>) -> Result<&[Endpoint], Error> {
        let id = name.id()?;
        Ok(&self.of_each[self.shards.as_ref().map_or(0, |shards| shards.owner(id))])
    }
}

impl fmt::Display for Endpoints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, list) in self.of_each.iter().enumerate() {
            f.write_str(if place > 0 { ";" } else { "" })?;
            if let Some(shards) = &self.shards {
                write!(f, "{}=", shards.names()[place])?;
            }
            for (index, endpoint) in list.iter().enumerate() {
                write!(f, "{}{endpoint}", if index > 0 { "," } else { "" })?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_read_back_as_written() {
        for (text, read) in [("127.0.0.1:7600", "127.0.0.1:7600"), (" switch.example ", "switch.example:7600")] {
            assert_eq!(Endpoint::parse(text).unwrap().to_string(), read);
        }
        assert_eq!(Endpoint::parse_list("a:1,b:2").unwrap().len(), 2);
    }

    #[test]
    fn shards_are_in_the_order_of_their_names() {
        let read = Endpoints::parse("west=a:1, b:2 ;east=c").unwrap();
        assert_eq!(read.to_string(), "east=c:7600;west=a:1,b:2");
        assert_eq!(Endpoints::parse(&read.to_string()), Ok(read.clone()));
        assert_eq!(read.shards().unwrap().names(), ["east", "west"]);
        let owner = read.shards().unwrap().owner(Name::Text("jobs").id().unwrap());
        assert_eq!(read.of_lock("jobs".into()).unwrap(), read.of_each()[owner]);
        let one = Endpoints::parse("a:1,b:2").unwrap();
        assert_eq!((one.to_string(), one.shards()), ("a:1,b:2".into(), None));
    }

    #[test]
    fn what_are_no_shards_is_refused() {
        for text in ["a=b:1", "a=b:1;a=c:1", "a=b:1;c:1", "a=;b=c:1", "=a:1;b=c:1", "a=b:1;", "a b=c:1;d=e:1", ";"] {
            assert!(matches!(Endpoints::parse(text), Err(Error::InvalidEndpoint(_))), "{text:?}");
        }
    }

    #[test]
    fn what_is_no_endpoint_is_refused() {
        for text in ["", ":7600", "host:", "host:0", "host:70000", "host:x", "[::1]:7600", "::1", "a b:1", "a:1,"] {
            assert!(matches!(Endpoint::parse_list(text), Err(Error::InvalidEndpoint(_))), "{text:?}");
        }
    }

    #[test]
    fn a_name_that_leads_nowhere_is_said_to() {
        assert!(matches!(Endpoint::parse("no.such.host.invalid:1").unwrap().resolve(), Err(Error::InvalidEndpoint(_))));
    }
}
