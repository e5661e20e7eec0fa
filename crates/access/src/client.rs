//! Clients by their addresses: which of them count as one.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The bits of an IPv6 address that a provider gives to one customer, at least.
const NETWORK_BITS: u32 = 64;

/// Returns the address that stands for a client in limits: of IPv6 its network, because a client
/// chooses the rest of its address as it likes.
pub fn client_network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => {
            let mask = u128::MAX << (Ipv6Addr::BITS - NETWORK_BITS);
            IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & mask))
        }
    }
}

/// Returns the address of a wider network that a client is in: as much as one customer may have, 48
/// bits of IPv6, or 24 of IPv4.
pub(crate) fn wide_network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(Ipv4Addr::from_bits(address.to_bits() & (!0 << 8))),
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & (!0 << 80))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_of_ipv6_are_one_client() {
        for (address, network) in [
            ("192.0.2.1", "192.0.2.1"),
            ("::ffff:192.0.2.1", "192.0.2.1"),
            ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
            ("2001:db8:1:2:ffff::1", "2001:db8:1:2::"),
            ("::1", "::"),
        ] {
            let found = client_network(address.parse().unwrap());
            assert_eq!(found.to_string(), network, "{address}");
        }
    }

    #[test]
    fn wide_networks_are_those_of_one_customer() {
        for (address, network) in [
            ("192.0.2.1", "192.0.2.0"),
            ("::ffff:192.0.2.1", "192.0.2.0"),
            ("2001:db8:1:2:3:4:5:6", "2001:db8:1::"),
        ] {
            let found = wide_network(address.parse().unwrap());
            assert_eq!(found.to_string(), network, "{address}");
        }
    }
}
