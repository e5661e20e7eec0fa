//! `/api/v1/status/access`: whether a credential is needed, and what that of this request allows.
//!
//! Holds always: it is answered without a credential and before the database is open, so that a
//! page can ask for one first. A wrong credential is refused as everywhere.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use icecore_access::PeerCertificate;
use serde_json::json;

use crate::app::App;
use crate::middleware::error::ApiError;
use crate::middleware::json::small_success;

pub(crate) async fn status(
    State(app): State<Arc<App>>,
    request: Request,
) -> Result<Response, ApiError> {
    let certificate = request.extensions().get::<Arc<PeerCertificate>>();
    let certificate = certificate.map(Arc::as_ref);
    let client = request.extensions().get::<SocketAddr>().map(SocketAddr::ip);
    let identified = app.access.identify(request.headers(), certificate, client);
    let identity = identified.await?;
    let roles: Vec<&str> = identity.roles.iter().map(|role| role.word()).collect();
    let data = json!({
        "required": identity.is_required,
        "authenticated": identity.is_authenticated,
        "user": identity.user,
        "roles": roles,
        "schemes": identity.schemes,
    });
    let mut response = small_success(|out| {
        out.extend_from_slice(data.to_string().as_bytes());
    });
    // It is about whoever asks: nobody else may be told, nor the same one after a login.
    let private = HeaderValue::from_static("no-store");
    response
        .headers_mut()
        .insert(header::CACHE_CONTROL, private);
    Ok(response)
}
