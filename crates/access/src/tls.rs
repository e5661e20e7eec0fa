//! TLS as the web configuration file describes it.
//!
//! Holds always:
//! - Nothing below TLS 1.2 is supported, whatever the file allows.
//! - A certificate and a key that do not belong together are an error here, not at a handshake.
//! - Whether a client's certificate was checked against an authority is known for each connection.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{
    CryptoProvider, SupportedKxGroup, aws_lc_rs, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::version::{TLS12, TLS13};
use rustls::{
    DigitallySignedStruct, DistinguishedName, Error, RootCertStore, ServerConfig, SignatureScheme,
    SupportedCipherSuite, SupportedProtocolVersion,
};

use crate::certificate::PeerCertificate;
use crate::credentials::{Digest, digest};
use crate::file::TlsSection;
use crate::files::Files;
use icecore_settings::yaml::Position;
use icecore_settings::{Problem, Secret, Spanned, quoted};

const SECTION: &str = "tls_server_config";

/// The TLS configurations of listeners.
pub struct Tls {
    /// For listeners with HTTP/1.1, and HTTP/2 unless the file turns it off.
    pub http: Arc<ServerConfig>,
    /// For listeners with HTTP/2 only.
    pub http2: Arc<ServerConfig>,
    pub(crate) clients: ClientAuth,
    /// Set if only certificates with listed names are accepted.
    pub(crate) limits_names: bool,
    speaks_tls12: bool,
    /// Changes when clients are checked in another way.
    pub(crate) clients_digest: Digest,
}

/// What is asked of clients, in Go's words, which are Prometheus' words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientAuth {
    None,
    Request,
    RequireAny,
    VerifyIfGiven,
    RequireAndVerify,
}

impl ClientAuth {
    const WORDS: [(&str, Self); 6] = [
        ("NoClientCert", Self::None),
        ("RequestClientCert", Self::Request),
        ("RequireAnyClientCert", Self::RequireAny),
        // An old name that Prometheus still takes.
        ("RequireClientCert", Self::RequireAny),
        ("VerifyClientCertIfGiven", Self::VerifyIfGiven),
        ("RequireAndVerifyClientCert", Self::RequireAndVerify),
    ];

    pub(crate) fn verifies(self) -> bool {
        matches!(self, Self::VerifyIfGiven | Self::RequireAndVerify)
    }

    fn requires(self) -> bool {
        matches!(self, Self::RequireAny | Self::RequireAndVerify)
    }

    /// Ranks the demand on every client: nothing, a certificate, a verified one.
    fn demand(self) -> u8 {
        u8::from(self.requires()) + u8::from(self == Self::RequireAndVerify)
    }
}

impl Tls {
    /// Returns the demand on clients and connections that `new` drops, in words.
    pub(crate) fn protection_lost_in(&self, new: &Self) -> Option<&'static str> {
        if new.clients.demand() < self.clients.demand() {
            Some("less would be demanded of certificates of clients (client_auth_type)")
        } else if self.limits_names && !new.limits_names {
            Some("certificates of clients could have any name (client_allowed_sans)")
        } else if new.speaks_tls12 && !self.speaks_tls12 {
            Some("connections could be TLS 1.2 (min_version)")
        } else {
            None
        }
    }
}

pub(crate) fn build(
    section: &TlsSection,
    http1_only: bool,
    files: &mut Files<'_>,
) -> Result<Tls, Problem> {
    let provider = Arc::new(provider(section, files)?);
    let versions = versions(section, files)?;
    let (chain, key) = identity(section, files)?;
    let clients = client_auth(section, files)?;
    let authorities = match &section.client_ca {
        Some(source) => pem(source, "client_ca", files)?,
        None => Vec::new(),
    };
    let verifier = verifier(section, clients, &authorities, &provider, files)?;
    let wrong = |error: Error| problem(files, "", error.to_string(), section.at);
    let builder = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&versions)
        .map_err(wrong)?;
    let builder = match verifier {
        Some(verifier) => builder.with_client_cert_verifier(verifier),
        None => builder.with_no_client_auth(),
    };
    let mut http = builder.with_single_cert(chain, key).map_err(wrong)?;
    http.ignore_client_order = section.server_order;
    let mut http2 = http.clone();
    http2.alpn_protocols = vec![b"h2".to_vec()];
    http.alpn_protocols = if http1_only {
        vec![b"http/1.1".to_vec()]
    } else {
        vec![b"h2".to_vec(), b"http/1.1".to_vec()]
    };
    let sans = section.client_sans.as_ref().map(|sans| &sans.value);
    let described = format!("{clients:?} {sans:?}").into_bytes();
    Ok(Tls {
        http: Arc::new(http),
        http2: Arc::new(http2),
        clients,
        limits_names: sans.is_some(),
        speaks_tls12: versions.contains(&&TLS12),
        clients_digest: digest(&[described, authorities].concat()),
    })
}

fn problem(files: &Files<'_>, key: &str, reason: String, at: Position) -> Problem {
    let subject = match key {
        "" => SECTION.to_owned(),
        _ => format!("{SECTION}.{key}"),
    };
    files.problem(&subject, reason, at)
}

/// The text of a PEM source.
fn pem(source: &Spanned<Secret>, key: &str, files: &mut Files<'_>) -> Result<Vec<u8>, Problem> {
    match &source.value {
        Secret::Inline(text) => Ok(text.clone().into_bytes()),
        Secret::File(path) => {
            let subject = format!("{SECTION}.{key}_file");
            match key {
                "key" => files.read_secret(path, &subject, source.at),
                _ => files.read(path, &subject, source.at),
            }
        }
    }
}

fn certificates(
    bytes: &[u8],
    key: &str,
    at: Position,
    files: &Files<'_>,
) -> Result<Vec<CertificateDer<'static>>, Problem> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(bytes).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        // The library's own reason could quote what it found.
        _ => {
            let reason = "holds no certificates in PEM form".into();
            Err(problem(files, key, reason, at))
        }
    }
}

type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn identity(section: &TlsSection, files: &mut Files<'_>) -> Result<Identity, Problem> {
    let missing = |name: &str, files: &Files<'_>| {
        let reason = format!("needs one of {name} and {name}_file");
        problem(files, "", reason, section.at)
    };
    let source = section.certificate.as_ref();
    let source = source.ok_or_else(|| missing("cert", files))?;
    let bytes = pem(source, "cert", files)?;
    let chain = certificates(&bytes, "cert", source.at, files)?;
    let source = section.key.as_ref();
    let source = source.ok_or_else(|| missing("key", files))?;
    let bytes = pem(source, "key", files)?;
    let key = PrivateKeyDer::from_pem_slice(&bytes).map_err(|_| {
        let reason = "holds no private key in PEM form".into();
        problem(files, "key", reason, source.at)
    })?;
    Ok((chain, key))
}

fn client_auth(section: &TlsSection, files: &Files<'_>) -> Result<ClientAuth, Problem> {
    let clients = match &section.client_auth {
        None => ClientAuth::None,
        Some(word) => {
            let mut known = ClientAuth::WORDS.iter();
            let found = known.find(|(name, _)| *name == word.value);
            let Some((_, clients)) = found else {
                let words = ClientAuth::WORDS.map(|(name, _)| name).join(", ");
                let reason = format!("expected one of {words}, found {}", quoted(&word.value));
                return Err(problem(files, "client_auth_type", reason, word.at));
            };
            *clients
        }
    };
    if let Some(authority) = &section.client_ca
        && clients == ClientAuth::None
    {
        let reason = "needs a client_auth_type that asks for certificates".into();
        return Err(problem(files, "client_ca", reason, authority.at));
    }
    if clients.verifies() && section.client_ca.is_none() {
        let reason = "needs a client_ca_file to verify certificates with".into();
        let at = section.client_auth.as_ref().map_or(section.at, |it| it.at);
        return Err(problem(files, "client_auth_type", reason, at));
    }
    if let Some(sans) = &section.client_sans
        && !clients.requires()
    {
        let reason =
            "needs RequireAnyClientCert or RequireAndVerifyClientCert as client_auth_type".into();
        return Err(problem(files, "client_allowed_sans", reason, sans.at));
    }
    Ok(clients)
}

fn verifier(
    section: &TlsSection,
    clients: ClientAuth,
    authorities: &[u8],
    provider: &Arc<CryptoProvider>,
    files: &Files<'_>,
) -> Result<Option<Arc<dyn ClientCertVerifier>>, Problem> {
    if clients == ClientAuth::None {
        return Ok(None);
    }
    let authority = match &section.client_ca {
        Some(source) if clients.verifies() => {
            let wrong = |reason: String| problem(files, "client_ca", reason, source.at);
            let mut roots = RootCertStore::empty();
            for certificate in certificates(authorities, "client_ca", source.at, files)? {
                let added = roots.add(certificate);
                added.map_err(|error| wrong(error.to_string()))?;
            }
            let builder =
                WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider));
            let verifier = builder.build();
            Some(verifier.map_err(|error| wrong(error.to_string()))?)
        }
        _ => None,
    };
    Ok(Some(Arc::new(ClientVerifier {
        authority,
        required: clients.requires(),
        sans: section.client_sans.as_ref().map(|sans| sans.value.clone()),
        provider: Arc::clone(provider),
    })))
}

/// Checks certificates of clients: against an authority, against a list of names, or neither.
#[derive(Debug)]
struct ClientVerifier {
    authority: Option<Arc<dyn ClientCertVerifier>>,
    required: bool,
    sans: Option<Vec<String>>,
    provider: Arc<CryptoProvider>,
}

impl ClientCertVerifier for ClientVerifier {
    fn client_auth_mandatory(&self) -> bool {
        self.required
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        let authority = self.authority.as_ref();
        authority.map_or(&[], |authority| authority.root_hint_subjects())
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        if let Some(authority) = &self.authority {
            authority.verify_client_cert(end_entity, intermediates, now)?;
        }
        if let Some(sans) = &self.sans {
            let certificate = PeerCertificate::read(end_entity, self.authority.is_some());
            if !sans.iter().any(|san| certificate.has_san(san)) {
                let reason = rustls::CertificateError::ApplicationVerificationFailure;
                return Err(Error::InvalidCertificate(reason));
            }
        }
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}

fn versions(
    section: &TlsSection,
    files: &Files<'_>,
) -> Result<Vec<&'static SupportedProtocolVersion>, Problem> {
    const WORDS: [&str; 4] = ["TLS10", "TLS11", "TLS12", "TLS13"];
    let rank = |given: &Option<Spanned<String>>, key: &str, default: usize| match given {
        None => Ok(default),
        Some(word) => WORDS
            .iter()
            .position(|known| *known == word.value)
            .ok_or_else(|| {
                let found = quoted(&word.value);
                let reason = format!("expected one of {}, found {found}", WORDS.join(", "));
                problem(files, key, reason, word.at)
            }),
    };
    let least = rank(&section.min_version, "min_version", 2)?;
    let most = rank(&section.max_version, "max_version", 3)?;
    // What is older than 1.2 is allowed to be named as the least, and not spoken.
    let spoken: Vec<_> = [(2, &TLS12), (3, &TLS13)]
        .into_iter()
        .filter(|(rank, _)| (least..=most).contains(rank))
        .map(|(_, version)| version)
        .collect();
    if spoken.is_empty() {
        let at = section.max_version.as_ref().map_or(section.at, |it| it.at);
        let reason = "leaves no version: TLS12 and TLS13 are spoken".into();
        return Err(problem(files, "max_version", reason, at));
    }
    Ok(spoken)
}

/// The library's algorithms, less those that the file leaves out.
fn provider(section: &TlsSection, files: &Files<'_>) -> Result<CryptoProvider, Problem> {
    let mut provider = aws_lc_rs::default_provider();
    if !section.cipher_suites.is_empty() {
        provider.cipher_suites =
            chosen_suites(&section.cipher_suites, &provider.cipher_suites, files)?;
    }
    if !section.curves.is_empty() {
        provider.kx_groups = chosen_curves(&section.curves, files)?;
    }
    Ok(provider)
}

fn chosen_suites(
    names: &[Spanned<String>],
    supported: &[SupportedCipherSuite],
    files: &Files<'_>,
) -> Result<Vec<SupportedCipherSuite>, Problem> {
    let name_of = |suite: &SupportedCipherSuite| format!("{:?}", suite.suite());
    let mut chosen = Vec::new();
    for name in names {
        // Go writes the suites of TLS 1.3 without their version.
        let long = name.value.replacen("TLS_", "TLS13_", 1);
        let mut known = supported.iter();
        let Some(suite) = known.find(|suite| [&name.value, &long].contains(&&name_of(suite)))
        else {
            let known: Vec<_> = supported.iter().map(name_of).collect();
            let found = quoted(&name.value);
            let reason = format!("{found} is not supported; these are: {}", known.join(", "));
            return Err(problem(files, "cipher_suites", reason, name.at));
        };
        chosen.push(*suite);
    }
    // As in Go the list is about TLS 1.2, unless it names others.
    if !chosen.iter().any(|suite| suite.tls13().is_some()) {
        chosen.extend(supported.iter().filter(|suite| suite.tls13().is_some()));
    }
    Ok(chosen)
}

fn chosen_curves(
    names: &[Spanned<String>],
    files: &Files<'_>,
) -> Result<Vec<&'static dyn SupportedKxGroup>, Problem> {
    let supported = aws_lc_rs::ALL_KX_GROUPS;
    let name_of = |group: &&dyn SupportedKxGroup| format!("{:?}", group.name());
    let mut chosen = Vec::new();
    for name in names {
        let wanted = match name.value.as_str() {
            "CurveP256" => "secp256r1",
            "CurveP384" => "secp384r1",
            other => other,
        };
        let mut known = supported.iter();
        let Some(group) = known.find(|group| name_of(group) == wanted) else {
            let known: Vec<_> = supported.iter().map(name_of).collect();
            let found = quoted(&name.value);
            let reason = format!("{found} is not supported; these are: {}", known.join(", "));
            return Err(problem(files, "curve_preferences", reason, name.at));
        };
        chosen.push(*group);
    }
    Ok(chosen)
}
