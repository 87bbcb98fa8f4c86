//! The agent's rules, one at a time: what it hears, and what it says then (docs/protocol.md, "The agent").

use super::*;
use crate::agency::Dead;
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
    now: Time,
}

fn bits(state: SlotState, joins: u16) -> SlotBits {
    SlotBits { state, transferred: false, tryable: true, joins }
}

fn party(holder: Handle, request: u64, name: u64, mode: Mode) -> Party {
    Party { holder, request, name, mode, port: 20_000 + holder, tries: false, token: Token::default() }
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
        Scene { agent, config, dead: Dead::default(), nonce: 0, out, local, now }
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

// ---- changes ----

#[test]
fn a_transfer_names_its_condition_and_takes_the_waiters_along() {
    let third = party(3, 30, NAME, SHARED);
    let (_, said) = transferring(&[party(2, 20, NAME, EXCLUSIVE), third]);
    assert_eq!((said.kind, said.to, said.position, said.flags), (kind::lock::RETENURE, 0, 1, 0));
    let [first, second] = said.entries[..] else { panic!("{said:?}") };
    assert_eq!((first.holder, first.request, first.name, first.tenure), (2, 20, NAME, STAMP.tenure));
    assert_eq!((first.slot, first.reply_port), (SLOT, 20_002));
    assert_eq!(second, third.to_entry(SLOT));
    assert_eq!(said.bits(), SlotBits { state: SlotState::Managed, transferred: true, tryable: true, joins: 0 });
}

#[test]
fn a_transfer_leaves_the_slot_open_only_where_everybody_reads() {
    let readers = [party(2, 20, NAME, SHARED), party(3, 30, NAME, SHARED)];
    assert_eq!(transferring(&readers).1.bits().state, SlotState::Open);
    let mixed = [party(2, 20, NAME, SHARED), party(3, 30, NAME, SHARED), party(2, 21, NAME, EXCLUSIVE)];
    let mut scene = Scene::held(SlotState::Managed, party(ME, 1, NAME, EXCLUSIVE));
    mixed.into_iter().for_each(|waiter| assert_eq!(scene.acquire(waiter), Taken::Yes));
    scene.release(ME, 1);
    assert_eq!(scene.one().bits().state, SlotState::Managed, "one of them wants to write");
    let writer = [party(2, 20, NAME, EXCLUSIVE)];
    assert_eq!(transferring(&writer).1.bits().state, SlotState::Managed);
}

/// "A transfer is asked for again until QUEUED, from the second time on with reply port 0".
#[test]
fn a_change_is_asked_for_again_in_pauses_that_double_up_to_the_longest() {
    let (mut scene, said) = transferring(&[party(2, 20, NAME, EXCLUSIVE)]);
    assert_eq!(said.entries[0].reply_port, 20_002);
    let mut pause = scene.config.retransmit_us;
    for _ in 0..12 {
        assert_eq!(scene.agent.pending.as_ref().map(|pending| pending.due), Some(scene.now + pause));
        scene.tick(pause - 1);
        scene.is_silent();
        scene.tick(1);
        let again = scene.one();
        assert_eq!((again.kind, again.entries[0].reply_port), (kind::lock::RETENURE, 0));
        pause = (pause * 2).min(scene.config.retransmit_most_us);
    }
    assert_eq!(pause, scene.config.retransmit_most_us);
}

/// "After 200 us, if somebody waits in limbo for the outcome", and no later than it would be anyway.
#[test]
fn a_transfer_that_somebody_waits_for_is_asked_for_again_soon() {
    let (mut scene, _) = transferring(&[party(2, 20, NAME, EXCLUSIVE)]);
    scene.agent.hurry(scene.now);
    assert_eq!(scene.agent.due(), scene.now + 200);
    scene.agent.hurry(scene.now + 100);
    assert_eq!(scene.agent.due(), scene.now + 200, "the first who waits counts");
    scene.tick(200);
    let due = scene.agent.due();
    scene.agent.hurry(scene.now);
    assert_eq!(scene.agent.due(), due, "the second time it has been asked for already");
    let mut scene = Scene::held(SlotState::Managed, party(ME, 1, NAME, EXCLUSIVE));
    scene.release(ME, 1);
    let due = scene.agent.due();
    scene.agent.hurry(scene.now);
    assert_eq!(scene.agent.due(), due, "nobody has to send anything for a free slot");
}

#[test]
fn an_answer_to_something_else_changes_nothing() {
    let (mut scene, _) = transferring(&[party(2, 20, NAME, EXCLUSIVE)]);
    let entry = Entry { request: 21, slot: SLOT, tenure: NEXT.tenure, holder: 2, ..Entry::default() };
    for flags in [header_flag::APPLIED, header_flag::STALE_TENURE, header_flag::REFUSED | header_flag::DEAD] {
        let header = Header { flags, ..Header::default() };
        let at = (NEXT, bits(SlotState::Managed, 1));
        assert_eq!(scene.with(|agent, desk| agent.on_retenured(&header, &entry, at, desk)), After::Goes);
        assert!(scene.agent.is_pending());
    }
    scene.is_silent();
}

#[test]
fn an_answer_about_an_earlier_tenure_or_of_no_outcome_is_ignored() {
    let (mut scene, _) = transferring(&[party(2, 20, NAME, EXCLUSIVE)]);
    let managed = bits(SlotState::Managed, 0);
    assert_eq!(scene.answer(0, NEXT, managed, 2), After::Goes, "it says of nothing that it came to pass");
    assert_eq!(scene.answer(header_flag::APPLIED, STAMP, managed, ME), After::Goes);
    assert_eq!(scene.answer(header_flag::STALE_TENURE, STAMP, managed, ME), After::Goes);
    let earlier = Stamp { tenure: STAMP.tenure - 1, ..STAMP };
    assert_eq!(scene.answer(header_flag::REFUSED | header_flag::DEAD, earlier, managed, ME), After::Goes);
    assert!(scene.agent.is_pending());
    scene.is_silent();
    assert_eq!(scene.answer(header_flag::APPLIED, NEXT, managed, 2), After::Over);
}

#[test]
fn a_stale_tenure_is_the_end_of_an_agent() {
    let (mut scene, _) = transferring(&[party(2, 20, NAME, EXCLUSIVE)]);
    assert_eq!(scene.answer(header_flag::STALE_TENURE, NEXT, bits(SlotState::Managed, 0), 2), After::Over);
}

/// REFUSED is meant for this change only if the switch counts other joins, or says that the heir is dead.
#[test]
fn a_refusal_that_names_the_same_joins_is_a_late_copy() {
    let (mut scene, _) = transferring(&[party(2, 20, NAME, EXCLUSIVE)]);
    assert_eq!(scene.answer(header_flag::REFUSED, STAMP, bits(SlotState::Managed, 0), ME), After::Goes);
    assert!(scene.agent.is_pending());
    scene.is_silent();
    assert_eq!(scene.answer(header_flag::REFUSED, NEXT, bits(SlotState::Managed, 1), ME), After::Goes);
    assert!(scene.agent.is_pending(), "of another tenure");
}

#[test]
fn a_transfer_that_is_refused_for_its_joins_puts_the_waiter_back_to_the_front() {
    let (mut scene, _) = transferring(&[party(2, 20, NAME, EXCLUSIVE), party(3, 30, NAME, EXCLUSIVE)]);
    assert_eq!(scene.answer(header_flag::REFUSED, STAMP, bits(SlotState::Managed, 1), ME), After::Goes);
    assert!(!scene.agent.is_pending());
    assert_eq!(scene.waiting(), [(2, 20), (3, 30)]);
    scene.is_silent();
    assert_eq!(scene.agent.due(), scene.now + scene.config.gap_us, "a join is missing");
    let join = party(4, 40, NAME, SHARED);
    scene.with(|agent, desk| agent.on_join(join, STAMP, 1, false, desk));
    assert_eq!(scene.holding(), [(4, 40)]);
}

#[test]
fn a_transfer_to_a_dead_node_drops_all_that_it_waits_for() {
    let waiters = [party(2, 20, NAME, EXCLUSIVE), party(3, 30, NAME, EXCLUSIVE), party(2, 21, NAME, SHARED)];
    let (mut scene, _) = transferring(&waiters);
    let flags = header_flag::REFUSED | header_flag::DEAD;
    assert_eq!(scene.answer(flags, STAMP, bits(SlotState::Managed, 0), ME), After::Goes);
    let said = scene.one();
    assert_eq!((said.kind, said.holders()), (kind::lock::RETENURE, [3].to_vec()));
}

/// Either refusal comes from the switch, which looks at who is agent: so it is confirmed.
#[test]
fn a_refusal_confirms_an_adopted_agent() {
    let mut scene = Scene::new(SlotState::Managed);
    scene.agent.confirmed = false;
    scene.with(|agent, desk| agent.serve(desk));
    assert_eq!(scene.one().kind, kind::lock::RETENURE);
    scene.answer(header_flag::REFUSED, STAMP, bits(SlotState::Managed, 1), ME);
    assert!(scene.agent.is_usable());
}

#[test]
fn after_a_renewal_the_agent_goes_on_in_a_new_tenure() {
    let mut scene = Scene::held(SlotState::Managed, party(ME, 1, NAME, SHARED));
    scene.agent.tryable = true;
    scene.acquire(party(2, 20, OTHER, EXCLUSIVE));
    let said = scene.one();
    assert_eq!((said.kind, said.bits().state, said.bits().tryable), (kind::lock::RETENURE, SlotState::Managed, false));
    assert_eq!(scene.waiting(), [(2, 20)], "nothing is granted meanwhile");
    let renewed = SlotBits { tryable: false, ..bits(SlotState::Managed, 0) };
    assert_eq!(scene.answer(header_flag::APPLIED, NEXT, renewed, ME), After::Goes);
    let grant = scene.one();
    assert_eq!((grant.kind, grant.to, grant.entries[0].tenure), (kind::lock::GRANT, 2, NEXT.tenure));
    assert_eq!(grant.entries[0].sequence, 1);
}

#[test]
fn a_renewal_that_somebody_else_answers_for_is_the_end() {
    for (stamp, holder) in [(Stamp { tenure: NEXT.tenure + 1, ..NEXT }, ME), (NEXT, 2)] {
        let mut scene = Scene::held(SlotState::Managed, party(ME, 1, NAME, SHARED));
        scene.acquire(party(2, 20, OTHER, EXCLUSIVE));
        assert_eq!(scene.answer(header_flag::APPLIED, stamp, bits(SlotState::Managed, 0), holder), After::Over);
    }
}

// ---- time ----

#[test]
fn an_heir_waits_for_the_other_waiters_and_then_goes_on_without_them() {
    let mut scene = Scene::held(SlotState::Managed, party(ME, 1, NAME, EXCLUSIVE));
    let now = scene.now;
    scene.agent.inherit(now, 4, 1, [].into_iter());
    assert_eq!(scene.agent.due(), now + 4_000_000);
    scene.acquire(party(3, 30, NAME, EXCLUSIVE));
    scene.release(ME, 1);
    scene.is_silent();
    scene.tick(3_999_999);
    scene.is_silent();
    scene.tick(1);
    let said = scene.one();
    assert_eq!((said.kind, said.holders()), (kind::lock::RETENURE, [3].to_vec()));
}

#[test]
fn a_gap_is_told_to_the_controller_until_it_closes() {
    let mut scene = Scene::held(SlotState::Open, party(ME, 1, NAME, SHARED));
    let gap = scene.config.gap_us;
    scene.with(|agent, desk| agent.on_join(party(2, 20, NAME, SHARED), STAMP, 2, false, desk));
    scene.release(ME, 1);
    scene.release(2, 20);
    scene.is_silent();
    assert_eq!(scene.agent.due(), scene.now + gap);
    scene.tick(gap - 1);
    scene.is_silent();
    scene.tick(1);
    let said = scene.one();
    assert_eq!((said.kind, said.to, said.entries[0].tenure), (kind::lock::GAP, 0, STAMP.tenure));
    assert_eq!((said.entries[0].slot, said.entries.len()), (SLOT, 1));
    assert_eq!(scene.agent.due(), scene.now + 4 * gap, "in longer pauses from then on");
    scene.tick(4 * gap);
    assert_eq!(scene.one().kind, kind::lock::GAP);
    scene.with(|agent, desk| agent.on_join(party(3, 30, NAME, SHARED), STAMP, 1, true, desk));
    assert_eq!(scene.one().kind, kind::lock::RETENURE, "nobody is left: the slot is free");
}

#[test]
fn holders_are_reminded_in_pauses_that_double_and_a_new_waiter_makes_them_short_again() {
    let mut scene = Scene::held(SlotState::Managed, party(2, 20, NAME, EXCLUSIVE));
    let most = scene.config.retransmit_most_us;
    scene.acquire(party(3, 30, NAME, EXCLUSIVE));
    scene.is_silent();
    let mut pause = most;
    for _ in 0..6 {
        assert_eq!(scene.agent.due(), scene.now + pause);
        scene.tick(pause);
        let said = scene.one();
        assert_eq!((said.kind, said.to), (kind::lock::GRANT, 2));
        pause = (pause * 2).min(16 * most);
    }
    assert_eq!(pause, 16 * most);
    scene.tick(1);
    scene.acquire(party(4, 40, NAME, EXCLUSIVE));
    assert_eq!(scene.agent.due(), scene.now + most);
    scene.tick(most - 10);
    scene.acquire(party(5, 50, NAME, EXCLUSIVE));
    assert_eq!(scene.agent.due(), scene.now + 10, "which never puts a reminder off");
    scene.tick(10);
    assert_eq!(scene.one().kind, kind::lock::GRANT);
    assert_eq!(scene.agent.due(), scene.now + 2 * most);
}

#[test]
fn an_agent_that_may_not_grant_reminds_nobody() {
    let mut scene = Scene::held(SlotState::Managed, party(2, 20, NAME, EXCLUSIVE));
    scene.acquire(party(3, 30, NAME, EXCLUSIVE));
    scene.agent.suspend();
    let most = scene.config.retransmit_most_us;
    scene.tick(most);
    scene.is_silent();
    assert_eq!(scene.agent.due(), Time(u64::MAX));
}

#[test]
fn nobody_is_reminded_once_nobody_holds() {
    let mut scene = Scene::held(SlotState::Managed, party(ME, 1, NAME, EXCLUSIVE));
    scene.acquire(party(ME, 2, NAME, EXCLUSIVE));
    assert_eq!(scene.agent.due(), scene.now + scene.config.retransmit_most_us);
    scene.agent.tryable = false;
    scene.acquire(party(3, 30, OTHER, EXCLUSIVE));
    scene.said();
    for (holder, request) in [(ME, 1), (ME, 2), (3, 30)] {
        scene.release(holder, request);
    }
    assert_eq!(scene.one().bits().state, SlotState::Unheld);
    scene.with(|agent, desk| agent.on_refused(false, bits(SlotState::Managed, 0), desk));
    assert_eq!(scene.agent.reminder, None);
}

// ---- who is granted ----

#[test]
fn exclusive_grants_count_and_shared_ones_do_not() {
    let mut scene = Scene::held(SlotState::Managed, party(ME, 1, NAME, EXCLUSIVE));
    scene.acquire(party(ME, 2, NAME, SHARED));
    scene.acquire(party(ME, 3, NAME, EXCLUSIVE));
    scene.acquire(party(ME, 4, NAME, EXCLUSIVE));
    scene.release(ME, 1);
    let sequences =
        |scene: &mut Scene| scene.local.drain(..).map(|p| (p.request, p.token.sequence())).collect::<Vec<_>>();
    assert_eq!(sequences(&mut scene), [(2, 0)]);
    scene.release(ME, 2);
    assert_eq!(sequences(&mut scene), [(3, 1)]);
    scene.release(ME, 3);
    assert_eq!(sequences(&mut scene), [(4, 2)]);
    assert_eq!(scene.agent.holders[0].token, Token::new(STAMP, 2));
}

#[test]
fn after_255_exclusive_grants_the_tenure_is_renewed_first() {
    let mut scene = Scene::held(SlotState::Managed, party(ME, 1, NAME, EXCLUSIVE));
    scene.agent.sequence = limits::MAX_SEQUENCE;
    scene.acquire(party(ME, 2, NAME, SHARED));
    scene.acquire(party(ME, 3, NAME, EXCLUSIVE));
    scene.release(ME, 1);
    assert_eq!(scene.local.pop_front().map(|p| p.request), Some(2), "a shared grant needs no number");
    scene.release(ME, 2);
    let said = scene.one();
    assert_eq!((said.kind, said.bits().state, said.bits().tryable), (kind::lock::RETENURE, SlotState::Managed, true));
    assert!(scene.local.is_empty());
    assert_eq!(scene.applied(SlotState::Managed), After::Goes);
    let granted = scene.local.pop_front().expect("it is granted now");
    assert_eq!(granted.token, Token::new(NEXT, 1));
}

#[test]
fn each_name_has_its_own_order() {
    let mut scene = Scene::held(SlotState::Managed, party(ME, 1, NAME, SHARED));
    scene.agent.tryable = false;
    scene.acquire(party(2, 20, NAME, EXCLUSIVE));
    scene.acquire(party(3, 30, NAME, SHARED));
    scene.is_silent();
    scene.acquire(party(4, 40, OTHER, EXCLUSIVE));
    assert_eq!(scene.one().to, 4, "another name is not blocked by the first");
    assert_eq!(scene.waiting(), [(2, 20), (3, 30)], "a reader does not overtake a writer");
    scene.release(ME, 1);
    assert_eq!(scene.one().to, 2);
    scene.release(2, 20);
    assert_eq!(scene.one().to, 3);
}

#[test]
fn nobody_is_granted_exclusively_while_a_join_is_unknown() {
    let mut scene = Scene::held(SlotState::Open, party(ME, 1, NAME, SHARED));
    let closed = (STAMP, bits(SlotState::Managed, 2));
    scene.with(|agent, desk| agent.on_acquire(party(ME, 2, NAME, EXCLUSIVE), Some(closed), desk));
    assert!(!scene.agent.is_open());
    scene.release(ME, 1);
    assert!(scene.local.is_empty());
    assert_eq!(scene.agent.due(), scene.now + scene.config.gap_us);
    // RELEASE carries the ordinal of its grant: so most gaps close by themselves.
    scene.with(|agent, desk| agent.on_release(3, 30, Some((STAMP, 1)), desk));
    assert!(scene.local.is_empty());
    scene.with(|agent, desk| agent.on_release(3, 31, Some((NEXT, 2)), desk));
    assert!(scene.local.is_empty(), "of another tenure");
    scene.with(|agent, desk| agent.on_release(3, 32, Some((STAMP, 2)), desk));
    assert_eq!(scene.local.pop_front().map(|p| p.request), Some(2));
}

#[test]
fn a_try_is_granted_or_refused_but_never_waits() {
    let mut scene = Scene::held(SlotState::Managed, party(ME, 1, NAME, EXCLUSIVE));
    scene.agent.tryable = false;
    scene.acquire(Party { name: OTHER, ..trying(2, 20, EXCLUSIVE) });
    assert_eq!(scene.one().kind, kind::lock::GRANT);
    scene.acquire(trying(3, 30, EXCLUSIVE));
    let said = scene.one();
    assert_eq!((said.kind, said.to, said.flags), (kind::lock::BUSY, 3, 0));
    assert_eq!(said.entries[0].flags, entry_flag::TRY | entry_flag::EXCLUSIVE);
    scene.acquire(trying(ME, 4, SHARED));
    assert_eq!(scene.local.pop_front().map(|p| (p.request, p.tries)), Some((4, true)));
    assert!(scene.waiting().is_empty());
}

#[test]
fn tries_are_refused_where_the_agency_goes_to_somebody_else() {
    let mut scene = Scene::held(SlotState::Managed, party(ME, 1, NAME, EXCLUSIVE));
    scene.agent.suspended = true;
    for waiter in [party(2, 20, NAME, EXCLUSIVE), trying(3, 30, SHARED), party(4, 40, NAME, SHARED)] {
        scene.acquire(waiter);
    }
    scene.agent.suspended = false;
    scene.release(ME, 1);
    let said = scene.said();
    assert_eq!(
        said.iter().map(|said| (said.kind, said.holders())).collect::<Vec<_>>(),
        [(kind::lock::BUSY, [3].to_vec()), (kind::lock::RETENURE, [2, 4].to_vec())]
    );
}

#[test]
fn the_agency_stays_where_waiters_are_local_or_of_several_names() {
    let mut scene = Scene::held(SlotState::Managed, party(ME, 1, NAME, EXCLUSIVE));
    scene.acquire(party(ME, 2, NAME, EXCLUSIVE));
    scene.acquire(party(2, 20, NAME, EXCLUSIVE));
    scene.release(ME, 1);
    scene.is_silent();
    assert_eq!(scene.local.pop_front().map(|p| p.request), Some(2));
    let mut scene = Scene::held(SlotState::Managed, party(ME, 1, NAME, EXCLUSIVE));
    scene.agent.tryable = false;
    scene.agent.suspended = true;
    scene.acquire(party(2, 20, NAME, EXCLUSIVE));
    scene.acquire(party(3, 30, OTHER, EXCLUSIVE));
    scene.agent.suspended = false;
    scene.release(ME, 1);
    let grants: Vec<_> = scene.said().iter().map(|said| (said.kind, said.to)).collect();
    assert_eq!(grants, [(kind::lock::GRANT, 2), (kind::lock::GRANT, 3)]);
}

#[test]
fn a_slot_with_readers_alone_is_opened_again_and_says_whether_they_share_a_name() {
    for (name, tryable) in [(NAME, true), (OTHER, false)] {
        let mut scene = Scene::held(SlotState::Managed, party(2, 20, NAME, SHARED));
        scene.agent.tryable = false;
        scene.acquire(party(3, 30, NAME, EXCLUSIVE));
        scene.acquire(party(4, 40, name, SHARED));
        scene.said();
        scene.release(3, 30);
        let said = scene.said().pop().expect("it is opened");
        assert_eq!(
            (said.kind, said.bits().state, said.bits().tryable),
            (kind::lock::RETENURE, SlotState::Open, tryable)
        );
        assert_eq!(said.entries[0].name, NAME);
    }
}

#[test]
fn a_slot_is_not_opened_for_a_writer_nor_while_somebody_waits() {
    let mut scene = Scene::held(SlotState::Managed, party(2, 20, NAME, EXCLUSIVE));
    scene.acquire(party(3, 30, NAME, SHARED));
    scene.is_silent();
    scene.release(2, 20);
    assert!(scene.said().iter().all(|said| said.bits().state == SlotState::Open), "to the reader");
    let mut scene = Scene::held(SlotState::Managed, party(2, 20, NAME, SHARED));
    scene.acquire(party(3, 30, NAME, EXCLUSIVE));
    scene.with(|agent, desk| agent.serve(desk));
    scene.is_silent();
}

/// 4,095 joins are all that a tenure can count: the next reader needs another one.
#[test]
fn an_open_slot_with_all_of_its_joins_is_opened_anew() {
    let mut scene = Scene::held(SlotState::Open, party(ME, 1, NAME, SHARED));
    for ordinal in 1..limits::MAX_JOINS {
        let join = party(2, ordinal.into(), NAME, SHARED);
        scene.with(|agent, desk| agent.on_join(join, STAMP, ordinal, true, desk));
        scene.is_silent();
    }
    let last = party(2, 5_000, NAME, SHARED);
    scene.with(|agent, desk| agent.on_join(last, STAMP, limits::MAX_JOINS, true, desk));
    let said = scene.one();
    assert_eq!((said.bits().state, said.bits().joins), (SlotState::Open, limits::MAX_JOINS));
}

/// Where readers go first: an exclusive request of a name that nobody holds closes the slot by the agent's own change.
#[test]
fn an_open_agent_closes_the_slot_for_a_writer_whose_name_nobody_holds() {
    let open = Some((STAMP, bits(SlotState::Open, 0)));
    let mut scene = Scene::held(SlotState::Open, party(2, 20, NAME, SHARED));
    scene.with(|agent, desk| agent.on_acquire(party(3, 30, NAME, EXCLUSIVE), open, desk));
    scene.is_silent();
    scene.with(|agent, desk| agent.on_acquire(party(4, 40, OTHER, EXCLUSIVE), open, desk));
    let said = scene.one();
    assert_eq!((said.kind, said.bits().state, said.bits().tryable), (kind::lock::RETENURE, SlotState::Managed, true));
    let mut scene = Scene::held(SlotState::Open, party(2, 20, NAME, SHARED));
    assert_eq!(scene.acquire(party(3, 30, NAME, EXCLUSIVE)), Taken::Bounce, "elsewhere the switch closes it");
    scene.is_silent();
}

// ---- requests ----

#[test]
fn a_request_that_is_known_is_answered_again_and_not_queued_twice() {
    let mut scene = Scene::held(SlotState::Managed, party(2, 20, NAME, EXCLUSIVE));
    scene.acquire(Party { port: 9, ..party(2, 20, NAME, EXCLUSIVE) });
    let said = scene.one();
    assert_eq!((said.kind, said.entries[0].reply_port), (kind::lock::GRANT, 9), "at the port that it has now");
    scene.acquire(party(3, 30, NAME, EXCLUSIVE));
    scene.acquire(Party { port: 8, ..party(3, 30, NAME, EXCLUSIVE) });
    scene.is_silent();
    assert_eq!(scene.waiting(), [(3, 30)]);
    assert_eq!(scene.agent.queue[0].port, 8);
}

#[test]
fn what_is_over_is_not_queued_by_a_late_copy() {
    let mut scene = Scene::held(SlotState::Managed, party(2, 20, NAME, EXCLUSIVE));
    scene.release(3, 30);
    scene.acquire(party(3, 30, NAME, EXCLUSIVE));
    assert!(scene.waiting().is_empty());
    scene.acquire(party(3, 31, NAME, EXCLUSIVE));
    assert_eq!(scene.waiting(), [(3, 31)], "another request of the same node");
}

#[test]
fn as_many_retired_requests_are_remembered_as_there_is_room_for_each_once() {
    let mut scene = Scene::held(SlotState::Managed, party(2, 20, NAME, EXCLUSIVE));
    scene.config.retired_most = 2;
    scene.release(ME, 5);
    assert!(scene.agent.retired.is_empty(), "this node knows its own");
    scene.release(3, 30);
    scene.release(3, 30);
    assert_eq!(scene.agent.retired, [(3, 30)]);
    scene.release(3, 31);
    scene.release(3, 32);
    assert_eq!(scene.agent.retired, [(3, 31), (3, 32)]);
}

#[test]
fn a_full_queue_refuses_those_who_cannot_be_granted_at_once() {
    let mut scene = Scene::held(SlotState::Managed, party(2, 20, NAME, SHARED));
    scene.agent.tryable = false;
    scene.config.waiters_most = 1;
    scene.acquire(party(3, 30, NAME, EXCLUSIVE));
    scene.is_silent();
    scene.acquire(party(4, 40, NAME, EXCLUSIVE));
    let said = scene.one();
    assert_eq!((said.kind, said.to, said.flags), (kind::lock::BUSY, 4, header_flag::RETRY));
    assert_eq!(scene.waiting(), [(3, 30)]);
    scene.acquire(party(5, 50, OTHER, EXCLUSIVE));
    assert_eq!(scene.one().kind, kind::lock::GRANT, "it may hold what all the others wait for");
}

#[test]
fn late_waiters_count_as_well_where_the_queue_is_full() {
    let mut scene = Scene::held(SlotState::Managed, party(ME, 1, NAME, EXCLUSIVE));
    scene.config.waiters_most = 2;
    let now = scene.now;
    scene.agent.inherit(now, 4, 2, [party(2, 20, NAME, EXCLUSIVE)].into_iter());
    scene.acquire(party(3, 30, NAME, EXCLUSIVE));
    scene.is_silent();
    scene.acquire(party(5, 50, NAME, EXCLUSIVE));
    assert_eq!(scene.one().flags, header_flag::RETRY);
    assert_eq!(scene.waiting(), [(2, 20), (3, 30)]);
}

#[test]
fn a_join_counts_once_and_in_its_own_tenure() {
    let mut scene = Scene::held(SlotState::Open, party(ME, 1, NAME, SHARED));
    let join = party(2, 20, NAME, SHARED);
    scene.with(|agent, desk| agent.on_join(join, NEXT, 1, false, desk));
    assert_eq!(scene.holding(), [(ME, 1)]);
    scene.with(|agent, desk| agent.on_join(join, STAMP, 1, false, desk));
    scene.with(|agent, desk| agent.on_join(party(2, 21, NAME, SHARED), STAMP, 1, false, desk));
    assert_eq!(scene.holding(), [(ME, 1), (2, 20)], "an ordinal is granted once");
    assert_eq!(scene.agent.holders[1].token, Token::new(STAMP, 0));
    scene.with(|agent, desk| agent.on_join(party(3, 30, NAME, SHARED), STAMP, 2, true, desk));
    assert_eq!(scene.holding().len(), 2, "of a dead node the ordinal alone counts");
    scene.release(4, 40);
    scene.with(|agent, desk| agent.on_join(party(4, 40, NAME, SHARED), STAMP, 3, false, desk));
    assert_eq!(scene.holding().len(), 2, "and of a request that is over");
    assert!(scene.agent.joins.complete());
}

#[test]
fn a_waiter_that_has_joined_waits_no_more() {
    let mut scene = Scene::held(SlotState::Open, party(ME, 1, NAME, SHARED));
    scene.agent.suspended = true;
    scene.agent.queue.push_back(party(2, 20, NAME, SHARED));
    scene.agent.late.push_back(party(3, 30, NAME, SHARED));
    scene.agent.late.push_back(party(4, 40, NAME, SHARED));
    for (ordinal, holder) in [(1, 2), (2, 3)] {
        let join = party(holder, 10 * u64::from(holder), NAME, SHARED);
        scene.with(|agent, desk| agent.on_join(join, STAMP, ordinal, false, desk));
    }
    assert_eq!(scene.waiting(), [(4, 40)]);
    assert_eq!(scene.holding(), [(ME, 1), (2, 20), (3, 30)]);
}

#[test]
fn a_downgraded_hold_lets_readers_in_and_a_hold_that_is_none_cannot_be() {
    let mut scene = Scene::held(SlotState::Managed, party(2, 20, NAME, EXCLUSIVE));
    scene.acquire(party(3, 30, NAME, SHARED));
    assert!(!scene.with(|agent, desk| agent.on_downgrade(2, 21, desk)));
    scene.is_silent();
    assert!(scene.with(|agent, desk| agent.on_downgrade(2, 20, desk)));
    let said = scene.said();
    let kinds: Vec<_> = said.iter().map(|said| (said.kind, said.to)).collect();
    assert_eq!(kinds, [(kind::lock::GRANT, 2), (kind::lock::GRANT, 3), (kind::lock::RETENURE, 0)]);
    assert_eq!(said[0].entries[0].flags, 0);
}

// ---- books that change hands ----

#[test]
fn waiters_of_the_former_agent_come_before_later_ones_in_their_order_and_once() {
    let mut scene = Scene::held(SlotState::Managed, party(ME, 1, NAME, EXCLUSIVE));
    let now = scene.now;
    let [second, third] = [party(2, 20, NAME, EXCLUSIVE), party(3, 30, NAME, EXCLUSIVE)];
    scene.agent.inherit(now, 4, 2, [second].into_iter());
    scene.acquire(party(5, 50, NAME, EXCLUSIVE));
    scene.acquire(third);
    assert_eq!(scene.agent.late.len(), 2, "who comes meanwhile is late");
    scene.agent.take_waiters(now, 0, [second].into_iter());
    assert_eq!(scene.agent.queue.len(), 1, "those have arrived already");
    scene.agent.take_waiters(now, 2, [third].into_iter());
    assert_eq!(scene.agent.queue.len(), 1, "those before them have not");
    scene.agent.take_waiters(now + 5, 1, [third].into_iter());
    assert_eq!(scene.waiting(), [(2, 20), (3, 30), (5, 50)]);
    assert!(scene.agent.late.is_empty());
    assert_eq!(scene.agent.heir.as_ref().map(|heir| heir.until), Some(now + 5 + 4_000_000));
    scene.agent.take_waiters(now, 2, [party(6, 60, NAME, EXCLUSIVE)].into_iter());
    assert_eq!(scene.waiting().len(), 3, "more than there were");
}

#[test]
fn inherited_waiters_that_hold_or_are_over_do_not_wait() {
    let mut scene = Scene::held(SlotState::Managed, party(2, 20, NAME, SHARED));
    scene.release(3, 30);
    scene.said();
    scene.agent.pending = None;
    let now = scene.now;
    let all = [party(2, 20, NAME, SHARED), party(3, 30, NAME, SHARED), party(3, 31, NAME, SHARED)];
    scene.agent.inherit(now, 4, 3, all.into_iter());
    assert_eq!(scene.waiting(), [(3, 31)]);
}

/// "Tells the former agent what has arrived": by itself where more is to come or it was asked, with the next packet
/// otherwise.
#[test]
fn an_heir_acknowledges_what_has_arrived() {
    let mut scene = Scene::held(SlotState::Managed, party(ME, 1, NAME, EXCLUSIVE));
    scene.with(|agent, desk| agent.acknowledge(true, desk));
    scene.is_silent();
    let now = scene.now;
    scene.agent.inherit(now, 4, 2, [party(2, 20, NAME, EXCLUSIVE)].into_iter());
    scene.with(|agent, desk| agent.acknowledge(false, desk));
    let said = scene.one();
    assert_eq!((said.kind, said.to, said.position), (kind::lock::QUEUED, 4, 2));
    assert_eq!((said.entries[0].slot, said.entries[0].tenure), (SLOT, STAMP.tenure));
    scene.agent.take_waiters(now, 1, [party(3, 30, NAME, EXCLUSIVE)].into_iter());
    scene.with(|agent, desk| agent.acknowledge(false, desk));
    scene.is_silent();
    scene.with(|agent, desk| agent.acknowledge(true, desk));
    assert_eq!(scene.said().iter().map(|said| said.position).collect::<Vec<_>>(), [3, 3]);
}

#[test]
fn who_hands_over_is_dead_so_the_rest_of_the_waiters_will_not_come() {
    let mut scene = Scene::held(SlotState::Managed, party(ME, 1, NAME, EXCLUSIVE));
    let now = scene.now;
    scene.agent.inherit(now, 4, 2, [].into_iter());
    scene.release(ME, 1);
    scene.with(|agent, desk| agent.on_down(5, desk));
    scene.is_silent();
    scene.with(|agent, desk| agent.on_down(4, desk));
    assert_eq!(scene.one().bits().state, SlotState::Unheld);
}

/// "Whatever enters its books is dropped if its node is dead".
#[test]
fn the_dead_leave_all_books() {
    let mut scene = Scene::held(SlotState::Managed, party(2, 20, NAME, EXCLUSIVE));
    let now = scene.now;
    scene.agent.inherit(now, 4, 2, [party(2, 21, NAME, EXCLUSIVE)].into_iter());
    scene.acquire(party(2, 22, NAME, EXCLUSIVE));
    scene.acquire(party(3, 30, NAME, EXCLUSIVE));
    scene.dead.note(2, 1);
    scene.with(|agent, desk| agent.on_down(2, desk));
    assert!(scene.holding().is_empty());
    assert_eq!(scene.waiting(), [(3, 30)]);
}

#[test]
fn a_census_takes_back_what_was_asked_for_and_grants_nothing() {
    let (mut scene, _) = transferring(&[party(2, 20, NAME, EXCLUSIVE), party(3, 30, NAME, EXCLUSIVE)]);
    scene.agent.suspend();
    assert!(!scene.agent.is_pending() && !scene.agent.is_usable());
    assert_eq!(scene.waiting(), [(2, 20), (3, 30)]);
    scene.acquire(party(ME, 5, NAME, EXCLUSIVE));
    scene.is_silent();
    assert!(scene.local.is_empty());
}

#[test]
fn an_adoption_is_of_its_own_pages_and_lists_each_holder_once() {
    let mut scene = Scene::held(SlotState::Managed, party(2, 20, NAME, SHARED));
    scene.agent.suspend();
    scene.agent.queue.push_back(party(3, 30, NAME, SHARED));
    scene.agent.prepare_adoption(9, NEXT, bits(SlotState::Managed, 0));
    assert!(scene.holding().is_empty());
    assert_eq!(scene.agent.adoption_stamp(), Some(NEXT));
    assert!(scene.agent.adopts(9) && !scene.agent.adopts(8));
    scene.agent.adopt_holder(8, party(4, 40, NAME, SHARED));
    scene.agent.adopt_holder(9, party(3, 30, NAME, SHARED));
    scene.agent.adopt_holder(9, party(3, 30, NAME, SHARED));
    assert_eq!(scene.holding(), [(3, 30)]);
    assert!(scene.waiting().is_empty(), "who holds does not wait");
}

/// Nobody but the switch can say that it is agent: it asks before it grants.
#[test]
fn an_adopted_agent_asks_the_switch_before_it_grants() {
    let mut scene = Scene::new(SlotState::Managed);
    scene.agent.confirmed = false;
    scene.acquire(party(ME, 2, NAME, EXCLUSIVE));
    let said = scene.one();
    assert_eq!((said.bits().state, said.bits().tryable), (SlotState::Managed, false), "it renews");
    assert!(scene.local.is_empty());
    scene.applied(SlotState::Managed);
    assert_eq!(scene.local.pop_front().map(|p| p.request), Some(2));
    let mut scene = Scene::new(SlotState::Managed);
    scene.agent.confirmed = false;
    scene.with(|agent, desk| agent.serve(desk));
    assert_eq!(scene.one().bits().state, SlotState::Unheld, "nobody holds, nobody waits: it frees");
    for with in [
        |scene: &mut Scene| scene.agent.holders.push(party(2, 20, NAME, SHARED)),
        |scene: &mut Scene| {
            let now = scene.now;
            scene.agent.inherit(now, 4, 2, [].into_iter());
        },
    ] {
        let mut scene = Scene::new(SlotState::Managed);
        scene.agent.confirmed = false;
        with(&mut scene);
        scene.with(|agent, desk| agent.serve(desk));
        assert_eq!(scene.one().bits().state, SlotState::Managed, "somebody holds, or is still to come");
    }
}

#[test]
fn a_packet_takes_31_waiters_along_and_says_how_many_there_are() {
    let waiters: Vec<Party> = (0..40).map(|index| party(2, 100 + index, NAME, EXCLUSIVE)).collect();
    let (_, said) = transferring(&waiters);
    assert_eq!((said.entries.len(), said.position), (limits::MAX_ENTRIES, 39));
    assert_eq!(said.entries[31].request, 131);
}

#[test]
fn what_an_agent_says_of_itself() {
    let (scene, _) = transferring(&[party(2, 20, NAME, EXCLUSIVE)]);
    assert_eq!(scene.agent.transfer_to(), Some((2, NEXT)));
    assert!(scene.agent.is_pending() && !scene.agent.has_waiters());
    let mut scene = Scene::held(SlotState::Managed, party(ME, 1, NAME, EXCLUSIVE));
    assert!(scene.agent.is_usable() && !scene.agent.is_open());
    assert!(scene.agent.holds(ME, 1) && !scene.agent.holds(ME, 2) && !scene.agent.holds(2, 1));
    assert_eq!(scene.agent.transfer_to(), None);
    let now = scene.now;
    assert!(!scene.agent.inherited_at(STAMP));
    scene.agent.inherit(now, 4, 1, [].into_iter());
    assert!(scene.agent.inherited_at(STAMP) && !scene.agent.inherited_at(NEXT));
    scene.acquire(party(3, 30, NAME, EXCLUSIVE));
    assert!(scene.agent.has_waiters(), "the late ones count");
    assert_eq!(BODY, entry_at(0));
}

/// A claim is answered with the joins of the tenure before: those of its own tenure are ordinals of that one.
#[test]
fn a_claimed_agent_knows_joins_by_the_tenure_before() {
    let mut scene = Scene::new(SlotState::Managed);
    scene.agent.reset(SLOT, NEXT, bits(SlotState::Managed, 1));
    scene.agent.claimed();
    assert_eq!(scene.agent.joins_stamp, STAMP);
    assert!(!scene.agent.joins.complete());
    scene.with(|agent, desk| agent.on_join(party(2, 20, NAME, SHARED), NEXT, 1, false, desk));
    assert!(!scene.agent.joins.complete());
    scene.with(|agent, desk| agent.on_join(party(2, 20, NAME, SHARED), STAMP, 1, false, desk));
    assert!(scene.agent.joins.complete());
    let told = Some((NEXT, bits(SlotState::Managed, 3)));
    scene.with(|agent, desk| agent.on_acquire(party(3, 30, NAME, SHARED), told, desk));
    assert!(scene.agent.joins.complete(), "what the switch says now is of this tenure");
}
