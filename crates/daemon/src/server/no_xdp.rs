//! A daemon that was built without XDP: there is never a hook to be had, and everything is decided in userspace.

use crate::config::Config;
use crate::failure::Failure;
use crate::server::controller::Inbox;
use std::io;
use std::net::{SocketAddrV4, UdpSocket};
use std::sync::Arc;
use wayside_switch::Switch;

/// What `xdp.rs` has here. None is ever made.
pub struct Hook;

const ABSENT: &str = "built without XDP";

impl Hook {
    pub fn load(_: &Config, _: SocketAddrV4, _: &[u16]) -> Result<(Hook, Switch), Failure> {
        Err(Failure::unavailable(ABSENT))
    }

    pub fn attach(&mut self, _: &Config, _: SocketAddrV4) -> Result<(), Failure> {
        Err(Failure::unavailable(ABSENT))
    }

    pub fn start(&mut self, _: &Arc<Switch>, _: &Arc<UdpSocket>, _: &Inbox) -> Result<(), Failure> {
        Err(Failure::unavailable(ABSENT))
    }

    pub fn resumed(&self) -> bool {
        false
    }

    pub fn describe(&self) -> (String, Vec<String>, Option<String>) {
        ("userspace".into(), Vec::new(), None)
    }

    pub fn await_decisions(&self) -> io::Result<()> {
        Ok(())
    }

    pub fn end(self, _: bool) {}
}

/// Only a daemon that was built with XDP can see what another has left there.
pub fn remove_left(_: &Config, _: SocketAddrV4) {}
