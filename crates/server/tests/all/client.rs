//! A small HTTP client that shows what was sent, byte by byte: whether an answer was complete, too.

use std::collections::HashMap;
use std::net::SocketAddr;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

/// An answer as it came.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Names in lower case.
    pub(crate) headers: HashMap<String, String>,
    pub(crate) body: Vec<u8>,
    /// Whether the body ended as its head promised.
    pub(crate) complete: bool,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("answers are UTF-8")
    }

    #[track_caller]
    pub(crate) fn json(&self) -> serde_json::Value {
        assert_eq!(self.header("content-type"), Some("application/json"));
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("{e}: {}", self.text()))
    }

    /// The data of a success.
    #[track_caller]
    pub(crate) fn data(&self) -> serde_json::Value {
        assert_eq!(self.status, 200, "{}", self.text());
        let json = self.json();
        assert_eq!(json["status"], "success", "{json}");
        json["data"].clone()
    }

    /// Asserts an error in Prometheus' shape and gives its message.
    #[track_caller]
    pub(crate) fn error(&self, status: u16, error_type: &str) -> String {
        assert_eq!(self.status, status, "{}", self.text());
        let json = self.json();
        assert_eq!(json["status"], "error", "{json}");
        assert_eq!(json["errorType"], error_type, "{json}");
        json["error"].as_str().expect("a message").to_owned()
    }
}

/// One connection.
pub(crate) struct Connection {
    stream: BufReader<TcpStream>,
}

impl Connection {
    pub(crate) async fn open(address: SocketAddr) -> Self {
        Self::over(TcpStream::connect(address).await.expect("it listens"))
    }

    pub(crate) fn over(stream: TcpStream) -> Self {
        Self {
            stream: BufReader::new(stream),
        }
    }

    pub(crate) async fn send(&mut self, bytes: &[u8]) {
        // The server may have answered and gone already; what it said is still to be read.
        let _ = self.stream.get_mut().write_all(bytes).await;
    }

    /// Sends a request and reads the answer.
    pub(crate) async fn request(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Answer {
        self.send(&request(method, path, headers, body)).await;
        self.answer(method).await
    }

    pub(crate) async fn answer(&mut self, method: &str) -> Answer {
        self.answer_if_any(method).await.expect("an answer")
    }

    /// The answer; `None` when the connection was closed before its head was there.
    pub(crate) async fn answer_if_any(&mut self, method: &str) -> Option<Answer> {
        let (status, headers) = self.head().await?;
        let mut body = Vec::new();
        let bodiless = method == "HEAD" || matches!(status, 204 | 304);
        let complete = if bodiless {
            true
        } else if headers
            .get("transfer-encoding")
            .is_some_and(|v| v == "chunked")
        {
            self.chunks(&mut body).await.is_some()
        } else {
            let length = headers.get("content-length").expect("a length");
            body.resize(length.parse().expect("a number"), 0);
            self.stream.read_exact(&mut body).await.is_ok()
        };
        Some(Answer {
            status,
            headers,
            body,
            complete,
        })
    }

    /// Status and headers; `None` when the connection was closed before.
    pub(crate) async fn head(&mut self) -> Option<(u16, HashMap<String, String>)> {
        let first = self.line().await?;
        let status = first.split(' ').nth(1)?.parse().ok()?;
        let mut headers = HashMap::new();
        loop {
            let line = self.line().await?;
            let Some((name, value)) = line.split_once(':') else {
                return Some((status, headers));
            };
            headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
        }
    }

    /// Reads chunks up to the last one; `None` when it never comes.
    pub(crate) async fn chunks(&mut self, body: &mut Vec<u8>) -> Option<()> {
        while self.chunk(body).await? > 0 {}
        Some(())
    }

    /// Reads one chunk and returns its length, which is 0 for the last one.
    pub(crate) async fn chunk(&mut self, body: &mut Vec<u8>) -> Option<usize> {
        let length = usize::from_str_radix(&self.line().await?, 16).ok()?;
        let begin = body.len();
        body.resize(begin + length, 0);
        if self.stream.read_exact(&mut body[begin..]).await.is_err() {
            body.truncate(begin);
            return None;
        }
        self.line().await?;
        Some(length)
    }

    async fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let read = self.stream.read_line(&mut line).await.ok()?;
        (read > 0).then(|| line.trim_end().to_owned())
    }
}

/// The bytes of a request.
pub(crate) fn request(method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut text = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n");
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    if !body.is_empty() || matches!(method, "POST" | "PUT") {
        text.push_str(&format!("Content-Length: {}\r\n", body.len()));
    }
    text.push_str("\r\n");
    [text.as_bytes(), body].concat()
}

/// Parameters as a URL or a form carries them.
pub(crate) fn encoded(params: &[(&str, &str)]) -> String {
    form_urlencoded::Serializer::new(String::new())
        .extend_pairs(params)
        .finish()
}
