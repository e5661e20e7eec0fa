//! The names in a client's certificate.
//!
//! The TLS library checks certificates and gives no names but those of servers; rules are about
//! clients: their subject's common name and alternative names.
//!
//! Holds always: any bytes give an answer; what cannot be read has no names, and so no roles.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer as _;
use x509_parser::x509::X509Name;

/// The client's certificate of one connection.
#[derive(Clone, Debug, Default)]
pub struct PeerCertificate {
    sans: Vec<String>,
    common_name: Option<String>,
    verified: bool,
}

impl PeerCertificate {
    /// `verified`: whether a certificate authority that we trust vouches for it.
    pub(crate) fn read(der: &[u8], verified: bool) -> Self {
        let (common_name, sans) = names(der).unwrap_or_default();
        Self {
            sans,
            common_name,
            verified,
        }
    }

    pub(crate) fn has_san(&self, name: &str) -> bool {
        self.sans.iter().any(|san| san == name)
    }

    pub(crate) fn common_name(&self) -> Option<&str> {
        self.common_name.as_deref()
    }

    pub(crate) fn is_verified(&self) -> bool {
        self.verified
    }

    #[cfg(test)]
    pub(crate) fn for_test(sans: &[&str], verified: bool) -> Self {
        Self {
            sans: sans.iter().map(|san| (*san).to_owned()).collect(),
            common_name: None,
            verified,
        }
    }
}

/// Common name and alternative names; half of a certificate is none.
fn names(der: &[u8]) -> Option<(Option<String>, Vec<String>)> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    let mut sans = Vec::new();
    if let Some(extension) = certificate.subject_alternative_name().ok()? {
        for name in &extension.value.general_names {
            match name {
                GeneralName::RFC822Name(name)
                | GeneralName::DNSName(name)
                | GeneralName::URI(name) => {
                    // They are ASCII; the parser lets UTF-8 through.
                    if !name.is_ascii() {
                        return None;
                    }
                    sans.push((*name).to_owned());
                }
                GeneralName::IPAddress(bytes) => {
                    sans.extend(address(bytes).map(|address| address.to_string()));
                }
                GeneralName::Invalid(..) => return None,
                _ => {}
            }
        }
    }
    Some((common_name(certificate.subject())?, sans))
}

/// With several common names, none counts: it would be unclear which one the authority meant. One
/// that cannot be read is an error.
fn common_name(subject: &X509Name<'_>) -> Option<Option<String>> {
    let mut names = subject.iter_common_name();
    match names.next().filter(|_| names.next().is_none()) {
        Some(name) => Some(Some(name.as_str().ok()?.to_owned())),
        None => Some(None),
    }
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(bytes).map(|bytes| Ipv4Addr::from(bytes).into());
    let v6 = || <[u8; 16]>::try_from(bytes).map(|bytes| Ipv6Addr::from(bytes).into());
    v4.or_else(|_| v6()).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rcgen::{CertificateParams, DnType, KeyPair, SanType};

    use super::*;

    fn certificate(common_name: Option<&str>, sans: Vec<SanType>) -> Vec<u8> {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params
            .distinguished_name
            .push(DnType::OrganizationName, "Some Organisation");
        if let Some(name) = common_name {
            params.distinguished_name.push(DnType::CommonName, name);
        }
        params.subject_alt_names = sans;
        let key = KeyPair::generate().unwrap();
        params.self_signed(&key).unwrap().der().to_vec()
    }

    #[test]
    fn every_kind_of_name_is_read() {
        let der = certificate(
            Some("Agent Smith"),
            vec![
                SanType::DnsName("agent.example".try_into().unwrap()),
                SanType::Rfc822Name("agent@example.org".try_into().unwrap()),
                SanType::URI("spiffe://example/agent".try_into().unwrap()),
                SanType::IpAddress("192.0.2.7".parse().unwrap()),
                SanType::IpAddress("2001:db8::7".parse().unwrap()),
            ],
        );
        let read = PeerCertificate::read(&der, true);
        assert_eq!(read.common_name(), Some("Agent Smith"));
        for san in [
            "agent.example",
            "agent@example.org",
            "spiffe://example/agent",
            "192.0.2.7",
            "2001:db8::7",
        ] {
            assert!(read.has_san(san), "{san} is not in {read:?}");
        }
        assert!(!read.has_san("Agent Smith"));
    }

    /// What no authority should sign gets nobody in, also by its other names.
    #[test]
    fn a_name_that_is_not_as_it_should_be_voids_all_names() {
        let names = ["zz.example", "agent.example"];
        let sans = names.map(|name| SanType::DnsName(name.try_into().unwrap()));
        let good = certificate(Some("yy agent"), sans.into());
        assert!(PeerCertificate::read(&good, true).has_san("agent.example"));
        for (ascii, bytes) in [(b"zz", [0xc3, 0xa9]), (b"yy", [0xff, 0xff])] {
            let mut bad = good.clone();
            let places: Vec<usize> = (0..bad.len() - 1)
                .filter(|at| bad[*at..].starts_with(ascii))
                .collect();
            assert!(!places.is_empty());
            places
                .iter()
                .for_each(|at| bad[*at..*at + 2].copy_from_slice(&bytes));
            let read = PeerCertificate::read(&bad, true);
            assert!(
                read.sans.is_empty() && read.common_name().is_none(),
                "{read:?}"
            );
        }
    }

    #[test]
    fn a_certificate_may_have_no_names() {
        let read = PeerCertificate::read(&certificate(None, Vec::new()), true);
        assert_eq!(read.common_name(), None);
        assert!(read.sans.is_empty());
    }

    proptest! {
        #[test]
        fn no_bytes_panic(flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6), cut in any::<prop::sample::Index>()) {
            static DER: std::sync::LazyLock<Vec<u8>> = std::sync::LazyLock::new(|| {
                let san = SanType::DnsName("agent.example".try_into().unwrap());
                certificate(Some("agent"), vec![san])
            });
            let mut der = DER.clone();
            for (index, byte) in flips {
                let index = index.index(der.len());
                der[index] = byte;
            }
            let _ = PeerCertificate::read(&der, true);
            let cut = PeerCertificate::read(&DER[..cut.index(DER.len())], true);
            prop_assert!(cut.sans.is_empty() && cut.common_name.is_none());
        }
    }
}
