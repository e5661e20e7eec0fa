//! A client that edits meta data, annotations and a tree.

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};

use super::Life;
use crate::http::Client;
use crate::opentsdb::get;

/// Annotations that are made one after the other begin here.
const NOTES_START_S: i64 = 1_400_000_000;

/// Something with a text that is changed again and again.
struct Edited {
    write: &'static str,
    body: Json,
    field: &'static str,
    read: String,
    acknowledged: String,
    /// Texts of requests without an answer.
    possible: Vec<String>,
}

#[derive(Default)]
pub(super) struct Editor {
    edited: Vec<Edited>,
    /// Counts edits, and makes their texts.
    count: usize,
    acknowledged: usize,
    /// The time of an annotation, and its text.
    notes: BTreeMap<i64, String>,
    possible_notes: BTreeMap<i64, String>,
}

impl Editor {
    pub(super) fn acknowledged(&self) -> usize {
        self.acknowledged
    }

    /// Makes what is edited later, and the tree that the points of others grow.
    pub(super) fn prepare(&mut self, client: &mut Client) {
        post(
            client,
            "/api/tree",
            &json!({"name": "crash", "enabled": true, "storeFailures": true}),
        );
        let rules = json!([
            {"treeId": 1, "level": 0, "order": 0, "type": "METRIC"},
            {"treeId": 1, "level": 1, "order": 0, "type": "TAGK", "field": "s"},
        ]);
        post(client, "/api/tree/rules", &rules);
        let point = json!({"metric": "edited", "timestamp": 1_500_000_000, "value": 1,
                           "tags": {"host": "a", "s": "first"}});
        post(client, "/api/put", &point);
        let metas = get(client, "/api/uid/tsmeta?m=edited%7Bhost=a%7D");
        let (tsuid, metric) = (metas[0]["tsuid"].clone(), metas[0]["metric"]["uid"].clone());
        let tsuid_text = tsuid.as_str().expect("text");
        let mut add = |write, body, field, read: String| {
            self.edited.push(Edited {
                write,
                body,
                field,
                read,
                acknowledged: String::new(),
                possible: Vec::new(),
            });
        };
        add(
            "/api/uid/uidmeta",
            json!({"type": "metric", "uid": metric}),
            "displayName",
            format!(
                "/api/uid/uidmeta?type=metric&uid={}",
                metric.as_str().expect("text")
            ),
        );
        add(
            "/api/uid/tsmeta",
            json!({"tsuid": tsuid}),
            "description",
            format!("/api/uid/tsmeta?tsuid={tsuid_text}"),
        );
        add(
            "/api/annotation",
            json!({"startTime": 1_500_000_000}),
            "notes",
            "/api/annotation?start_time=1500000000".into(),
        );
        add(
            "/api/annotation",
            json!({"startTime": 1_500_000_000, "tsuid": tsuid}),
            "notes",
            format!("/api/annotation?start_time=1500000000&tsuid={tsuid_text}"),
        );
        add(
            "/api/tree",
            json!({"treeId": 1}),
            "notes",
            "/api/tree?treeid=1".into(),
        );
        add(
            "/api/tree/rule",
            json!({"treeId": 1, "level": 1, "order": 0}),
            "notes",
            "/api/tree/rule?treeid=1&level=1&order=0".into(),
        );
        for edited in &mut self.edited {
            edited.acknowledged = "begin".into();
            post(client, edited.write, &edited.document("begin"));
        }
    }

    pub(super) fn run(&mut self, life: &Life) {
        let mut client = life.client();
        while life.goes_on() {
            self.count += 1;
            let text = format!("edit {}", self.count);
            let turn = self.count % (self.edited.len() + 1);
            let sent = match self.edited.get_mut(turn) {
                Some(edited) => edited.edit(&mut client, text),
                None => self.add_note(&mut client, text),
            };
            match sent {
                Some(true) => {
                    self.acknowledged += 1;
                    life.edits.note_acknowledged();
                }
                Some(false) => {}
                None => return,
            }
        }
    }

    fn add_note(&mut self, client: &mut Client, text: String) -> Option<bool> {
        let time_s = NOTES_START_S + self.count as i64;
        let document = json!({"startTime": time_s, "description": text});
        self.possible_notes.insert(time_s, text.clone());
        let acknowledged = send(client, "/api/annotation", &document)?;
        if acknowledged {
            self.possible_notes.remove(&time_s);
            self.notes.insert(time_s, text);
        }
        Some(acknowledged)
    }

    pub(super) fn verify(&mut self, client: &mut Client) {
        for edited in &mut self.edited {
            let found = get(client, &edited.read)[edited.field].clone();
            let found = found.as_str().expect("text").to_owned();
            let right = edited.acknowledged == found || edited.possible.contains(&found);
            let (expected, possible) = (&edited.acknowledged, &edited.possible);
            assert!(
                right,
                "{}: {found}, not {expected} or {possible:?}",
                edited.read
            );
            edited.acknowledged = found;
            edited.possible.clear();
        }
        let end = NOTES_START_S + self.count as i64 + 1;
        let path = format!("/api/annotations?start_time={NOTES_START_S}&end_time={end}");
        for note in get(client, &path).as_array().expect("a list") {
            let time_s = note["startTime"].as_i64().expect("a time");
            let text = note["description"].as_str().expect("text").to_owned();
            if let Some(possible) = self.possible_notes.remove(&time_s) {
                self.notes.insert(time_s, possible);
            }
            let known = self.notes.get(&time_s);
            assert_eq!(known, Some(&text), "an annotation at {time_s}");
        }
        self.possible_notes.clear();
        let found = get(client, &path).as_array().expect("a list").len();
        assert_eq!(found, self.notes.len(), "annotations, each once");
    }
}

impl Edited {
    fn document(&self, text: &str) -> Json {
        let mut document = self.body.clone();
        document[self.field] = text.into();
        document
    }

    fn edit(&mut self, client: &mut Client, text: String) -> Option<bool> {
        self.possible.push(text.clone());
        let acknowledged = send(client, self.write, &self.document(&text))?;
        if acknowledged {
            self.possible.clear();
            self.acknowledged = text;
        }
        Some(acknowledged)
    }
}

/// Whether a document is stored; `None` when nobody answers.
fn send(client: &mut Client, path: &str, document: &Json) -> Option<bool> {
    let answer = client
        .post(path, &[], document.to_string().as_bytes())
        .ok()?;
    let right = answer.is_success() || answer.status == 503;
    assert!(
        right,
        "{path} {document}: {} {}",
        answer.status,
        answer.text()
    );
    Some(answer.is_success())
}

fn post(client: &mut Client, path: &str, document: &Json) {
    assert_eq!(
        send(client, path, document),
        Some(true),
        "{path} {document}"
    );
}
