//! The chain service at this daemon: makes keys, and tells clients where groups are. On the controller's thread.
//!
//! A switch is alone in its chains: head and tail of all of its groups, under the epoch that it serves under. What its
//! keys have lies in its memory, and is gone with it.

use crate::answers::{KeyLine, Keys as KeyList};
use crate::config::Config;
use std::net::{SocketAddrV4, UdpSocket};
use std::sync::Arc;
use wayside_protocol::chain::memory::ItemMemory;
use wayside_protocol::chain::{GroupRoute, Groups, Member, Place};
use wayside_switch::Switch;
use wayside_wire::{Header, service};

/// Keys in an answer: it is one line.
const MOST_LISTED: usize = 10_000;

pub struct Keys {
    switch: Arc<Switch>,
    member: Member<Arc<Switch>>,
    groups: Vec<Groups>,
    /// Where clients are sent to.
    listen: SocketAddrV4,
    /// Under which its groups have a place; 0: under none yet.
    epoch: u32,
}

impl Keys {
    /// Of the namespaces that have room for keys.
    pub fn new(switch: Arc<Switch>, config: &Config, numbers: &[u16], listen: SocketAddrV4) -> Keys {
        let groups = groups_of(config, numbers);
        let member = Member::new(Arc::clone(&switch), 0, groups.clone());
        Keys { switch, member, groups, listen, epoch: 0 }
    }

    /// The switch serves under this epoch.
    pub fn serve_under(&mut self, epoch: u32) {
        if self.epoch == epoch {
            return;
        }
        self.epoch = epoch;
        let route = GroupRoute { epoch, head: self.listen, tail: self.listen };
        for groups in &self.groups {
            for group in groups.base..groups.base + groups.count {
                self.member.take_place(group, Place { epoch, previous: 0, next: 0 }, route);
            }
        }
    }

    /// Takes a packet, if it is of the chain service. False: it is another's.
    pub fn on_packet(&mut self, from: SocketAddrV4, packet: &[u8]) -> bool {
        let is_mine = Header::read(packet).is_ok_and(|header| header.service == service::CHAIN);
        if is_mine {
            self.member.on_packet(from.port(), packet);
        }
        is_mine
    }

    /// Keys whose names begin so, by name.
    pub fn list(&self, namespace: u16, prefix: &[u8]) -> KeyList {
        let mut found: Vec<_> = self.member.names(namespace).filter(|(name, ..)| name.starts_with(prefix)).collect();
        found.sort_unstable();
        let more = found.len().saturating_sub(MOST_LISTED);
        found.truncate(MOST_LISTED);
        let line = |(name, group, key): (&[u8], u16, _)| {
            let content = self.switch.content(group, key)?;
            let name = String::from_utf8_lossy(name).into_owned();
            Some(KeyLine { name, version: content.version.to_string(), bytes: content.length })
        };
        KeyList { keys: found.into_iter().filter_map(line).collect(), more }
    }

    /// Sends what there is to say.
    pub fn settle(&mut self, socket: &UdpSocket) {
        while let Some(mut sent) = self.member.transmit() {
            // Who has no key or address is gone.
            let Some(to) = self.switch.address(sent.to, sent.port) else { continue };
            if !self.switch.seal(sent.to, &mut sent.packet) {
                continue;
            }
            // Lost like any packet: whoever waits for it asks again.
            if let Err(error) = socket.send_to(&sent.packet, to) {
                tracing::debug!(%to, %error, "a packet about keys was not sent");
            }
        }
    }
}

/// Groups are numbered in the order of namespaces' numbers, which stay: so are they.
pub fn groups_of(config: &Config, numbers: &[u16]) -> Vec<Groups> {
    let mut namespaces: Vec<_> = config.namespaces.iter().zip(numbers).collect();
    namespaces.sort_unstable_by_key(|(_, number)| **number);
    let mut base = 0u16;
    let mut groups = Vec::new();
    for (namespace, &number) in namespaces {
        let count = if namespace.keys == 0 { 0 } else { namespace.groups };
        groups.push(Groups { namespace: number, name: namespace.name.as_bytes().into(), base, count });
        base = base.wrapping_add(namespace.groups);
    }
    groups
}
