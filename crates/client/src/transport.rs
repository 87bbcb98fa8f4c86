//! By which way packets leave a thread's reply port, and what came of the wish.

use crate::Error;
use std::fmt;

/// Says how reply ports are made for every session that is not told otherwise: `udp`, or
/// `afxdp:INTERFACE[:FIRST_QUEUE]`. Where the switch is says [`ENDPOINTS_VARIABLE`](crate::ENDPOINTS_VARIABLE).
pub const TRANSPORT_VARIABLE: &str = "WAYSIDE_TRANSPORT";

/// By which way packets leave a thread's reply port. Everything else of a session goes by UDP in either case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    /// A UDP socket: needs nothing.
    #[default]
    Udp,
    /// An AF_XDP socket besides the UDP socket, past the kernel's network stack: about half the time of a round trip,
    /// for privileges and a queue of the interface. `docs/endpoints.md` says more.
    AfXdp {
        /// Over which the switch is reached.
        interface: String,
        /// Queues below it are left alone.
        first_queue: u32,
    },
}

impl Transport {
    /// Reads `udp`, `afxdp:INTERFACE` or `afxdp:INTERFACE:FIRST_QUEUE`.
    ///
    /// # Errors
    /// [`Error::Transport`] if it is none of them.
    pub fn parse(text: &str) -> Result<Transport, Error> {
        let text = text.trim();
        let invalid = || {
            Error::Transport(format!(
                "{text:?} is no way to send: write udp, or afxdp:INTERFACE or afxdp:INTERFACE:FIRST_QUEUE as in \
                 afxdp:eth0:2 (where the switch is goes into WAYSIDE_ENDPOINTS)"
            ))
        };
        if text == "udp" {
            return Ok(Transport::Udp);
        }
        let rest = text.strip_prefix("afxdp:").ok_or_else(invalid)?;
        let (interface, first_queue) = match rest.split_once(':') {
            Some((interface, queue)) => (interface, queue.parse().map_err(|_| invalid())?),
            None => (rest, 0),
        };
        if interface.is_empty() || interface.contains(|c: char| c.is_whitespace() || c == '/' || c == '\0') {
            return Err(invalid());
        }
        Ok(Transport::AfXdp { interface: interface.into(), first_queue })
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Transport::Udp => f.write_str("udp"),
            Transport::AfXdp { interface, first_queue } => write!(f, "afxdp:{interface}:{first_queue}"),
        }
    }
}

/// Where in the kernel the client's XDP program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookMode {
    /// In the interface's driver, before the kernel has made anything of the packet.
    Native,
    /// After that, for drivers without XDP: less is gained.
    Generic,
}

/// What a session's threads really use. Its text tells it to people.
#[derive(Clone, Debug)]
pub struct TransportReport {
    /// What was asked for.
    pub asked: Transport,
    /// How the XDP program is attached; None with UDP.
    pub hook: Option<HookMode>,
    /// Why the hook or the way to the switch is not the best there is.
    pub remark: Option<String>,
    /// The threads' reply ports so far.
    pub ports: Vec<PortReport>,
}

/// What one reply port really uses.
#[derive(Clone, Debug, Default)]
pub struct PortReport {
    /// Its UDP port.
    pub number: u16,
    /// Queue of the AF_XDP socket; None: the port goes by UDP alone.
    pub queue: Option<u32>,
    /// The interface's hardware reads and writes the port's own memory.
    pub zero_copy: bool,
    /// Why there is no queue.
    pub remark: Option<String>,
    /// Packets sent by AF_XDP.
    pub sent: u64,
    /// Packets received by AF_XDP.
    pub received: u64,
    /// Packets received by UDP although the port has a queue: they came in on another one.
    pub strays: u64,
}

impl fmt::Display for TransportReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Transport::AfXdp { interface, .. } = &self.asked else { return f.write_str("UDP") };
        let hook = if self.hook == Some(HookMode::Generic) { "generic" } else { "native" };
        write!(f, "AF_XDP on {interface}, {hook} XDP")?;
        if let Some(remark) = &self.remark {
            write!(f, " ({remark})")?;
        }
        for port in &self.ports {
            write!(f, "; port {}: ", port.number)?;
            match (port.queue, &port.remark) {
                (Some(queue), _) => {
                    write!(f, "queue {queue}, {}", if port.zero_copy { "zero copy" } else { "copied" })?
                }
                (None, Some(remark)) => write!(f, "UDP, for {remark}")?,
                (None, None) => f.write_str("UDP")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transports_read_back_as_written() {
        for (text, read) in [("udp", "udp"), ("afxdp:eth0", "afxdp:eth0:0"), (" afxdp:eth0.7:3 ", "afxdp:eth0.7:3")] {
            assert_eq!(Transport::parse(text).unwrap().to_string(), read);
        }
    }

    #[test]
    fn what_is_no_transport_is_refused() {
        for text in
            ["", "UDP", "afxdp", "afxdp:", "afxdp::1", "afxdp:eth0:", "afxdp:eth0:x", "afxdp:eth0:-1", "10.0.0.1:7600"]
        {
            assert!(matches!(Transport::parse(text), Err(Error::Transport(_))), "{text:?}");
        }
    }

    #[test]
    fn a_report_says_which_port_uses_what() {
        let asked = Transport::parse("afxdp:eth0").unwrap();
        let fast = PortReport { number: 1_000, queue: Some(3), ..PortReport::default() };
        let slow = PortReport { number: 1_001, remark: Some("queue 3 is taken".into()), ..PortReport::default() };
        let report = TransportReport { asked, hook: Some(HookMode::Native), remark: None, ports: vec![fast, slow] };
        let expected = "AF_XDP on eth0, native XDP; port 1000: queue 3, copied; port 1001: UDP, for queue 3 is taken";
        assert_eq!(report.to_string(), expected);
    }
}
