//! Certificates for tests, and a client that speaks HTTP/1.1 or HTTP/2 over TLS or without.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::{Request, Response, Version};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// A certificate authority.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key, both as PEM.
#[derive(Clone)]
pub(crate) struct Identity {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        Self(CertifiedIssuer::self_signed(params, key).unwrap())
    }

    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    /// A certificate for somebody with these names, the first of which is the common name, too.
    pub(crate) fn issue(&self, names: &[&str]) -> Identity {
        let sans: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(sans).unwrap();
        params.distinguished_name.push(DnType::CommonName, names[0]);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        Identity {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
        }
    }
}

/// How a client connects.
pub(crate) struct Client {
    config: Arc<ClientConfig>,
}

impl Client {
    /// Trusts `authority`, shows `identity` if there is one, and offers these protocols.
    pub(crate) fn new(authority: &Authority, identity: Option<&Identity>, offers: &[&str]) -> Self {
        let mut roots = RootCertStore::empty();
        let pem = authority.pem();
        roots
            .add(CertificateDer::from_pem_slice(pem.as_bytes()).unwrap())
            .unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match identity {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                let chain = CertificateDer::from_pem_slice(identity.certificate.as_bytes());
                let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).unwrap();
                builder
                    .with_client_auth_cert(vec![chain.unwrap()], key)
                    .unwrap()
            }
        };
        config.alpn_protocols = offers.iter().map(|name| name.as_bytes().into()).collect();
        Self {
            config: Arc::new(config),
        }
    }

    /// Connects and speaks what was agreed upon. An error of the handshake may come with the first
    /// request only: a server checks a client's certificate after the client believes to be done.
    pub(crate) async fn connect(&self, address: SocketAddr) -> Result<Sender, Failed> {
        let stream = TcpStream::connect(address).await?;
        let name = ServerName::try_from("localhost")?;
        let connector = TlsConnector::from(Arc::clone(&self.config));
        let stream = connector.connect(name, stream).await?;
        let (_, connection) = stream.get_ref();
        let certificate = connection.peer_certificates().unwrap()[0].to_vec();
        let is_http2 = connection.alpn_protocol() == Some(b"h2");
        let mut sender = Sender::over(stream, is_http2).await?;
        sender.certificate = certificate;
        Ok(sender)
    }
}

pub(crate) type Failed = Box<dyn std::error::Error + Send + Sync>;

/// One connection.
pub(crate) struct Sender {
    sending: Sending,
    /// What the server showed.
    pub(crate) certificate: Vec<u8>,
}

enum Sending {
    Http1(hyper::client::conn::http1::SendRequest<Full<Bytes>>),
    Http2(hyper::client::conn::http2::SendRequest<Full<Bytes>>),
}

impl Sender {
    /// Without TLS.
    pub(crate) async fn plain(address: SocketAddr, is_http2: bool) -> Result<Self, Failed> {
        Self::over(TcpStream::connect(address).await?, is_http2).await
    }

    async fn over<S>(stream: S, is_http2: bool) -> Result<Self, Failed>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let stream = TokioIo::new(stream);
        let sending = if is_http2 {
            let executor = TokioExecutor::new();
            let (sender, connection) =
                hyper::client::conn::http2::handshake(executor, stream).await?;
            tokio::spawn(connection);
            Sending::Http2(sender)
        } else {
            let (sender, connection) = hyper::client::conn::http1::handshake(stream).await?;
            tokio::spawn(connection);
            Sending::Http1(sender)
        };
        Ok(Self {
            sending,
            certificate: Vec::new(),
        })
    }

    pub(crate) async fn send(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, Failed> {
        Ok(match &mut self.sending {
            Sending::Http1(sender) => {
                // The connection takes the next request a little after the answer before was read.
                sender.ready().await?;
                sender.send_request(request).await?
            }
            Sending::Http2(sender) => sender.send_request(request).await?,
        })
    }

    /// Status, version and text of the answer to a GET.
    pub(crate) async fn get(
        &mut self,
        path: &str,
        headers: &[(&str, &str)],
    ) -> Result<(u16, Version, String), Failed> {
        let mut request = Request::get(format!("http://localhost{path}"));
        if matches!(self.sending, Sending::Http1(_)) {
            request = Request::get(path).header("host", "localhost");
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = self.send(request.body(Full::default())?).await?;
        let (status, version) = (response.status().as_u16(), response.version());
        let body = response.into_body().collect().await?.to_bytes();
        Ok((status, version, String::from_utf8(body.into())?))
    }
}
