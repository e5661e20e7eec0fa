//! What a body has to be.

use crate::error::Error;
use crate::json::Json;
use crate::request::Request;

/// The body as JSON; it must not be empty.
pub(super) fn required_json(request: &Request) -> Result<Json<'_>, Error> {
    if !request.has_content() {
        let details = "Supply valid JSON formatted data in the body of your request";
        return Err(Error::bad_request("Missing message content").with_details(details));
    }
    request.json()
}

/// The body does not have the expected form.
pub(super) fn unparsable(details: impl Into<String>) -> Error {
    Error::bad_request("Unable to parse the given JSON").with_details(details)
}
