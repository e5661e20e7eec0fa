//! Labels, parameters and URLs as the API, messages and the rendered configuration show them.
//!
//! Holds always: the value of a parameter, header or label `__param_…` whose name is that of a
//! secret (`apikey`, `token`) is not in it, and neither are the secrets of an address or of a value
//! that is a URL.

use std::borrow::Cow;

use icecore_settings::{Fields, SECRET_PLACEHOLDER, is_secret_name, without_secrets};

/// The label with the address of a target.
pub(crate) const ADDRESS: &str = "__address__";

/// Labels of this prefix are parameters of the URL that is scraped.
pub(crate) const PARAMETER_PREFIX: &str = "__param_";

/// The reason against a configuration that was pasted from where secrets are not shown.
pub(super) const NO_PLACEHOLDER: &str =
    "expected the secret itself, not the placeholder that is printed for it";

/// Returns the value of a parameter or header as it may be shown.
pub(crate) fn shown_value<'v>(name: &str, value: &'v str) -> Cow<'v, str> {
    if is_secret_name(name) && !value.is_empty() {
        SECRET_PLACEHOLDER.into()
    } else if has_password(value) {
        shown_address(value).into()
    } else {
        shown_text(value)
    }
}

/// Returns the value of a label as it may be shown.
pub(crate) fn shown_label<'v>(name: &str, value: &'v str) -> Cow<'v, str> {
    match name.strip_prefix(PARAMETER_PREFIX) {
        Some(parameter) => shown_value(parameter, value),
        None if name == ADDRESS => shown_address(value).into(),
        None => shown_text(value),
    }
}

/// Returns an address as it may be shown. One that is a URL is a mistake, unless relabelling makes
/// a parameter of it.
pub(crate) fn shown_address(address: &str) -> String {
    const SCHEME: &str = "http://";
    if address.contains("://") {
        return without_secrets(address);
    }
    let shown = without_secrets(&format!("{SCHEME}{address}"));
    shown.trim_start_matches(SCHEME).to_owned()
}

/// Returns other text as it may be shown.
fn shown_text(value: &str) -> Cow<'_, str> {
    if value.contains("://") {
        without_secrets(value).into()
    } else {
        value.into()
    }
}

/// Returns `true` for `user:password@host`, an address without a scheme.
fn has_password(value: &str) -> bool {
    let user = value.split_once('@').map(|(user, _)| user);
    user.is_some_and(|user| user.contains(':') && !user.contains(['/', ' ']))
}

/// Reports texts with a placeholder in them, which would be used as they are.
pub(super) fn refuse_placeholder<'t>(
    fields: &Fields<'_>,
    key: &'static str,
    texts: impl IntoIterator<Item = &'t String>,
) {
    let mut texts = texts.into_iter();
    if texts.any(|text| text.contains(SECRET_PLACEHOLDER)) {
        fields.report(key, NO_PLACEHOLDER);
    }
}
