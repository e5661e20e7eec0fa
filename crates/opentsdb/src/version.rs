//! What clients are told about the version: they look for that of the original.

/// The version whose behaviour this is.
pub(crate) const VERSION: &str = "2.4.1";

/// Fields of `/api/version`; builds have no other identity here than their version.
pub(crate) const FIELDS: [(&str, &str); 9] = [
    ("version", VERSION),
    ("short_revision", env!("CARGO_PKG_VERSION")),
    ("full_revision", env!("CARGO_PKG_VERSION")),
    ("timestamp", "0"),
    ("repo_status", "MINT"),
    ("user", "icecore"),
    ("host", "icecore"),
    ("repo", "icecore"),
    ("branch", "main"),
];

/// As telnet and `/version` show it.
pub(crate) fn text() -> String {
    let revision = env!("CARGO_PKG_VERSION");
    format!(
        "net.opentsdb.tools {VERSION} built at revision {revision} (MINT)\n\
         Built on 1970/01/01 00:00:00 +0000 by icecore@icecore:icecore\n"
    )
}
