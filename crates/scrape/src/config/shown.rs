//! Labels, parameters and URLs as the API, messages and the rendered configuration show them.
//!
//! Holds always: the value of a parameter, header or label `__param_…` whose name is that of a
//! secret (`apikey`, `token`) is not in it.

use icecore_settings::{SECRET_PLACEHOLDER, is_secret_name, without_secrets};

/// Labels of this prefix are parameters of the URL that is scraped.
pub(crate) const PARAMETER_PREFIX: &str = "__param_";

/// Returns the value of a parameter or header as it may be shown.
pub(super) fn shown_value<'v>(name: &str, value: &'v str) -> &'v str {
    if is_secret_name(name) && !value.is_empty() {
        SECRET_PLACEHOLDER
    } else {
        value
    }
}

/// Returns the value of a label as it may be shown.
pub(crate) fn shown_label<'v>(name: &str, value: &'v str) -> &'v str {
    match name.strip_prefix(PARAMETER_PREFIX) {
        Some(parameter) => shown_value(parameter, value),
        None => value,
    }
}

/// Returns an address as messages show it. One that is a URL, which is a mistake, may have a
/// password.
pub(crate) fn shown_address(address: &str) -> String {
    const SCHEME: &str = "http://";
    if address.contains("://") {
        return without_secrets(address);
    }
    let shown = without_secrets(&format!("{SCHEME}{address}"));
    shown.trim_start_matches(SCHEME).to_owned()
}
