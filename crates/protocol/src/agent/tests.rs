//! The agent's rules, one at a time: what it hears, and what it says then (docs/protocol.md, "The agent").

mod changes;
mod granting;
mod heritage;
mod home;
mod priorities;

use super::*;
use crate::agency::Dead;
use crate::kept::Kept;
use crate::line::Priority;
use crate::node::NodeConfig;
use crate::outbox::Outbox;
use wayside_wire::{BODY, Entry, Header, check, entry_at, entry_flag, kind, limits};

const ME: Handle = 1;
const SLOT: u32 = 3;
const NAME: u64 = 0xaa;
const OTHER: u64 = 0xbb;
const STAMP: Stamp = Stamp { epoch: 7, tenure: 5 };
const EXCLUSIVE: Mode = Mode::Exclusive;
const SHARED: Mode = Mode::Shared;

/// A packet of the agent's.
#[derive(Debug)]
struct Said {
    kind: u8,
    to: Handle,
    flags: u16,
    position: u16,
    entries: Vec<Entry>,
}

impl Said {
    fn bits(&self) -> SlotBits {
        SlotBits::from_u16(self.entries[0].slot_bits)
    }

    fn holders(&self) -> Vec<Handle> {
        self.entries.iter().map(|entry| entry.holder).collect()
    }
}

/// An agent alone with what it has at hand.
struct Scene {
    agent: Agent,
    config: NodeConfig,
    dead: Dead,
    nonce: u64,
    out: Outbox,
    local: VecDeque<Party>,
    kept: Kept,
    now: Time,
}

fn bits(state: SlotState, joins: u16) -> SlotBits {
    SlotBits { state, transferred: false, tryable: true, joins }
}

fn party(holder: Handle, request: u64, name: u64, mode: Mode) -> Party {
    Party {
        holder,
        request,
        name,
        mode,
        port: 20_000 + holder,
        tries: false,
        rank: Rank::default(),
        token: Token::default(),
    }
}

fn urgent(level: u8, party: Party) -> Party {
    let priority = Priority::new(level).expect("a level");
    Party { rank: Rank { priority, ..party.rank }, ..party }
}

fn trying(holder: Handle, request: u64, mode: Mode) -> Party {
    Party { tries: true, ..party(holder, request, NAME, mode) }
}

impl Scene {
    /// Of a slot in this state, tryable for [`NAME`], which nobody holds.
    fn new(state: SlotState) -> Scene {
        let mut agent = Agent::with_room();
        agent.reset(SLOT, STAMP, bits(state, 0));
        agent.name = NAME;
        let (config, now) = (NodeConfig::new(1), Time(1_000_000));
        let (out, local) = (Outbox::new(), VecDeque::new());
        Scene { agent, config, dead: Dead::default(), nonce: 0, out, local, kept: Kept::new(0), now }
    }

    /// With this holder of it.
    fn held(state: SlotState, holder: Party) -> Scene {
        let mut scene = Scene::new(state);
        scene.agent.granted_with(Party { token: Token::new(STAMP, 0), ..holder }, true);
        scene
    }

    fn with<T>(&mut self, act: impl FnOnce(&mut Agent, &mut Desk) -> T) -> T {
        let mut desk = Desk {
            me: ME,
            now: self.now,
            port: 0,
            header: Header { source: ME, epoch: STAMP.epoch, namespace: 1, ..Header::default() },
            config: &self.config,
            dead: &self.dead,
            nonce: &mut self.nonce,
            out: &mut self.out,
            local: &mut self.local,
            kept: &mut self.kept,
        };
        act(&mut self.agent, &mut desk)
    }

    fn acquire(&mut self, party: Party) -> Taken {
        self.with(|agent, desk| agent.on_acquire(party, None, desk))
    }

    fn release(&mut self, holder: Handle, request: u64) {
        self.with(|agent, desk| agent.on_release(holder, request, None, desk));
    }

    /// So many microseconds later.
    fn tick(&mut self, later: u64) {
        self.now = self.now + later;
        self.with(|agent, desk| agent.on_tick(desk));
    }

    fn said(&mut self) -> Vec<Said> {
        let mut said = Vec::new();
        while let Some(sent) = self.out.pop(None) {
            let header = check(sent.packet).expect("the agent writes packets");
            let entries = (0..usize::from(header.count)).map(|index| Entry::read(sent.packet, entry_at(index)));
            said.push(Said {
                kind: header.kind,
                to: header.destination,
                flags: header.flags,
                position: header.position,
                entries: entries.collect(),
            });
        }
        said
    }

    /// The one packet that was said.
    fn one(&mut self) -> Said {
        let mut said = self.said();
        assert_eq!(said.len(), 1, "{said:?}");
        said.remove(0)
    }

    fn is_silent(&mut self) {
        let said = self.said();
        assert!(said.is_empty(), "{said:?}");
    }

    /// RETENURED, about what was asked for.
    fn answer(&mut self, flags: u16, stamp: Stamp, bits: SlotBits, holder: Handle) -> After {
        let pending = self.agent.pending.as_ref().expect("something is asked for");
        let request = match pending.change {
            Change::Transfer(to) => to.request,
            _ => pending.nonce,
        };
        let entry =
            Entry { request, slot: SLOT, tenure: stamp.tenure, holder, slot_bits: bits.to_u16(), ..Entry::default() };
        let header = Header { flags, ..Header::default() };
        self.with(|agent, desk| agent.on_retenured(&header, &entry, (stamp, bits), desk))
    }

    fn applied(&mut self, state: SlotState) -> After {
        self.answer(header_flag::APPLIED, NEXT, bits(state, 0), ME)
    }

    fn waiting(&self) -> Vec<(Handle, u64)> {
        self.agent.waiters().map(|party| (party.holder, party.request)).collect()
    }

    fn holding(&self) -> Vec<(Handle, u64)> {
        self.agent.holders().map(|party| (party.holder, party.request)).collect()
    }
}

const NEXT: Stamp = Stamp { epoch: 7, tenure: 6 };

/// A MANAGED slot that node 2 waits for and this node has just given up: the transfer to node 2 is under way.
fn transferring(waiters: &[Party]) -> (Scene, Said) {
    let mut scene = Scene::held(SlotState::Managed, party(ME, 1, NAME, EXCLUSIVE));
    for &waiter in waiters {
        assert_eq!(scene.acquire(waiter), Taken::Yes);
    }
    scene.is_silent();
    scene.release(ME, 1);
    let said = scene.one();
    (scene, said)
}
