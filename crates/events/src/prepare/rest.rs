//! What of an envelope is kept and never asked for, as one JSON object.

use crate::json_text::push_string;
use crate::{Envelope, EventBody};

/// Empty if there is nothing.
pub(super) fn of_envelope(envelope: &Envelope<'_>) -> String {
    let mut rest = Rest::default();
    rest.json("resource", &envelope.resource);
    rest.body(&envelope.body);
    rest.text("traceState", envelope.trace_state.as_deref());
    rest.finish()
}

pub(super) fn of_nested(body: &EventBody<'_>) -> String {
    let mut rest = Rest::default();
    rest.body(body);
    rest.finish()
}

/// An object in the making.
#[derive(Default)]
struct Rest {
    text: String,
}

impl Rest {
    fn body(&mut self, body: &EventBody<'_>) {
        self.json("links", &body.links);
        let mut status = Self::default();
        status.text("code", body.status_code.as_deref());
        status.text("message", body.status_message.as_deref());
        self.json("status", &status.finish());
    }

    fn json(&mut self, key: &str, json: &str) {
        if !json.is_empty() {
            self.key(key);
            self.text.push_str(json);
        }
    }

    fn text(&mut self, key: &str, text: Option<&str>) {
        if let Some(text) = text {
            self.key(key);
            push_string(&mut self.text, text);
        }
    }

    fn key(&mut self, key: &str) {
        self.text.push(if self.text.is_empty() { '{' } else { ',' });
        push_string(&mut self.text, key);
        self.text.push(':');
    }

    fn finish(mut self) -> String {
        if !self.text.is_empty() {
            self.text.push('}');
        }
        self.text
    }
}
