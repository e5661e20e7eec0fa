//! The names in a client's certificate.
//!
//! The TLS library checks certificates and gives no names but those of servers; rules are about
//! clients, so the few fields that they need are read here: the subject's common name and the
//! alternative names (RFC 5280).
//!
//! Holds always: any bytes give an answer; what cannot be read has no names, and so no roles.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const BIT_STRING_TAGS: [u8; 2] = [0x81, 0x82];
const VERSION: u8 = 0xa0;
const EXTENSIONS: u8 = 0xa3;
const OBJECT_ID: u8 = 0x06;
const OCTET_STRING: u8 = 0x04;
const UTF8_STRING: u8 = 0x0c;
const PRINTABLE_STRING: u8 = 0x13;
const IA5_STRING: u8 = 0x16;

/// Fields of a certificate between its version and its subject: serial, signature, issuer, validity.
const FIELDS_BEFORE_SUBJECT: usize = 4;

/// 2.5.4.3
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
/// 2.5.29.17
const ALTERNATIVE_NAMES: &[u8] = &[0x55, 0x1d, 0x11];

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
        let mut certificate = Self {
            verified,
            ..Self::default()
        };
        // Half of a certificate is none.
        if certificate.fill(der).is_none() {
            certificate.sans.clear();
            certificate.common_name = None;
        }
        certificate
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

    fn fill(&mut self, der: &[u8]) -> Option<()> {
        let (certificate, _) = expect(der, SEQUENCE)?;
        let (mut fields, _) = expect(certificate, SEQUENCE)?;
        if let Some((_, rest)) = expect(fields, VERSION) {
            fields = rest;
        }
        for _ in 0..FIELDS_BEFORE_SUBJECT {
            (_, _, fields) = next(fields)?;
        }
        let (subject, rest) = expect(fields, SEQUENCE)?;
        self.common_name = common_name(subject)?;
        // The public key, then what is optional.
        (_, _, fields) = next(rest)?;
        while !fields.is_empty() {
            let (tag, content, rest) = next(fields)?;
            if tag == EXTENSIONS {
                self.extensions(content)?;
            } else if !BIT_STRING_TAGS.contains(&tag) {
                return None;
            }
            fields = rest;
        }
        Some(())
    }

    fn extensions(&mut self, content: &[u8]) -> Option<()> {
        let (mut list, _) = expect(content, SEQUENCE)?;
        while !list.is_empty() {
            let (extension, rest) = expect(list, SEQUENCE)?;
            list = rest;
            let (id, mut value) = expect(extension, OBJECT_ID)?;
            // Between id and value there may be whether it is critical.
            let (mut tag, mut bytes, _) = next(value)?;
            if tag != OCTET_STRING {
                (_, _, value) = next(value)?;
                (tag, bytes, _) = next(value)?;
            }
            if id == ALTERNATIVE_NAMES && tag == OCTET_STRING {
                self.alternative_names(bytes)?;
            }
        }
        Some(())
    }

    fn alternative_names(&mut self, content: &[u8]) -> Option<()> {
        let (mut names, _) = expect(content, SEQUENCE)?;
        while !names.is_empty() {
            let (tag, name, rest) = next(names)?;
            names = rest;
            self.sans.extend(match tag {
                // A mail address, a host, a URI: all of them ASCII.
                0x81 | 0x82 | 0x86 => {
                    Some(str::from_utf8(name).ok().filter(|it| it.is_ascii())?.into())
                }
                0x87 => address(name).map(|address| address.to_string()),
                _ => None,
            });
        }
        Some(())
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

/// The common name among the parts of a subject. With several, none counts: it would be unclear
/// which one the authority meant.
fn common_name(mut subject: &[u8]) -> Option<Option<String>> {
    let mut found = None;
    let mut several = false;
    while !subject.is_empty() {
        let (mut parts, rest) = expect(subject, SET)?;
        subject = rest;
        while !parts.is_empty() {
            let (part, rest) = expect(parts, SEQUENCE)?;
            parts = rest;
            let (id, value) = expect(part, OBJECT_ID)?;
            let (tag, text, _) = next(value)?;
            if id == COMMON_NAME && [UTF8_STRING, PRINTABLE_STRING, IA5_STRING].contains(&tag) {
                several |= found.is_some();
                found = Some(str::from_utf8(text).ok()?.to_owned());
            }
        }
    }
    Some(found.filter(|_| !several))
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(bytes).map(|bytes| Ipv4Addr::from(bytes).into());
    let v6 = || <[u8; 16]>::try_from(bytes).map(|bytes| Ipv6Addr::from(bytes).into());
    v4.or_else(|_| v6()).ok()
}

/// The content of the next element, which has this tag, and what follows.
fn expect(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (found, content, rest) = next(bytes)?;
    (found == tag).then_some((content, rest))
}

/// Tag and content of the next DER element, and what follows.
fn next(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    /// Lengths of up to four bytes: certificates are a few kilobytes.
    const LENGTH_BYTES_MAX: u8 = 4;
    let (tag, bytes) = bytes.split_first()?;
    let (first, bytes) = bytes.split_first()?;
    let (length, bytes) = match first & 0x80 {
        0 => (usize::from(*first), bytes),
        _ => {
            let count = first & 0x7f;
            if count > LENGTH_BYTES_MAX {
                return None;
            }
            let (digits, rest) = bytes.split_at_checked(count.into())?;
            let length = digits
                .iter()
                .fold(0_u64, |length, digit| length << 8 | u64::from(*digit));
            (usize::try_from(length).ok()?, rest)
        }
    };
    let (content, rest) = bytes.split_at_checked(length)?;
    Some((*tag, content, rest))
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
