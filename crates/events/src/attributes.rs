//! The attributes of an event: paths and values.
//!
//! `{"http": {"status": 200}}` and `{"http.status": 200}` are the same attribute, so objects are
//! taken apart as they are read: what is kept is a list of leaves, sorted by path.
//!
//! Holds always:
//! - Each path is there once, and no path is both a value and an object.
//! - All paths below an object follow one another.

use std::borrow::Cow;

use crate::Problem;

/// A single value.
#[derive(Clone, Debug, PartialEq)]
pub enum Scalar<'a> {
    Text(Cow<'a, str>),
    Integer(i64),
    Number(f64),
    Boolean(bool),
}

/// What an attribute has.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> {
    /// As good as absent, but returned as it was sent.
    Null,
    Scalar(Scalar<'a>),
    List(Vec<Scalar<'a>>),
    /// A list with objects, lists or nulls in it, as JSON text: kept and returned, never of a
    /// declared type, never compared.
    Json(Cow<'a, str>),
}

/// A path and what it has.
pub type Leaf<'a> = (Cow<'a, str>, Value<'a>);

/// All attributes of an event, sorted by path, each path once.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Attributes<'a> {
    leaves: Vec<Leaf<'a>>,
}

impl<'a> Attributes<'a> {
    /// From leaves in the order of the document: of one path the last one counts.
    pub fn from_leaves(mut leaves: Vec<Leaf<'a>>) -> Result<Self, Problem> {
        leaves.sort_by(|(a, _), (b, _)| a.cmp(b));
        // Sorting is stable: the later spelling is the second one, and takes the place of the
        // first.
        leaves.dedup_by(|second, first| {
            let same = second.0 == first.0;
            if same {
                std::mem::swap(second, first);
            }
            same
        });
        match conflict(&leaves) {
            Some(path) => Err(Problem::new(
                400,
                "ingest.attribute-conflict",
                format!("attribute {path} is both a value and an object"),
            )),
            None => Ok(Self { leaves }),
        }
    }

    /// From leaves that are sorted and without conflicts, or nothing.
    pub(crate) fn from_sorted(leaves: Vec<Leaf<'a>>) -> Option<Self> {
        let sorted = leaves.windows(2).all(|pair| pair[0].0 < pair[1].0);
        (sorted && conflict(&leaves).is_none()).then_some(Self { leaves })
    }

    pub fn len(&self) -> usize {
        self.leaves.len()
    }

    pub fn is_empty(&self) -> bool {
        self.leaves.is_empty()
    }

    /// The value at a path, if it is a leaf.
    pub fn get(&self, path: &str) -> Option<&Value<'a>> {
        let found = self.leaves.binary_search_by(|(at, _)| (**at).cmp(path));
        found.ok().map(|at| &self.leaves[at].1)
    }

    /// The single value at a path.
    pub fn scalar(&self, path: &str) -> Option<&Scalar<'a>> {
        match self.get(path)? {
            Value::Scalar(scalar) => Some(scalar),
            _ => None,
        }
    }

    /// The text at a path.
    pub fn text(&self, path: &str) -> Option<&str> {
        match self.scalar(path)? {
            Scalar::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Whether a path has a value other than null, or is an object that is not empty.
    pub fn has(&self, path: &str) -> bool {
        let is_value = self.get(path).is_some_and(|value| *value != Value::Null);
        is_value || !self.below(path).is_empty()
    }

    /// All leaves in order of their paths.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Value<'a>)> {
        self.leaves.iter().map(|(path, value)| (&**path, value))
    }

    pub fn into_leaves(self) -> Vec<Leaf<'a>> {
        self.leaves
    }

    pub(crate) fn leaves_mut(&mut self) -> impl Iterator<Item = (&str, &mut Value<'a>)> {
        self.leaves.iter_mut().map(|(path, value)| (&**path, value))
    }

    /// Removes a leaf, or an object with everything in it.
    pub fn remove(&mut self, path: &str) {
        let below = self.below(path);
        self.leaves.drain(below);
        if let Ok(at) = self.leaves.binary_search_by(|(at, _)| (**at).cmp(path)) {
            self.leaves.remove(at);
        }
    }

    /// Changes the value of a leaf, or of all leaves of an object.
    pub fn change(&mut self, path: &str, mut change: impl FnMut(&mut Value<'a>)) {
        let below = self.below(path);
        let found = self.leaves.binary_search_by(|(at, _)| (**at).cmp(path));
        if let Ok(at) = found {
            change(&mut self.leaves[at].1);
        }
        self.leaves[below]
            .iter_mut()
            .for_each(|(_, value)| change(value));
    }

    /// The leaf that a path leads into: the one whose own path it goes on from.
    pub(crate) fn leaf_above_mut<'p>(
        &mut self,
        path: &'p str,
    ) -> Option<(&'p str, &mut Value<'a>)> {
        let dots = path.bytes().enumerate().filter(|(_, byte)| *byte == b'.');
        for (dot, _) in dots {
            let found = self
                .leaves
                .binary_search_by(|(at, _)| (**at).cmp(&path[..dot]));
            if let Ok(at) = found {
                return Some((&path[dot + 1..], &mut self.leaves[at].1));
            }
        }
        None
    }

    /// Where the leaves of an object are.
    fn below(&self, path: &str) -> std::ops::Range<usize> {
        let rest_of = |at: &str| {
            at.strip_prefix(path)
                .map(|rest| rest.as_bytes().first() == Some(&b'.'))
        };
        let start = self.leaves.partition_point(|(at, _)| {
            // Before `path.`: less than the path, or the path itself, or with a byte before the
            // dot.
            match at.strip_prefix(path) {
                Some(rest) => rest.as_bytes().first().is_none_or(|byte| *byte < b'.'),
                None => **at < *path,
            }
        });
        let length = self.leaves[start..]
            .iter()
            .take_while(|(at, _)| rest_of(at) == Some(true))
            .count();
        start..start + length
    }

    /// About how much memory they take.
    pub(crate) fn heap_bytes(&self) -> usize {
        let scalar_bytes = |scalar: &Scalar<'_>| match scalar {
            Scalar::Text(text) => text.len(),
            _ => 0,
        };
        let leaf_bytes = |(path, value): &Leaf<'_>| {
            let value = match value {
                Value::Null => 0,
                Value::Scalar(scalar) => scalar_bytes(scalar),
                Value::List(list) => {
                    size_of_val(&list[..]) + list.iter().map(scalar_bytes).sum::<usize>()
                }
                Value::Json(text) => text.len(),
            };
            path.len() + value
        };
        size_of_val(&self.leaves[..]) + self.leaves.iter().map(leaf_bytes).sum::<usize>()
    }

    pub fn into_owned(self) -> Attributes<'static> {
        let owned = |(path, value): Leaf<'a>| (Cow::Owned(path.into_owned()), value.into_owned());
        Attributes {
            leaves: self.leaves.into_iter().map(owned).collect(),
        }
    }
}

/// The path of a value that is also the start of another path. What lies between a path and the
/// paths below it in order begins with that path, too: so a stack of such beginnings is enough.
fn conflict<'l>(leaves: &'l [Leaf<'_>]) -> Option<&'l str> {
    let mut beginnings: Vec<&str> = Vec::new();
    for (path, _) in leaves {
        while beginnings
            .last()
            .is_some_and(|beginning| !path.starts_with(beginning))
        {
            beginnings.pop();
        }
        let is_below = |beginning: &&&str| path.as_bytes().get(beginning.len()) == Some(&b'.');
        if let Some(beginning) = beginnings.iter().find(is_below) {
            return Some(beginning);
        }
        beginnings.push(path);
    }
    None
}

impl<'a> Value<'a> {
    pub fn into_owned(self) -> Value<'static> {
        match self {
            Self::Null => Value::Null,
            Self::Scalar(scalar) => Value::Scalar(scalar.into_owned()),
            Self::List(list) => Value::List(list.into_iter().map(Scalar::into_owned).collect()),
            Self::Json(text) => Value::Json(Cow::Owned(text.into_owned())),
        }
    }
}

impl<'a> Scalar<'a> {
    pub fn into_owned(self) -> Scalar<'static> {
        match self {
            Self::Text(text) => Scalar::Text(Cow::Owned(text.into_owned())),
            Self::Integer(integer) => Scalar::Integer(integer),
            Self::Number(number) => Scalar::Number(number),
            Self::Boolean(boolean) => Scalar::Boolean(boolean),
        }
    }

    /// The text of a value, without its type: what dimensions, labels and masks are made of.
    /// Numbers have the shortest digits that read back as the same number, whole ones no fraction.
    pub fn to_text(&self) -> Cow<'_, str> {
        match self {
            Self::Text(text) => Cow::Borrowed(text),
            Self::Integer(integer) => Cow::Owned(integer.to_string()),
            Self::Number(number) => Cow::Owned(number_text(*number)),
            Self::Boolean(true) => Cow::Borrowed("true"),
            Self::Boolean(false) => Cow::Borrowed("false"),
        }
    }

    /// A number that is one, for comparisons. Text is never a number.
    pub fn as_number(&self) -> Option<f64> {
        match self {
            Self::Integer(integer) => Some(*integer as f64),
            Self::Number(number) => Some(*number),
            Self::Text(_) | Self::Boolean(_) => None,
        }
    }
}

fn number_text(number: f64) -> String {
    let mut buffer = zmij::Buffer::new();
    let text = buffer.format(number);
    match text.strip_suffix(".0") {
        // Zero is one value, whatever its sign.
        Some("-0") => "0".into(),
        Some(whole) => whole.into(),
        // `1e+300` is not the shortest.
        None => text.replace("e+", "e"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attributes(paths: &[(&'static str, i64)]) -> Result<Attributes<'static>, Problem> {
        let leaf = |(path, value): &(&'static str, i64)| {
            let value = Value::Scalar(Scalar::Integer(*value));
            (Cow::Borrowed(*path), value)
        };
        Attributes::from_leaves(paths.iter().map(leaf).collect())
    }

    fn paths(attributes: &Attributes<'_>) -> Vec<String> {
        attributes.iter().map(|(path, _)| path.into()).collect()
    }

    #[test]
    fn the_later_spelling_wins() {
        let found = attributes(&[("b", 1), ("a.x", 2), ("b", 3), ("b", 4)]).unwrap();
        assert_eq!(paths(&found), ["a.x", "b"]);
        assert_eq!(found.scalar("b"), Some(&Scalar::Integer(4)));
        assert_eq!(found.get("a"), None);
        assert!(found.has("a") && found.has("a.x") && !found.has("a.y"));
    }

    #[test]
    fn a_path_is_a_value_or_an_object() {
        for list in [
            &[("a", 1), ("a.b", 2)][..],
            &[("a.b", 2), ("a", 1)],
            &[("a", 1), ("a-b", 1), ("a-b-c", 3), ("a.b.c", 2)],
            &[("x.a", 1), ("x.a.b", 2), ("z", 1)],
        ] {
            let problem = attributes(list).unwrap_err();
            assert_eq!(
                (problem.status, problem.code),
                (400, "ingest.attribute-conflict")
            );
        }
        attributes(&[("a", 1), ("a-b", 1), ("ab.c", 2), ("a-b-c.d", 2)]).unwrap();
    }

    #[test]
    fn objects_are_changed_and_removed_as_a_whole() {
        let all = [
            ("a", 1),
            ("a-b.c", 2),
            ("ab", 3),
            ("c.d", 4),
            ("c.e.f", 5),
            ("c-d", 6),
        ];
        let mut found = attributes(&all).unwrap();
        found.change("c", |value| *value = Value::Null);
        assert!(!found.has("c.q") && found.get("c.d") == Some(&Value::Null));
        assert_eq!(found.get("c.e.f"), Some(&Value::Null));
        assert_eq!(found.scalar("c-d"), Some(&Scalar::Integer(6)));
        found.remove("c");
        assert_eq!(paths(&found), ["a", "a-b.c", "ab", "c-d"]);
        found.remove("a");
        found.remove("not there");
        assert_eq!(paths(&found), ["a-b.c", "ab", "c-d"]);
    }

    #[test]
    fn values_as_text() {
        for (scalar, text) in [
            (Scalar::Integer(-7), "-7"),
            (Scalar::Number(200.0), "200"),
            (Scalar::Number(-0.0), "0"),
            (Scalar::Number(41.5), "41.5"),
            (Scalar::Number(0.1), "0.1"),
            (Scalar::Number(1e300), "1e300"),
            (Scalar::Boolean(true), "true"),
            (Scalar::Text("  A ".into()), "  A "),
        ] {
            assert_eq!(scalar.to_text(), text);
        }
        let integer = Scalar::Integer(9_007_199_254_740_992);
        assert_eq!(
            integer.to_text(),
            Scalar::Number(9_007_199_254_740_992.0).to_text()
        );
    }
}
