//! Agents that stay where their locks are used: `home.rs`.

use super::*;

/// Of a node that keeps slots: nobody holds or waits any more.
fn at_home() -> Scene {
    let mut scene = Scene::held(SlotState::Managed, party(ME, 1, NAME, EXCLUSIVE));
    (scene.kept, scene.agent.tryable, scene.agent.home) = (Kept::new(8), false, Home::NEW);
    scene.release(ME, 1);
    scene.is_silent();
    assert!(scene.agent.rests());
    scene
}

/// Others' tries are refused rightly while a writer holds: the switch need not be told of it.
#[test]
fn a_slot_that_a_writer_holds_at_home_stays_tryable() {
    let mut scene = Scene::held(SlotState::Managed, party(ME, 1, NAME, EXCLUSIVE));
    (scene.kept, scene.agent.home) = (Kept::new(8), Home::NEW);
    scene.acquire(party(2, 20, NAME, EXCLUSIVE));
    scene.release(2, 20);
    scene.is_silent();
    assert!(scene.agent.tryable);
}

/// Who has given up, or joined, may ask again, late: that he has is known for as long as the tenure lasts.
#[test]
fn an_agent_needs_few_words_where_nobody_else_has_had_to_do_with_its_tenure() {
    assert!(at_home().agent.at_rest(ME).is_some());
    let mut scene = at_home();
    scene.release(2, 20);
    assert!(scene.agent.rests() && scene.agent.at_rest(ME).is_none(), "another node has given something up");
    let mut scene = at_home();
    scene.agent.joins.learn(1);
    assert!(scene.agent.rests() && scene.agent.at_rest(ME).is_none(), "somebody has joined");
    let mut scene = at_home();
    let now = scene.now;
    scene.agent.inherit(now, 4, 0, [].into_iter());
    assert!(scene.agent.rests() && scene.agent.at_rest(ME).is_none(), "the former agent may ask what has arrived");
}

#[test]
fn a_use_counts_until_its_place_is_looked_at() {
    let mut home = Home::default();
    assert!(!home.is_here());
    home.use_it();
    assert!(home.is_here() && home.is_used);
}
