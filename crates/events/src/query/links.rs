//! Links of an answer to other pages: each has the whole body of the request for it.

use serde_json::{Map, Value, json};

pub(crate) struct Links {
    pub(crate) href: &'static str,
    /// The request.
    pub(crate) body: Map<String, Value>,
    pub(crate) offset: usize,
    pub(crate) limit: usize,
    /// Of what is counted by offset and limit.
    pub(crate) total: usize,
}

impl Links {
    /// `"links":{…}`.
    pub(crate) fn write(&self, out: &mut String) {
        let Self {
            offset,
            limit,
            total,
            ..
        } = *self;
        let last = total.saturating_sub(1) / limit.max(1) * limit;
        let next = offset.saturating_add(limit);
        let mut links = Map::new();
        let mut link = |name: &str, offset: usize| {
            links.insert(name.into(), self.link(offset));
        };
        link("self", offset);
        link("first", 0);
        if offset > 0 {
            link("prev", offset.saturating_sub(limit));
        }
        if next < total {
            link("next", next);
        }
        link("last", last);
        out.push_str("\"links\":");
        out.push_str(&Value::Object(links).to_string());
    }

    fn link(&self, offset: usize) -> Value {
        let mut body = self.body.clone();
        let limits = json!({ "offset": offset, "limit": self.limit });
        body.insert("limits".into(), limits);
        json!({ "href": self.href, "method": "POST", "body": body })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offsets(offset: usize, limit: usize, total: usize) -> Vec<(String, u64)> {
        let mut text = "{".to_owned();
        let links = Links {
            href: "/api",
            body: json!({"a": 1, "limits": {"limit": 7}})
                .as_object()
                .unwrap()
                .clone(),
            offset,
            limit,
            total,
        };
        links.write(&mut text);
        text.push('}');
        let written: Value = serde_json::from_str(&text).unwrap();
        let links = written["links"].as_object().unwrap().iter();
        let of = |(name, link): (&String, &Value)| {
            assert_eq!(
                (&link["href"], &link["method"]),
                (&json!("/api"), &json!("POST"))
            );
            assert_eq!(
                (&link["body"]["a"], &link["body"]["limits"]["limit"]),
                (&json!(1), &json!(limit))
            );
            (
                name.clone(),
                link["body"]["limits"]["offset"].as_u64().unwrap(),
            )
        };
        links.map(of).collect()
    }

    fn pairs(pairs: &[(&str, u64)]) -> Vec<(String, u64)> {
        pairs
            .iter()
            .map(|(name, at)| ((*name).to_owned(), *at))
            .collect()
    }

    #[test]
    fn pages_before_and_behind() {
        let middle = [
            ("first", 0),
            ("last", 20),
            ("next", 20),
            ("prev", 0),
            ("self", 10),
        ];
        assert_eq!(offsets(10, 10, 25), pairs(&middle));
        let only = [("first", 0), ("last", 0), ("self", 0)];
        assert_eq!(offsets(0, 10, 10), pairs(&only));
        assert_eq!(offsets(0, 10, 0), pairs(&only));
        let beyond = [("first", 0), ("last", 0), ("prev", 90), ("self", 100)];
        assert_eq!(offsets(100, 10, 3), pairs(&beyond));
    }
}
