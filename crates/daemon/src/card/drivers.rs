//! What drivers ask for before they take an XDP program, as their sources in Linux 6.12 have it, with pages of 4 KiB.
//! The program has no fragments, so a packet must fit one buffer. What a driver can do at all the kernel tells (from
//! 6.3 on).

/// Of one driver.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Whether it is known to have native XDP.
    pub known: bool,
    /// Largest MTU with XDP.
    pub mtu: Option<u32>,
    pub queues: Queues,
    /// It takes no program while it joins received packets.
    pub refuses_merging: bool,
    pub redirects: Redirects,
    /// What may be done where it says that it has no XDP.
    pub remedy: Option<&'static str>,
}

/// Whether it both hands packets to other devices and sends theirs, as drivers were before the kernel told (6.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Redirects {
    /// Or not known.
    #[default]
    Yes,
    Since((u32, u32)),
    No,
}

impl Redirects {
    /// In this kernel; zeros: not known, which is no reason to say no.
    pub fn within(self, kernel: (u32, u32)) -> bool {
        match self {
            Redirects::Yes => true,
            Redirects::Since(since) => kernel == (0, 0) || kernel >= since,
            Redirects::No => false,
        }
    }
}

/// What it asks of its channels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Queues {
    #[default]
    Any,
    /// At most half of them in use: as many again send for XDP.
    Half,
    /// One for each processor beyond those in use, or XDP sends under a lock.
    OneMoreForEachProcessor,
    /// Each receives and sends.
    Combined,
}

/// By the name that the driver gives itself.
pub fn limits(driver: &str) -> Limits {
    let known = Limits { known: true, ..Limits::default() };
    match driver {
        // ena_xdp.h: ENA_XDP_MAX_MTU, ena_xdp_legal_queue_count. With too many channels it does not say that it has
        // XDP.
        "ena" => Limits {
            mtu: Some(3498),
            queues: Queues::Half,
            remedy: Some("ethtool -L: at most half of its channels"),
            ..known
        },
        // gve_main.c: verify_xdp_configuration. 2,048 bytes less a header and a pad of 2.
        "gve" => Limits {
            mtu: Some(2032),
            queues: Queues::Half,
            refuses_merging: true,
            remedy: Some("use a machine type with gve's queue format GQI_QPL (dmesg tells), or a newer kernel for DQO"),
            ..known
        },
        // mana_bpf.c: MANA_XDP_MTU_MAX. It learned to redirect after the first release with XDP.
        "mana" => Limits { mtu: Some(3506), redirects: Redirects::Since((6, 0)), ..known },
        // virtio_net.c: virtnet_xdp_set.
        "virtio_net" => Limits { mtu: Some(3506), queues: Queues::OneMoreForEachProcessor, ..known },
        // veth.c: veth_xdp_set; it is the other end's MTU that counts.
        "veth" => Limits { mtu: Some(3506), ..known },
        // bnxt.h: BNXT_MAX_PAGE_MODE_MTU; bnxt_xdp.c: bnxt_xdp_set.
        "bnxt_en" => Limits { mtu: Some(3502), queues: Queues::Combined, ..known },
        // en_main.c: mlx5e_xdp_allowed. Its largest MTU depends on the card's rings.
        "mlx5_core" => Limits { refuses_merging: true, ..known },
        // ixgbe_main.c: ixgbe_xdp_setup, for which RSC is what ethtool calls LRO.
        "ixgbe" => Limits { refuses_merging: true, ..known },
        // netvsc_bpf.c: netvsc_xdp_set; headroom of 256, 320 of skb_shared_info and a header in one page.
        "hv_netvsc" => Limits { mtu: Some(3506), refuses_merging: true, ..known },
        // vmxnet3_xdp.h: VMXNET3_XDP_MAX_MTU. It switches LRO off itself.
        "vmxnet3" => Limits { mtu: Some(3494), ..known },
        // igc_xdp.c: igc_xdp_set_prog refuses jumbo frames.
        "igc" => Limits { mtu: Some(1500), ..known },
        // ixgbevf_main.c: ixgbevf_run_xdp knows no XDP_REDIRECT. en_netdev.c of mlx4 has no ndo_xdp_xmit.
        "ixgbevf" | "mlx4_en" => Limits { redirects: Redirects::No, ..known },
        "i40e" | "ice" | "igb" | "tun" | "bonding" => known,
        _ => Limits::default(),
    }
}
