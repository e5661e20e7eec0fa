//! OpenTSDB's telnet lines.
//!
//! Holds always:
//! - While the store refuses, nothing more is read: the client finds its connection full and waits.
//! - Lines that were read are stored, whether their client is still there or not; when the server
//!   shuts down before the store takes them, the client is told.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::http::HeaderMap;
use futures::future::BoxFuture;
use icecore_access::Role;
use icecore_opentsdb::telnet::{Session, is_http};

use crate::app::App;
use crate::listener::{LineConnection, LineProtocol};

/// Said to clients whom no certificate introduces, where credentials are required: lines have no
/// place for a password.
const DENIED: &[u8] =
    b"access denied: telnet needs a client certificate here; HTTP takes other credentials\n";

/// Serves telnet connections.
pub(crate) struct Telnet {
    pub(crate) app: Arc<App>,
    /// `tsd.core.socket.timeout`
    pub(crate) idle_max: Option<Duration>,
}

impl LineProtocol for Telnet {
    fn idle_max(&self) -> Option<Duration> {
        self.idle_max
    }

    fn serve(&self, mut connection: LineConnection) -> BoxFuture<'static, io::Result<()>> {
        let app = Arc::clone(&self.app);
        Box::pin(async move {
            let certificate = connection.certificate();
            let headers = HeaderMap::new();
            let (client, needed) = (connection.peer().ip(), Some(Role::Write));
            let allowed = app
                .access
                .check(&headers, certificate, Some(client), needed);
            if allowed.await.is_err() {
                return connection.write_all(DENIED).await;
            }
            let Ok(tsd) = app.opentsdb().cloned() else {
                return connection
                    .write_all(b"the database is being opened: try again\n")
                    .await;
            };
            let mut session = Session::new(&tsd);
            let mut is_open = true;
            let mut is_first = true;
            while is_open && let Some(bytes) = connection.next_bytes().await? {
                // What begins like HTTP and is none has no answer, as in the original.
                if std::mem::take(&mut is_first) && bytes.first().copied().is_some_and(is_http) {
                    return Ok(());
                }
                is_open = answer(&mut session, &mut connection, &bytes).await;
            }
            // Closed in order means that everything is stored.
            let text = session.finish().await;
            if text.is_empty() {
                Ok(())
            } else {
                connection.write_all(text.as_bytes()).await
            }
        })
    }
}

/// Answers what was read; whether more is to be read.
async fn answer(session: &mut Session<'_>, connection: &mut LineConnection, bytes: &[u8]) -> bool {
    let mut is_there = true;
    let mut reply = session.feed(bytes).await;
    loop {
        // A client that has gone without reading has sent points all the same.
        if is_there && !reply.text.is_empty() {
            is_there = connection.write_all(reply.text.as_bytes()).await.is_ok();
        }
        if let Some(pause) = reply.retry_after
            && !connection.pause(pause).await
        {
            let text = session.give_up();
            if is_there {
                // Nothing more can be done for a client that does not read this.
                let _ = connection.write_all(text.as_bytes()).await;
            }
            return false;
        }
        if !reply.has_more {
            return is_there && !reply.close;
        }
        reply = session.resume().await;
    }
}
