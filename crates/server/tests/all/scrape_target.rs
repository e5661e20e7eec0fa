//! A target whose page, headers and behaviour a test decides, and that remembers how it was asked.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use parking_lot::Mutex;
use tokio::net::TcpListener;

pub(crate) const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";
pub(crate) const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// How requests are answered.
#[derive(Clone)]
pub(crate) struct Behaviour {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Vec<u8>,
    pub(crate) delay: Duration,
}

/// How a target was asked.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) path_and_query: String,
    pub(crate) headers: HeaderMap,
}

impl Asked {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

#[derive(Clone)]
pub(crate) struct LiveTarget {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    behaviour: Mutex<Behaviour>,
    asked: Mutex<Vec<Asked>>,
}

impl LiveTarget {
    /// Answers every path with this text.
    pub(crate) async fn start(body: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("it is bound");
        let (target, router) = Self::at(address, body);
        tokio::spawn(async move { axum::serve(listener, router).await });
        target
    }

    /// The same without a listener: whoever calls it serves the router.
    pub(crate) fn at(address: SocketAddr, body: &str) -> (Self, Router) {
        let behaviour = Behaviour {
            status: 200,
            headers: vec![("content-type", TEXT.into())],
            body: body.into(),
            delay: Duration::ZERO,
        };
        let shared = Arc::new(Shared {
            behaviour: Mutex::new(behaviour),
            asked: Mutex::default(),
        });
        let router = Router::new()
            .fallback(answer)
            .with_state(Arc::clone(&shared));
        (Self { address, shared }, router)
    }

    pub(crate) fn set(&self, change: impl FnOnce(&mut Behaviour)) {
        change(&mut self.shared.behaviour.lock());
    }

    pub(crate) fn expose(&self, body: &str) {
        self.set(|behaviour| behaviour.body = body.into());
    }

    /// Everything that was asked so far.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.shared.asked.lock().clone()
    }

    /// Waits for the next request.
    pub(crate) async fn next_asked(&self) -> Asked {
        let before = self.shared.asked.lock().len();
        for _ in 0..6000 {
            if let Some(asked) = self.shared.asked.lock().get(before) {
                return asked.clone();
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("nobody asks {}", self.address);
    }
}

async fn answer(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let path_and_query = request.uri().path_and_query();
    shared.asked.lock().push(Asked {
        path_and_query: path_and_query.map(ToString::to_string).unwrap_or_default(),
        headers: request.headers().clone(),
    });
    let behaviour = shared.behaviour.lock().clone();
    tokio::time::sleep(behaviour.delay).await;
    let mut response = Response::new(Body::from(behaviour.body));
    *response.status_mut() = StatusCode::from_u16(behaviour.status).expect("a status");
    for (name, value) in behaviour.headers {
        response
            .headers_mut()
            .insert(name, value.parse().expect("a header"));
    }
    response
}
