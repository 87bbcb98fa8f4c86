//! Where the switch is: `host`, `host:port`, or several of them.

use crate::Error;
use std::net::{SocketAddr, SocketAddrV4, ToSocketAddrs};

/// Names the switch for every session that is not told otherwise: `host[:port]`, several separated by commas.
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

impl std::fmt::Display for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
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
