//! What the core says about a packet.

use wayside_wire::DropReason;

use crate::layout::RawVerdict;

/// What to do with a packet that has been processed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Where the packet goes.
    pub action: Action,
    /// Its length now: at most what it was. 0 for a drop.
    pub length: usize,
    /// The agent to which a copy goes besides, at its agent port, after
    /// [`Switch::make_copy`](crate::Switch::make_copy).
    pub copy: Option<u16>,
    /// Why it was dropped, or why the sender is told STALE or refused; otherwise [`DropReason::None`].
    pub reason: DropReason,
}

/// Where a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nowhere.
    Drop,
    /// Back to the UDP address it came from.
    ToSender,
    /// To a node's port; 0 is its agent port. See [`Switch::address`](crate::Switch::address).
    ToNode {
        /// The node.
        handle: u16,
        /// UDP port of the thread that waits, or 0.
        port: u16,
    },
    /// To the controller.
    ToController,
}

impl From<RawVerdict> for Verdict {
    fn from(raw: RawVerdict) -> Verdict {
        let action = match raw.action {
            0 => Action::Drop,
            1 => Action::ToSender,
            2 => Action::ToNode { handle: raw.handle, port: raw.port },
            3 => Action::ToController,
            other => unreachable!("the core has no action {other}"),
        };
        Verdict {
            action,
            length: usize::from(raw.length),
            copy: (raw.copy != 0).then_some(raw.copy),
            reason: DropReason::ALL[usize::from(raw.reason)],
        }
    }
}
