//! TLS of a client: trusted authorities and its own certificate.

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::version::{TLS12, TLS13};
use rustls::{
    ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    SupportedProtocolVersion,
};

use super::read_small;
use crate::config::{Secret, TlsClientConfig, TlsVersion};

/// Where Linux distributions and macOS keep the certificates that everyone believes.
const SYSTEM_BUNDLES: [&str; 5] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// Names the bundle instead, as for other programs.
const BUNDLE_VARIABLE: &str = "SSL_CERT_FILE";

/// Certificates and key as text, by which changes are noticed.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Material {
    ca: Option<Vec<u8>>,
    cert: Option<Vec<u8>>,
    key: Option<Vec<u8>>,
}

impl Material {
    pub(super) fn read(config: &TlsClientConfig) -> Result<Self, String> {
        let pem = |given: &Option<Secret>| match given {
            None => Ok(None),
            Some(Secret::Inline(text)) => Ok(Some(text.clone().into_bytes())),
            Some(Secret::File(path)) => read_small(path).map(Some),
        };
        Ok(Self {
            ca: pem(&config.ca)?,
            cert: pem(&config.cert)?,
            key: pem(&config.key)?,
        })
    }
}

pub(super) fn client_config(
    config: &TlsClientConfig,
    material: &Material,
    http2: bool,
) -> Result<ClientConfig, String> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&versions(config))
        .map_err(|error| error.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(verifier(config, material, provider)?);
    let mut tls = match (&material.cert, &material.key) {
        (Some(cert), Some(key)) => {
            let key = PrivateKeyDer::from_pem_slice(key)
                .map_err(|error| format!("the client's key: {error}"))?;
            builder
                .with_client_auth_cert(certificates(cert, "the client's certificate")?, key)
                .map_err(|error| format!("the client's certificate: {error}"))?
        }
        _ => builder.with_no_client_auth(),
    };
    tls.alpn_protocols = vec![b"http/1.1".to_vec()];
    if http2 {
        tls.alpn_protocols.insert(0, b"h2".to_vec());
    }
    Ok(tls)
}

fn versions(config: &TlsClientConfig) -> Vec<&'static SupportedProtocolVersion> {
    let all = [(TlsVersion::Tls12, &TLS12), (TlsVersion::Tls13, &TLS13)];
    let allowed = |version: TlsVersion| {
        config.min_version.is_none_or(|least| version >= least)
            && config.max_version.is_none_or(|most| version <= most)
    };
    all.into_iter()
        .filter(|(version, _)| allowed(*version))
        .map(|(_, supported)| supported)
        .collect()
}

fn certificates(pem: &[u8], what: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let certificates = certificates.map_err(|error| format!("{what}: {error}"))?;
    if certificates.is_empty() {
        return Err(format!("{what}: no certificate in it"));
    }
    Ok(certificates)
}

fn verifier(
    config: &TlsClientConfig,
    material: &Material,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, String> {
    if config.insecure_skip_verify {
        return Ok(Arc::new(AnyCertificate(provider)));
    }
    let roots = Arc::new(roots(material)?);
    let verifier = WebPkiServerVerifier::builder_with_provider(roots, provider)
        .build()
        .map_err(|error| format!("the certificate authority: {error}"))?;
    let Some(name) = &config.server_name else {
        return Ok(verifier);
    };
    let name = ServerName::try_from(name.clone());
    let name = name.map_err(|error| format!("server_name: {error}"))?;
    Ok(Arc::new(NameVerifier { name, verifier }))
}

fn roots(material: &Material) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    match &material.ca {
        Some(pem) => {
            for certificate in certificates(pem, "the certificate authority")? {
                let added = roots.add(certificate);
                added.map_err(|error| format!("the certificate authority: {error}"))?;
            }
        }
        None => {
            let named = std::env::var(BUNDLE_VARIABLE).ok();
            let paths = named.iter().map(String::as_str).chain(SYSTEM_BUNDLES);
            let bundle = paths.into_iter().find_map(|path| std::fs::read(path).ok());
            let bundle = bundle.ok_or("this system has no certificates of authorities")?;
            // A bundle may hold some that are of no use; the others are what counts.
            let usable = CertificateDer::pem_slice_iter(&bundle).filter_map(Result::ok);
            roots.add_parsable_certificates(usable);
        }
    }
    Ok(roots)
}

/// `server_name`: the certificate must be for this name, whatever the address is called.
#[derive(Debug)]
struct NameVerifier {
    name: ServerName<'static>,
    verifier: Arc<WebPkiServerVerifier>,
}

impl ServerCertVerifier for NameVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.verifier
            .verify_server_cert(end_entity, intermediates, &self.name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier.supported_verify_schemes()
    }
}

/// `insecure_skip_verify`: any certificate is accepted; only the handshake's signatures are
/// checked.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
