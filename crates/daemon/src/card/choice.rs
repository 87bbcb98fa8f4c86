//! Which mode the switch's program gets: as configured, and for `auto` the fastest that loses nothing, as far as is
//! known.

use super::Card;
use crate::config::Mode as Asked;
use crate::failure::Failure;
use wayside_switch::xdp::interfaces::Mode;

/// The cards of a switch, and the program on them.
pub trait Ports {
    /// As the kernel has them now.
    fn cards(&self) -> Vec<Card>;
    /// Whether what an earlier daemon has left there is generic.
    fn were_generic(&self) -> bool;
    /// On all of them, in the first of these modes that all take. Which, and why the one before was refused.
    fn attach(&mut self, modes: &[Mode]) -> Result<(Mode, Option<String>), Failure>;
    fn detach(&mut self);
}

/// Attaches the program. What there is to say about how.
pub fn attach(asked: Asked, kernel: (u32, u32), ports: &mut impl Ports) -> Result<Option<String>, Failure> {
    if asked == Asked::Generic {
        return ports.attach(&[Mode::Generic]).map(|_| None);
    }
    let cards = ports.cards();
    let veth = cards.iter().find(|card| card.is_veth());
    let unfit = cards.iter().find_map(|card| card.loses(kernel, false));
    match (asked, unfit) {
        (Asked::Native, Some(why)) => return Err(refused(&why)),
        (_, Some(why)) => return in_generic(ports, why),
        // There may be one by now, and none a moment later.
        (Asked::Auto, None) if let Some(veth) = veth => {
            let why = "is a veth: native XDP answers there only if the other end has an XDP program";
            return in_generic(ports, format!("{} {why}", veth.name));
        }
        _ => {}
    }
    let modes: &[Mode] = if asked == Asked::Native { &[Mode::Native] } else { &[Mode::Native, Mode::Generic] };
    let were_generic = ports.were_generic();
    let (mode, refused_for) = ports.attach(modes)?;
    if mode == Mode::Generic {
        // What is attached stays so: a change would drop packets.
        let refused_for = refused_for.filter(|_| !were_generic);
        return Ok(Some(refused_for.unwrap_or_else(|| "as the daemon before has left it".to_owned())));
    }
    // Now they say all that they can do.
    let (veths, cards): (Vec<Card>, Vec<Card>) = ports.cards().into_iter().partition(Card::is_veth);
    let why = |cards: &[Card]| cards.iter().find_map(|card| card.loses(kernel, true));
    let Some(why) = why(&cards) else { return Ok(why(&veths)) };
    ports.detach();
    if asked == Asked::Native { Err(refused(&why)) } else { in_generic(ports, why) }
}

fn in_generic(ports: &mut impl Ports, why: String) -> Result<Option<String>, Failure> {
    match ports.attach(&[Mode::Generic]) {
        Ok(_) => Ok(Some(why)),
        Err(failure) => Err(Failure { message: format!("{}; {why}", failure.message), ..failure }),
    }
}

fn refused(why: &str) -> Failure {
    Failure::unavailable(format!("native XDP would lose packets: {why}"))
}

#[cfg(test)]
mod tests {
    use super::super::netdev::{BASIC, REDIRECT, SENDS};
    use super::*;

    const KERNEL: (u32, u32) = (6, 12);

    /// One card.
    struct Fake {
        kind: Option<&'static str>,
        /// What it says without a program, and what it has with one, natively.
        features: (u64, u64),
        takes: &'static [Mode],
        were_generic: bool,
        attached: Option<Mode>,
        /// How often the program went there.
        attempts: usize,
    }

    fn fake(before: u64, after: u64) -> Fake {
        let takes = &[Mode::Native, Mode::Generic];
        Fake { kind: None, features: (before, after), takes, were_generic: false, attached: None, attempts: 0 }
    }

    impl Ports for Fake {
        fn cards(&self) -> Vec<Card> {
            let (before, after) = self.features;
            let features = if self.attached == Some(Mode::Native) { after } else { before };
            let card = Card { name: "eth0".into(), driver: Some("nic".into()), ..Card::default() };
            vec![Card { kind: self.kind.map(String::from), features: Some(features), ..card }]
        }

        fn were_generic(&self) -> bool {
            self.were_generic
        }

        fn attach(&mut self, modes: &[Mode]) -> Result<(Mode, Option<String>), Failure> {
            assert_eq!(self.attached, None, "it is detached first");
            self.attempts += 1;
            self.attached = modes.iter().copied().find(|mode| self.takes.contains(mode));
            let refused = (self.attached != modes.first().copied()).then(|| "eth0 refuses it".to_owned());
            let mode = self.attached.ok_or_else(|| Failure::unavailable("the hook is taken"))?;
            Ok((mode, refused))
        }

        fn detach(&mut self) {
            self.attached = None;
        }
    }

    const ALL: u64 = BASIC | REDIRECT | SENDS;

    #[test]
    fn auto_is_native_where_nothing_is_lost() {
        for before in [ALL, BASIC | REDIRECT] {
            let mut card = fake(before, ALL);
            assert_eq!(attach(Asked::Auto, KERNEL, &mut card).unwrap(), None);
            assert_eq!((card.attached, card.attempts), (Some(Mode::Native), 1));
        }
    }

    #[test]
    fn auto_is_generic_where_copies_would_be_lost_and_says_why() {
        // Known at once, and once the program is there.
        for (features, attempts, says) in [
            ((BASIC, BASIC), 1, "nic of eth0 can't redirect with native XDP"),
            ((BASIC | REDIRECT, BASIC | REDIRECT), 2, "nic of eth0 can't send what other devices redirect to it"),
        ] {
            let mut card = fake(features.0, features.1);
            let why = attach(Asked::Auto, KERNEL, &mut card).unwrap().expect("a reason");
            assert!(why.starts_with(says), "{why}");
            assert_eq!((card.attached, card.attempts), (Some(Mode::Generic), attempts));
            let mut card = Fake { takes: &[Mode::Native], ..fake(features.0, features.1) };
            let failure = attach(Asked::Auto, KERNEL, &mut card).unwrap_err();
            assert!(failure.message.contains("the hook is taken; nic of eth0 can't"), "{failure}");
            assert_eq!(card.attached, None, "then in userspace");
        }
    }

    #[test]
    fn native_as_configured_ends_where_copies_would_be_lost_and_leaves_nothing() {
        for features in [(BASIC, BASIC), (BASIC | REDIRECT, BASIC | REDIRECT)] {
            let mut card = fake(features.0, features.1);
            let failure = attach(Asked::Native, KERNEL, &mut card).unwrap_err();
            assert!(failure.message.starts_with("error: native XDP would lose packets: nic of eth0"), "{failure}");
            assert_eq!(card.attached, None, "nothing decides there without its daemon");
        }
    }

    #[test]
    fn a_veth_is_generic_unless_configured_and_then_says_what_it_loses() {
        let veth = |after| Fake { kind: Some("veth"), ..fake(BASIC | REDIRECT, after) };
        let mut card = veth(ALL);
        let why = attach(Asked::Auto, KERNEL, &mut card).unwrap().expect("a reason");
        assert!(why.starts_with("eth0 is a veth: native XDP answers there only if"), "{why}");
        assert_eq!(card.attached, Some(Mode::Generic));
        let mut card = veth(ALL);
        assert_eq!(attach(Asked::Native, KERNEL, &mut card).unwrap(), None);
        let mut card = veth(BASIC | REDIRECT);
        let why = attach(Asked::Native, KERNEL, &mut card).unwrap().expect("a reason");
        assert!(why.starts_with("the other end of eth0 has no XDP program"), "{why}");
        assert_eq!(card.attached, Some(Mode::Native));
    }

    #[test]
    fn generic_is_explained_where_it_was_not_asked_for() {
        let refuses = || Fake { takes: &[Mode::Generic], ..fake(0, 0) };
        let mut card = refuses();
        let why = attach(Asked::Auto, KERNEL, &mut card).unwrap();
        assert_eq!(why.as_deref(), Some("eth0 refuses it"));
        let mut card = Fake { were_generic: true, ..refuses() };
        let why = attach(Asked::Auto, KERNEL, &mut card).unwrap();
        assert_eq!(why.as_deref(), Some("as the daemon before has left it"));
        assert_eq!(attach(Asked::Generic, KERNEL, &mut refuses()).unwrap(), None);
    }
}
