//! ethtool's old system call: a driver's name, its channels, whether it joins what it receives.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// As `ethtool -l` has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Channels {
    pub receive: u32,
    pub send: u32,
    pub combined: u32,
    pub most_receive: u32,
    pub most_send: u32,
    pub most_combined: u32,
}

/// One interface, for linux/ethtool.h.
pub struct Ethtool {
    socket: OwnedFd,
    name: [u8; 16],
}

impl Ethtool {
    pub fn new(interface: &str) -> Option<Ethtool> {
        let mut name = [0; 16];
        // The kernel's names have 15 bytes at most.
        name.get_mut(..interface.len())?.copy_from_slice(interface.as_bytes());
        // SAFETY: no pointers; the descriptor is new.
        let socket = unsafe {
            let made = libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
            (made >= 0).then(|| OwnedFd::from_raw_fd(made))?
        };
        Some(Ethtool { socket, name })
    }

    /// Fills `data`, whose first word is the question.
    fn ask<const N: usize>(&self, question: u32) -> Option<[u32; N]> {
        /// `struct ifreq` of 40 bytes.
        #[repr(C)]
        struct Request {
            name: [u8; 16],
            data: *mut u32,
            rest: [u64; 2],
        }
        let mut data = [0; N];
        data[0] = question;
        let mut request = Request { name: self.name, data: data.as_mut_ptr(), rest: [0; 2] };
        // SAFETY: the kernel writes as much as the structure of this question has, which is what callers ask room for.
        let done = unsafe { libc::ioctl(self.socket.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request) };
        (done == 0).then_some(data)
    }

    pub fn driver(&self) -> Option<String> {
        /// ETHTOOL_GDRVINFO, a structure of 196 bytes: the name is the first text.
        const QUESTION: u32 = 3;
        let answer = self.ask::<49>(QUESTION)?;
        let bytes: Vec<u8> = answer[1..9].iter().flat_map(|word| word.to_ne_bytes()).collect();
        let name = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
        Some(String::from_utf8_lossy(name).into_owned()).filter(|name| !name.is_empty())
    }

    pub fn channels(&self) -> Option<Channels> {
        /// ETHTOOL_GCHANNELS.
        const QUESTION: u32 = 0x3c;
        let [_, most_receive, most_send, _, most_combined, receive, send, _, combined] = self.ask(QUESTION)?;
        Some(Channels { receive, send, combined, most_receive, most_send, most_combined })
    }

    pub fn merges_received(&self) -> bool {
        /// ETHTOOL_GFLAGS, and ETH_FLAG_LRO of its answer.
        const QUESTION: u32 = 0x25;
        const LRO: u32 = 1 << 15;
        self.ask::<2>(QUESTION).is_some_and(|[_, flags]| flags & LRO != 0)
    }
}
