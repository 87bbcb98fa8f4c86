//! By which port, and to which Ethernet address, an IPv4 address is reached, as the kernel has it in its tables of
//! routes and neighbours. The program learns ways from heartbeats; this is for those whose heartbeats go elsewhere: the
//! other switches of a chain, and clients whose session is at one of them.

use super::interfaces::Interface;
use std::fs;
use std::net::Ipv4Addr;

/// A way as the program keeps it: the port's number and 1 in the upper 16 bits, the next hop's address below.
pub type Way = u64;

/// The way to an address by one of these ports, which are in the order of their numbers. `None`: the kernel does not
/// know the next hop now, or it is by another interface.
pub fn way_to(address: Ipv4Addr, ports: &[Interface]) -> Option<Way> {
    let routes = fs::read_to_string("/proc/net/route").ok()?;
    let neighbors = fs::read_to_string("/proc/net/arp").ok()?;
    let (interface, next_hop) = route(&routes, address)?;
    let port = ports.iter().position(|port| port.name == interface)?;
    let hardware = neighbor(&neighbors, interface, next_hop)?;
    Some((port as u64 + 1) << 48 | hardware)
}

/// `RTF_UP` and `RTF_GATEWAY` of `linux/route.h`; a route that refuses has the third.
const UP: u16 = 1;
const GATEWAY: u16 = 2;
const REJECT: u16 = 0x200;

/// Interface and next hop: of the longest prefix that has the address, and of those the one with the least metric.
/// Columns: interface, destination, gateway, flags, two of no use, metric, mask; addresses in hexadecimal, in memory
/// order.
fn route(table: &str, address: Ipv4Addr) -> Option<(&str, Ipv4Addr)> {
    let routes = table.lines().skip(1).filter_map(|line| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let [interface, destination, gateway, flags, _, _, metric, mask, ..] = columns[..] else { return None };
        let number = |text| u32::from_str_radix(text, 16).ok().map(|word| u32::from_be_bytes(word.to_ne_bytes()));
        let (destination, gateway, mask) = (number(destination)?, number(gateway)?, number(mask)?);
        let flags = u16::from_str_radix(flags, 16).ok()?;
        let metric: u32 = metric.parse().ok()?;
        let fits = flags & UP != 0 && flags & REJECT == 0 && u32::from(address) & mask == destination;
        let next = if flags & GATEWAY != 0 { Ipv4Addr::from(gateway) } else { address };
        fits.then_some((mask.leading_ones(), u32::MAX - metric, interface, next))
    });
    let (.., interface, next) = routes.max_by_key(|&(length, preference, ..)| (length, preference))?;
    Some((interface, next))
}

/// Columns: address, type, flags, hardware address, mask, interface. Flag 2: the kernel knows it.
fn neighbor(table: &str, interface: &str, address: Ipv4Addr) -> Option<u64> {
    const COMPLETE: u16 = 2;
    table.lines().skip(1).find_map(|line| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let [of, _, flags, hardware, _, by] = columns[..] else { return None };
        let flags = u16::from_str_radix(flags.trim_start_matches("0x"), 16).ok()?;
        if of.parse() != Ok(address) || by != interface || flags & COMPLETE == 0 {
            return None;
        }
        let mut bytes = hardware.split(':').map(|byte| u64::from_str_radix(byte, 16).ok());
        let number = bytes.by_ref().try_fold(0u64, |number, byte| Some(number << 8 | byte?))?;
        (hardware.len() == 17 && number != 0).then_some(number)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUTES: &str = "\
Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
eth0\t00000000\t0100510A\t0003\t0\t0\t100\t00000000\t0\t0\t0
eth1\t00000000\t0100520A\t0003\t0\t0\t50\t00000000\t0\t0\t0
eth0\t0000510A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0
eth2\t0000530A\t00000000\t0201\t0\t0\t0\t00FFFFFF\t0\t0\t0
";
    const NEIGHBORS: &str = "\
IP address       HW type     Flags       HW address            Mask     Device
10.81.0.2        0x1         0x2         02:00:5e:00:53:07     *        eth0
10.81.0.3        0x1         0x0         00:00:00:00:00:00     *        eth0
10.81.0.4        0x1         0x2         02:00:5e:00:53:09     *        eth9
";

    #[test]
    fn the_longest_prefix_and_then_the_least_metric_count() {
        let to = |address: [u8; 4]| route(ROUTES, address.into());
        assert_eq!(to([10, 81, 0, 2]), Some(("eth0", [10, 81, 0, 2].into())));
        assert_eq!(to([192, 0, 2, 1]), Some(("eth1", [10, 82, 0, 1].into())), "by its gateway");
        assert_eq!(to([10, 83, 0, 1]).map(|(interface, _)| interface), Some("eth1"), "what is refused is no route");
        assert_eq!(route("", [10, 81, 0, 2].into()), None);
    }

    #[test]
    fn a_neighbor_is_known_whole_and_by_its_interface() {
        let at = |address: [u8; 4]| neighbor(NEIGHBORS, "eth0", address.into());
        assert_eq!(at([10, 81, 0, 2]), Some(0x0200_5e00_5307));
        assert_eq!((at([10, 81, 0, 3]), at([10, 81, 0, 4]), at([10, 81, 0, 5])), (None, None, None));
    }
}
