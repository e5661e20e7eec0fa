//! Links of an answer to other pages: each has the whole body of the request for it.

use serde_json::{Map, Value, json};

use super::HREF;
use super::request::SearchRequest;

pub(super) struct Links<'a> {
    pub(super) request: &'a SearchRequest,
    pub(super) total: Option<u64>,
    /// Where the next page goes on, if there is one.
    pub(super) next: Option<String>,
}

impl Links<'_> {
    pub(super) fn json(&self) -> Value {
        let (offset, limit) = (self.request.offset, self.request.limit);
        let mut links = Map::new();
        let own = self.request.body.get("cursor").cloned();
        links.insert("self".into(), self.link(offset, own));
        links.insert("first".into(), self.link(0, None));
        if offset > 0 {
            let before = self.link(offset.saturating_sub(limit), None);
            links.insert("prev".into(), before);
        }
        if let Some(cursor) = &self.next {
            let next = self.link(offset.saturating_add(limit), Some(json!(cursor)));
            links.insert("next".into(), next);
        }
        if let Some(total) = self.total {
            let total = usize::try_from(total).unwrap_or(usize::MAX);
            let last = total.saturating_sub(1) / limit * limit;
            links.insert("last".into(), self.link(last, None));
        }
        Value::Object(links)
    }

    fn link(&self, offset: usize, cursor: Option<Value>) -> Value {
        let mut body = self.request.body.clone();
        body.insert("offset".into(), json!(offset));
        body.insert("limit".into(), json!(self.request.limit));
        match cursor {
            Some(cursor) => body.insert("cursor".into(), cursor),
            None => body.remove("cursor"),
        };
        json!({ "href": HREF, "method": "POST", "body": body })
    }
}
