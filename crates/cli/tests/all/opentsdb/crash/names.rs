//! UIDs: one for each name, and one name for each.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value as Json, json};

use super::Life;
use crate::http::Client;
use crate::opentsdb::get;

/// Kinds as `assign` and `suggest` call them.
const KINDS: [(&str, &str); 3] = [("metric", "metrics"), ("tagk", "tagk"), ("tagv", "tagv")];

/// Between two requests, so that looking at all names stays quick.
const PAUSE: Duration = Duration::from_millis(30);

/// Kind and name.
type Named = (&'static str, String);

/// A client that asks for UIDs.
#[derive(Default)]
pub(super) struct Assigner {
    count: usize,
    assigned: Vec<(Named, String)>,
}

impl Assigner {
    pub(super) fn run(&mut self, life: &Life) {
        let mut client = life.client();
        while life.goes_on() {
            let names: Vec<String> = (0..3).map(|i| format!("name.{}", self.count + i)).collect();
            self.count += names.len();
            let body = KINDS.map(|(kind, _)| (kind.to_owned(), json!(names)));
            let body = Json::Object(body.into_iter().collect()).to_string();
            let Ok(answer) = client.post("/api/uid/assign", &[], body.as_bytes()) else {
                return;
            };
            if answer.status == 503 {
                continue;
            }
            self.assigned.extend(uids_in(&answer.body));
            life.names.note_acknowledged();
            std::thread::sleep(PAUSE);
        }
    }

    /// What this client was told.
    pub(super) fn take(&mut self) -> Vec<(Named, String)> {
        std::mem::take(&mut self.assigned)
    }
}

/// The UIDs in an answer of `assign`: new ones, and those that names had before.
fn uids_in(body: &[u8]) -> Vec<(Named, String)> {
    let answer: Json = serde_json::from_slice(body).expect("JSON");
    let mut uids = Vec::new();
    for (kind, _) in KINDS {
        let members = |name: &str| {
            answer
                .get(name)
                .and_then(Json::as_object)
                .into_iter()
                .flatten()
        };
        for (name, uid) in members(kind) {
            uids.push(((kind, name.clone()), uid.as_str().expect("text").to_owned()));
        }
        for (name, error) in members(&format!("{kind}_errors")) {
            let error = error.as_str().expect("text");
            let uid = error.strip_prefix("Name already exists with UID: ");
            let uid = uid.unwrap_or_else(|| panic!("{name}: {error}"));
            uids.push(((kind, name.clone()), uid.to_owned()));
        }
    }
    uids
}

/// What is known of all names, over all lives.
#[derive(Default)]
pub(super) struct Names {
    uids: BTreeMap<Named, String>,
    names: BTreeMap<(&'static str, String), String>,
}

impl Names {
    pub(super) fn count(&self) -> usize {
        self.uids.len()
    }

    /// What clients were told before, and what the process says now, must fit together.
    pub(super) fn verify(&mut self, client: &mut Client, told: Vec<(Named, String)>) {
        for (named, uid) in told {
            self.learn(named, uid);
        }
        let mut listed: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for (kind, list) in KINDS {
            let names = get(client, &format!("/api/suggest?type={list}&q=&max=1000000"));
            let names: Vec<String> = serde_json::from_value(names).expect("a list of names");
            listed.insert(kind, names);
        }
        let known = self.uids.keys();
        let lost: Vec<_> = known
            .filter(|(kind, name)| !listed[kind].contains(name))
            .collect();
        assert!(lost.is_empty(), "names are gone: {lost:?}");
        let body = json!(listed).to_string();
        let answer = client
            .post("/api/uid/assign", &[], body.as_bytes())
            .expect("it lives");
        let found = uids_in(&answer.body);
        let count: usize = listed.values().map(Vec::len).sum();
        assert_eq!(found.len(), count, "each listed name has a UID");
        for ((kind, name), uid) in found {
            let meta = get(client, &format!("/api/uid/uidmeta?type={kind}&uid={uid}"));
            assert_eq!(meta["name"], name, "{kind} {uid}");
            self.learn((kind, name), uid);
        }
    }

    fn learn(&mut self, named: Named, uid: String) {
        let (kind, name) = &named;
        let owner = self
            .names
            .entry((kind, uid.clone()))
            .or_insert_with(|| name.clone());
        assert_eq!(owner, name, "{kind} {uid} names two things");
        let known = self
            .uids
            .entry(named.clone())
            .or_insert_with(|| uid.clone());
        assert_eq!(*known, uid, "{named:?} has two UIDs");
    }
}
