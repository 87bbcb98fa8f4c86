//! What the controller of chains tells the switches: their places, and where clients find a group.

use super::{Controller, Stage};
use crate::chain::Sent;
use crate::controller::Store;
use crate::{Handle, Time};
use alloc::vec;
use alloc::vec::Vec;
use wayside_wire::{BODY, Header, Placement, Role, kind, service};

impl<S: Store> Controller<S> {
    /// Who has not acknowledged what he has to know: as what he is told of the group, and where in its chain he is.
    pub(super) fn untold(&self, now: Time, index: usize) -> Vec<(Handle, Role, usize)> {
        let group = &self.groups[index];
        let (stage, chain) = (group.stage, &group.chain);
        let last = chain.len().saturating_sub(1);
        let mut told: Vec<(Handle, Role, usize)> = group.owing.iter().map(|&handle| (handle, Role::None, 0)).collect();
        match stage {
            Stage::Fence | Stage::Lost => {}
            Stage::Fill => {
                told.extend(chain[..last].iter().enumerate().map(|(at, &handle)| (handle, Role::Member, at)))
            }
            Stage::Crown => told.push((chain[last], Role::Member, last)),
            Stage::Active | Stage::Load => {
                // Everybody answers clients who ask where groups are.
                let others = self.switches.keys().filter(|handle| !chain.contains(handle));
                told.extend(
                    others.filter(|handle| !group.owing.contains(handle)).map(|&handle| (handle, Role::None, 0)),
                );
            }
            Stage::Quiet => told.push((chain[last], Role::Quiet, last)),
            Stage::Rest => {}
        }
        told.retain(|(handle, ..)| !group.placed.contains(handle) && *handle != group.joiner);
        if matches!(stage, Stage::Load | Stage::Rest) {
            told.push((group.joiner, Role::Joiner, 0));
        }
        told.retain(|(handle, ..)| self.is_up(now, *handle));
        told
    }

    pub(super) fn tell(&mut self, index: usize, untold: &[(Handle, Role, usize)]) {
        for &(handle, role, at) in untold {
            let placement = self.placement(index, handle, role, at);
            let epoch = placement.epoch;
            self.say(handle, kind::chain::PLACE, epoch, |packet| placement.write(packet, BODY));
        }
    }

    fn placement(&self, index: usize, handle: Handle, role: Role, at: usize) -> Placement {
        let group = &self.groups[index];
        let address = |handle: Option<&Handle>| {
            let switch = handle.and_then(|handle| self.switches.get(handle));
            switch.map_or((0, 0), |switch| ((*switch.fellow.address.ip()).into(), switch.fellow.address.port()))
        };
        let ((head_address, head_port), (tail_address, tail_port)) =
            (address(group.chain.first()), address(group.chain.last()));
        let is_member = role == Role::Member;
        let neighbour = |at: Option<usize>| at.filter(|_| is_member).and_then(|at| group.chain.get(at)).copied();
        Placement {
            boot: self.switches.get(&handle).map_or(0, |switch| switch.boot),
            pass: if matches!(role, Role::Joiner | Role::None) { group.pass } else { 0 },
            epoch: group.epoch,
            group: group.number,
            previous: neighbour(at.checked_sub(1)).unwrap_or(0),
            next: neighbour(Some(at + 1)).unwrap_or(0),
            source: group.chain.last().copied().unwrap_or(0),
            role: role as u8,
            refused: 0,
            head_port,
            head_address,
            tail_address,
            tail_port,
        }
    }

    pub(super) fn say(&mut self, to: Handle, kind: u8, epoch: u32, body: impl FnOnce(&mut [u8])) {
        let mut packet = vec![0; BODY + Placement::BYTES];
        let own = self.config.own;
        let header = Header { service: service::CHAIN, kind, epoch, source: own, destination: to, ..Header::default() };
        header.write(&mut packet);
        body(&mut packet);
        self.out.push_back(Sent { to, port: 0, packet });
    }
}
