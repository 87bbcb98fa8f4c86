//! What network cards can do with XDP: by the kernel's word, from Linux 6.3 on, or else by what is known of their
//! drivers.
//!
//! The switch's program hands copies of grants, and whatever is for another node, to the port where they leave. A
//! driver with native XDP need not be able to do either half of that: to let go of a packet that it received, or to
//! take one from elsewhere. Such packets would be lost, request after request, so the program does not belong there.

pub mod choice;
pub mod drivers;
pub mod ethtool;
pub mod netdev;

use drivers::limits;
use ethtool::Ethtool;
use netdev::{BASIC, REDIRECT, SENDS};
use wayside_switch::xdp::interfaces::Interface;

/// One card, as far as sending elsewhere goes.
#[derive(Clone, Debug, Default)]
pub struct Card {
    pub name: String,
    /// "veth", "bond"...; None for hardware.
    pub kind: Option<String>,
    pub driver: Option<String>,
    /// What the driver says it can do with XDP; None before Linux 6.3.
    pub features: Option<u64>,
}

impl Card {
    /// As the kernel has it now.
    pub fn of(interface: &Interface) -> Card {
        Card {
            name: interface.name.clone(),
            kind: interface.kind.clone(),
            driver: Ethtool::new(&interface.name).as_ref().and_then(Ethtool::driver),
            features: netdev::xdp_features(interface.index).ok().flatten(),
        }
    }

    /// Whether what it sends depends on another interface's state.
    pub fn is_veth(&self) -> bool {
        self.kind.as_deref() == Some("veth")
    }

    /// Why native XDP would lose packets on it; None also where that is not known. `kernel`: of its release, zeros if
    /// that is not known. `attached`: a program is attached natively, so that the driver says all that it can do.
    pub fn loses(&self, kernel: (u32, u32), attached: bool) -> Option<String> {
        let name = &self.name;
        let driver = self.driver.as_deref().unwrap_or("its driver");
        let cannot = |what: &str| Some(format!("{driver} of {name} can't {what} with native XDP"));
        let Some(features) = self.features else {
            return if limits(driver).redirects.within(kernel) { None } else { cannot("redirect") };
        };
        // Without native XDP there is nothing to lose: the kernel will refuse.
        if features & BASIC != 0 && features & REDIRECT == 0 {
            return cannot("redirect");
        }
        if attached && features & SENDS == 0 {
            return if self.is_veth() {
                Some(format!("the other end of {name} has no XDP program: what is sent there is lost"))
            } else {
                cannot("send what other devices redirect to it")
            };
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: (u32, u32) = (6, 12);

    fn card(driver: &str, features: Option<u64>) -> Card {
        Card { name: "eth0".into(), driver: Some(driver.into()), features, ..Card::default() }
    }

    #[test]
    fn a_card_that_can_not_redirect_is_known_before_anything_is_attached() {
        let why = card("ixgbevf", Some(BASIC)).loses(NOW, false).expect("a reason");
        assert_eq!(why, "ixgbevf of eth0 can't redirect with native XDP");
        assert_eq!(card("ixgbe", Some(BASIC | REDIRECT)).loses(NOW, false), None);
        // Of no native XDP the kernel speaks itself.
        assert_eq!(card("e1000e", Some(0)).loses(NOW, false), None);
    }

    #[test]
    fn whether_it_sends_is_known_once_a_program_is_attached() {
        // As ice and others have it: they say so only then.
        assert_eq!(card("ice", Some(BASIC | REDIRECT)).loses(NOW, false), None);
        assert_eq!(card("ice", Some(BASIC | REDIRECT | SENDS)).loses(NOW, true), None);
        let why = card("mlx4_en", Some(BASIC | REDIRECT)).loses(NOW, true).expect("a reason");
        assert_eq!(why, "mlx4_en of eth0 can't send what other devices redirect to it with native XDP");
    }

    #[test]
    fn an_old_kernel_says_nothing_and_what_is_known_of_drivers_counts() {
        let old = |driver, kernel| card(driver, None).loses(kernel, true);
        assert!(old("ixgbevf", (5, 19)).is_some() && old("mana", (5, 19)).is_some());
        assert_eq!(old("mana", (6, 0)), None);
        assert_eq!(old("mana", (0, 0)), None, "an unknown release is no reason to refuse");
        assert_eq!(old("newnic", (5, 19)), None, "nor is an unknown driver");
        // Where the kernel speaks, it is believed: a later ixgbevf may have learned it.
        assert_eq!(card("ixgbevf", Some(BASIC | REDIRECT | SENDS)).loses(NOW, true), None);
    }
}
