//! In place of AF_XDP, where the feature `afxdp` is off: nothing of it can be made, so nothing of it is ever called.

use crate::Error;
use crate::socket::Buffer;
use crate::transport::{PortReport, Transport, TransportReport};
use std::convert::Infallible;
use std::net::SocketAddrV4;
use std::os::fd::RawFd;
use std::sync::Arc;

pub(crate) struct Reach(Infallible);

impl Reach {
    pub(crate) fn open(transport: &Transport) -> Result<Option<Arc<Reach>>, Error> {
        match transport {
            Transport::Udp => Ok(None),
            Transport::AfXdp { .. } => {
                Err(Error::Transport(format!("{transport} is not in this build: it lacks the cargo feature `afxdp`")))
            }
        }
    }

    pub(crate) fn refresh(&self, _: SocketAddrV4) {
        match self.0 {}
    }

    pub(crate) fn report(&self, _: Transport) -> TransportReport {
        match self.0 {}
    }
}

pub(crate) struct Flow(Infallible);

impl Flow {
    pub(crate) fn open(reach: &Arc<Reach>, _: SocketAddrV4, _: SocketAddrV4) -> Flow {
        match reach.0 {}
    }

    pub(crate) fn reopen(&self, _: SocketAddrV4, _: SocketAddrV4) {
        match self.0 {}
    }

    pub(crate) fn settle(&self) {
        match self.0 {}
    }

    pub(crate) fn send<'p>(&self, _: impl Iterator<Item = &'p [u8]> + Clone, _: impl Fn(&'p [u8])) {
        match self.0 {}
    }

    pub(crate) fn receive(&self, _: &mut Buffer) -> Option<usize> {
        match self.0 {}
    }

    pub(crate) fn has_arrivals(&self) -> bool {
        match self.0 {}
    }

    pub(crate) fn spares_udp(&self) -> bool {
        match self.0 {}
    }

    pub(crate) fn count_stray(&self) {
        match self.0 {}
    }

    pub(crate) fn descriptor(&self) -> RawFd {
        match self.0 {}
    }

    pub(crate) fn report(&self) -> PortReport {
        match self.0 {}
    }
}
