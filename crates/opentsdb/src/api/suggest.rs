//! `/api/suggest` and `/suggest`: names that begin so.

use std::sync::Arc;

use http::Method;

use super::body::required_json;
use super::fields::Fields;
use crate::error::Error;
use crate::json::push_text;
use crate::json_object::push_array;
use crate::request::Request;
use crate::response::Response;
use crate::tsd::Tsd;
use crate::uid::UidKind;

/// Names without a `max`, or with one below 1.
const MAX_DEFAULT: usize = 25;

/// The most names of an answer, and their bytes, whatever `max` is.
const NAMES_MAX: usize = 1 << 16;
const NAME_BYTES_MAX: usize = 16 << 20;

/// Names that are looked at in one go.
const PORTION: usize = 1024;

/// What all names begin with that an empty prefix stands for: the original looks between these.
const FIRST: char = '!';
const LAST: char = '~';

pub(super) async fn handle(tsd: &Tsd, request: &Request) -> Result<Response, Error> {
    let fields = match request.method {
        Method::GET => Fields::Parameters(request),
        // A page has its parameters in its address.
        Method::POST if request.is_page() => Fields::Parameters(request),
        Method::POST => Fields::of_json(required_json(request)?)?,
        _ => return Err(Error::method_not_allowed(&request.method)),
    };
    let kind = match fields {
        Fields::Parameters(request) => request.required("type")?.to_owned(),
        Fields::Body(_) => {
            let kind = fields.filled("type", "type")?;
            kind.ok_or_else(|| Error::bad_request("Missing 'type' parameter"))?
        }
    };
    let prefix = fields.text("q", "q")?.unwrap_or_default();
    let max = fields.filled("max", "max")?.map(|max| max.parse::<i32>());
    let max = max
        .transpose()
        .map_err(|_| Error::bad_request("Unable to parse 'max' as a number"))?;
    let max = names_wanted(max);
    let mut kinds = UidKind::ALL.into_iter();
    let Some(kind) = kinds.find(|known| known.table_name() == kind) else {
        return Err(Error::bad_request(format!(
            "Invalid 'type' parameter:{kind}"
        )));
    };
    let index = tsd.stores.labels.as_ref();
    let elapsed_ms = tsd.clock.elapsed_ms();
    let labels = tsd.label_names.get(index, kind, elapsed_ms).await?;
    let own = own_names(tsd, kind, &prefix, max);
    let others = other_names(tsd, kind, &labels, &prefix, max);
    let names = merged(own.iter().map(AsRef::as_ref), others.into_iter());
    let mut bytes = 0;
    let names = names.take(max).take_while(|name| {
        bytes += name.len();
        bytes <= NAME_BYTES_MAX
    });
    let mut out = String::new();
    push_array(&mut out, names, push_text);
    Ok(Response::json(out))
}

/// How many names an answer has at most.
fn names_wanted(max: Option<i32>) -> usize {
    let max = max.and_then(|max| usize::try_from(max).ok());
    let max = max.filter(|max| *max > 0).unwrap_or(MAX_DEFAULT);
    max.min(NAMES_MAX)
}

/// Whether a name is among those that a prefix stands for.
fn is_within(prefix: &str, name: &str) -> bool {
    !prefix.is_empty() || name.starts_with(|first| (FIRST..LAST).contains(&first))
}

/// Names that have a UID. Writers wait for a portion at most.
fn own_names(tsd: &Tsd, kind: UidKind, prefix: &str, max: usize) -> Vec<Arc<str>> {
    let mut names: Vec<Arc<str>> = Vec::new();
    let mut last: Option<Arc<str>> = None;
    while names.len() < max {
        let portion: Vec<Arc<str>> = {
            let space = tsd.uids.read(kind);
            let names = space.names_behind(prefix, last.as_deref());
            names.take(PORTION).cloned().collect()
        };
        let Some(end) = portion.last() else { break };
        last = Some(Arc::clone(end));
        names.extend(portion.into_iter().filter(|name| is_within(prefix, name)));
    }
    names
}

/// Names of Prometheus clients. What was renamed is known by its present name.
fn other_names<'a>(
    tsd: &Tsd,
    kind: UidKind,
    labels: &'a [String],
    prefix: &'a str,
    max: usize,
) -> Vec<&'a str> {
    let mut names = Vec::new();
    let mut candidates = starting_with(labels, prefix).filter(|name| is_within(prefix, name));
    while names.len() < max {
        let portion: Vec<&str> = candidates.by_ref().take(PORTION).collect();
        if portion.is_empty() {
            break;
        }
        let space = tsd.uids.read(kind);
        let current = portion.into_iter();
        names.extend(current.filter(|name| space.current_name(name).is_none()));
    }
    names
}

/// Names of a sorted list that begin with a prefix.
fn starting_with<'a>(names: &'a [String], prefix: &'a str) -> impl Iterator<Item = &'a str> {
    let start = names.partition_point(|name| name.as_str() < prefix);
    let from = names[start..].iter().map(String::as_str);
    from.take_while(move |name| name.starts_with(prefix))
}

/// The names of two sorted lists, each once, sorted.
fn merged<'a>(
    a: impl Iterator<Item = &'a str>,
    b: impl Iterator<Item = &'a str>,
) -> impl Iterator<Item = &'a str> {
    let (mut a, mut b) = (a.peekable(), b.peekable());
    std::iter::from_fn(move || match (a.peek().copied(), b.peek().copied()) {
        (Some(x), Some(y)) if x < y => a.next(),
        (Some(x), Some(y)) if x == y => {
            a.next();
            b.next()
        }
        (Some(_), None) => a.next(),
        _ => b.next(),
    })
}

#[cfg(test)]
mod tests {
    use futures::executor::block_on;
    use http::HeaderMap;
    use icecore_model::ManualClock;

    use super::*;
    use crate::config::Config;
    use crate::telnet::Session;
    use crate::testing::MemoryStore;

    #[test]
    fn answers_have_a_limit() {
        for (max, expected) in [
            (None, MAX_DEFAULT),
            (Some(-1), MAX_DEFAULT),
            (Some(0), MAX_DEFAULT),
            (Some(3000), 3000),
            (Some(i32::MAX), NAMES_MAX),
        ] {
            assert_eq!(names_wanted(max), expected, "{max:?}");
        }
    }

    #[test]
    fn a_page_has_its_parameters_in_its_address() {
        let clock = Arc::new(ManualClock::at(0));
        let tsd = Tsd::open(Config::default(), MemoryStore::stores(), clock);
        let tsd = block_on(tsd).unwrap();
        for (target, expected) in [("/suggest?type=metrics", true), ("/api/suggest", false)] {
            let request = Request::new(Method::POST, target, HeaderMap::new(), "x".into());
            assert_eq!(
                block_on(handle(&tsd, &request)).is_ok(),
                expected,
                "{target}"
            );
        }
    }

    #[test]
    fn portions_make_a_whole() {
        let config = Config {
            auto_create_metrics: true,
            ..Config::default()
        };
        let clock = Arc::new(ManualClock::at(0));
        let tsd = block_on(Tsd::open(config, MemoryStore::stores(), clock)).unwrap();
        let all: Vec<String> = (0..3 * PORTION).map(|i| format!("m.{i:05}")).collect();
        let lines: String = all.iter().map(|m| format!("put {m} 1 1 h=a\n")).collect();
        let mut session = Session::new(&tsd);
        assert!(!block_on(session.feed(lines.as_bytes())).has_more);
        block_on(session.feed(b"put z 1 1 h=a\n"));
        for (max, expected) in [(5000, all.len()), (2000, 2000), (PORTION, PORTION)] {
            let target = format!("/api/suggest?type=metrics&q=m.&max={max}");
            let request = Request::new(Method::GET, &target, HeaderMap::new(), "".into());
            let response = block_on(handle(&tsd, &request)).unwrap();
            let mut json = String::new();
            push_array(
                &mut json,
                all[..expected].iter().map(String::as_str),
                push_text,
            );
            assert_eq!(String::from_utf8(response.body).unwrap(), json, "{max}");
        }
    }
}
