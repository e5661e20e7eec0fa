//! A small blocking HTTP/1.1 client: one connection that is kept, and nothing but this machine.
//!
//! Holds always:
//! - A request is sent once. Whether a failed one arrived is unknown, and the caller is told so by
//!   an error; repeating it is the caller's decision.
//! - An answer that breaks off is an error, never a short body.
//! - A request that takes too long is a hang and fails the test: its outcome would stay open while
//!   the process lives.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::served::PATIENCE;

pub(crate) struct Client {
    address: SocketAddr,
    patience: Duration,
    connection: Option<BufReader<TcpStream>>,
}

pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Client {
    pub(crate) fn new(address: SocketAddr) -> Self {
        assert!(
            address.ip().is_loopback(),
            "{address} is not on this machine"
        );
        Self {
            address,
            patience: PATIENCE,
            connection: None,
        }
    }

    /// For requests that wait for work of unknown size.
    pub(crate) fn with_patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    pub(crate) fn get(&mut self, path: &str) -> io::Result<Response> {
        self.request("GET", path, &[], b"")
    }

    pub(crate) fn post(
        &mut self,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> io::Result<Response> {
        self.request("POST", path, headers, body)
    }

    pub(crate) fn request(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> io::Result<Response> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => connect(self.address, self.patience)?,
        };
        let mut head = format!("{method} {path} HTTP/1.1\r\nHost: {}\r\n", self.address);
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str(&format!("Content-Length: {}\r\n\r\n", body.len()));
        // One write, so that a small request is one packet.
        let mut sent = head.into_bytes();
        sent.extend_from_slice(body);
        connection.get_mut().write_all(&sent)?;
        let response = read_response(&mut connection, method == "HEAD");
        let response = response.map_err(|e| name_hangs(e, self.patience))?;
        if !matches!(response.header("connection"), Some(value) if value.eq_ignore_ascii_case("close"))
        {
            self.connection = Some(connection);
        }
        Ok(response)
    }
}

impl Response {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self
            .headers
            .iter()
            .find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }
}

/// Percent-encodes a query value.
pub(crate) fn escape(value: &str) -> String {
    value
        .bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => char::from(byte).to_string(),
            other => format!("%{other:02X}"),
        })
        .collect()
}

fn connect(address: SocketAddr, patience: Duration) -> io::Result<BufReader<TcpStream>> {
    let stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(patience))?;
    stream.set_write_timeout(Some(patience))?;
    stream.set_nodelay(true)?;
    Ok(BufReader::with_capacity(64 << 10, stream))
}

fn name_hangs(error: io::Error, patience: Duration) -> io::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            panic!("no answer within {patience:?}: the process hangs")
        }
        _ => error,
    }
}

fn read_response(from: &mut impl BufRead, is_head: bool) -> io::Result<Response> {
    let status_line = read_line(from)?;
    let status = status_line.split(' ').nth(1).and_then(|s| s.parse().ok());
    let status = status.ok_or_else(|| invalid(&format!("status line {status_line:?}")))?;
    let mut headers = Vec::new();
    loop {
        let line = read_line(from)?;
        if line.is_empty() {
            break;
        }
        let (name, value) = line.split_once(':').ok_or_else(|| invalid(&line))?;
        headers.push((name.trim().to_owned(), value.trim().to_owned()));
    }
    let mut response = Response {
        status,
        headers,
        body: Vec::new(),
    };
    if is_head || [204, 304].contains(&status) {
        return Ok(response);
    }
    if response.header("transfer-encoding").is_some() {
        read_chunks(from, &mut response.body)?;
    } else if let Some(length) = response.header("content-length") {
        let length: u64 = length.parse().map_err(|_| invalid("content length"))?;
        read_exactly(from, length, &mut response.body)?;
    } else {
        from.read_to_end(&mut response.body)?;
    }
    Ok(response)
}

fn read_chunks(from: &mut impl BufRead, body: &mut Vec<u8>) -> io::Result<()> {
    loop {
        let line = read_line(from)?;
        let length = u64::from_str_radix(line.split(';').next().unwrap_or_default(), 16)
            .map_err(|_| invalid(&format!("chunk length {line:?}")))?;
        read_exactly(from, length, body)?;
        if !read_line(from)?.is_empty() {
            return Err(invalid("a chunk is longer than it says"));
        }
        if length == 0 {
            return Ok(());
        }
    }
}

fn read_exactly(from: &mut impl BufRead, length: u64, body: &mut Vec<u8>) -> io::Result<()> {
    if from.take(length).read_to_end(body)? as u64 == length {
        Ok(())
    } else {
        Err(io::ErrorKind::UnexpectedEof.into())
    }
}

fn read_line(from: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    from.read_line(&mut line)?;
    match line.strip_suffix("\r\n") {
        Some(line) => Ok(line.to_owned()),
        None => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("not an HTTP answer: {what}"),
    )
}
