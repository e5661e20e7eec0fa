//! OpenTSDB's telnet lines.

use std::io;
use std::sync::Arc;

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
pub(crate) struct Telnet(pub(crate) Arc<App>);

impl LineProtocol for Telnet {
    fn serve(&self, mut connection: LineConnection) -> BoxFuture<'static, io::Result<()>> {
        let app = Arc::clone(&self.0);
        Box::pin(async move {
            let certificate = connection.certificate();
            let headers = HeaderMap::new();
            let allowed = app.access.check(&headers, certificate, Some(Role::Write));
            if allowed.await.is_err() {
                return connection.write_all(DENIED).await;
            }
            let Ok(tsd) = app.opentsdb().cloned() else {
                return connection
                    .write_all(b"the database is being opened: try again\n")
                    .await;
            };
            let mut session = Session::new(&tsd);
            let mut is_closed = false;
            let mut is_first = true;
            while !is_closed && let Some(bytes) = connection.next_bytes().await? {
                // What begins like HTTP and is none has no answer, as in the original.
                if std::mem::take(&mut is_first) && bytes.first().copied().is_some_and(is_http) {
                    return Ok(());
                }
                let mut reply = session.feed(&bytes).await;
                connection.write_all(reply.text.as_bytes()).await?;
                while reply.has_more {
                    reply = session.resume().await;
                    connection.write_all(reply.text.as_bytes()).await?;
                }
                is_closed = reply.close;
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
