//! Replays a group, and counts.

use serde_json::Value;

use crate::compare::{Answer, differences};
use crate::deviations::{Place, reason};
use crate::recording::Group;
use crate::request::{Request, with_times};

/// How many answers are the recorded ones.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    pub agree: usize,
    /// On purpose: there is a list with reasons.
    pub deviate: usize,
    /// In words, each with its request; also answers that are as recorded and listed all the same.
    pub differ: Vec<String>,
}

impl Tally {
    pub fn add(&mut self, mut other: Self) {
        self.agree += other.agree;
        self.deviate += other.deviate;
        self.differ.append(&mut other.differ);
    }
}

/// Sends all steps of a group to something that is empty; `now_s` is the time it has.
pub fn replay(
    group: &Group,
    place: Place,
    now_s: i64,
    mut send: impl FnMut(&Request) -> Answer,
) -> Tally {
    let mut tally = Tally::default();
    for (i, step) in group.steps.iter().enumerate() {
        let step = with_times(step, now_s);
        let mut found = differences(&step, &send(&Request::of(&step)));
        match (found.is_empty(), reason(place, &group.area, &group.name, i)) {
            (true, None) => {
                tally.agree += 1;
                continue;
            }
            (false, Some(_)) => {
                tally.deviate += 1;
                continue;
            }
            (true, Some(reason)) => {
                found.push(format!("agrees, but is listed as a deviation: {reason}"));
            }
            (false, None) => {}
        }
        let (area, name) = (&group.area, &group.name);
        let (request, found) = (in_words(&step), found.join("\n      "));
        let text = format!("{area}: {name} #{i} {request}\n      {found}");
        tally.differ.push(text);
    }
    tally
}

fn in_words(step: &Value) -> String {
    match step.get("telnet") {
        Some(lines) => lines.to_string(),
        None => format!("{} {}", step["method"], step["path"]),
    }
}
