//! The label bytes of a data point's series.
//!
//! Points of one metric nearly always have the same attribute names in the same order. So what
//! follows from the names is computed when they change: how they translate, which of them become
//! one label, which are overridden by labels of the resource, and the order of all. What is left
//! per point is copying values.
//!
//! ```text
//! attributes, base labels ─► LabelLayout ─► base bytes ─► + name, + le ─► sink
//!        when names change                    per point      per series
//! ```
//!
//! Holds always:
//! - Labels are sorted by name, and none is empty: equal label sets are equal bytes.
//! - A label of the resource or scope may override an attribute; a promoted one does not.
//! - What is written for one request is at most [`LABEL_BYTES_PER_REQUEST_MAX`].

use std::ops::Range;

use icecore_model::varint::{push_varint, varint_length};
use icecore_model::{METRIC_NAME, RawLabels, SampleSink};

use super::attributes::Attribute;
use super::label_names::label_name;
use super::translation::Translation;
use super::value::{common_string, push_text};
use crate::prometheus::protobuf::Result;

/// Bytes of labels that one request may expand to. A few bytes of a point repeat all labels of its
/// resource, so the size of the request is no bound. Storage refuses earlier; this bounds the time.
pub(super) const LABEL_BYTES_PER_REQUEST_MAX: usize = 256 << 20;

/// Bytes of labels that resource and scope may give to each series.
const BASE_BYTES_MAX: usize = 64 << 10;

/// The labels that a series of a histogram or summary has besides those of its point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExtraLabel {
    Le,
    Quantile,
}

impl ExtraLabel {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Le => "le",
            Self::Quantile => "quantile",
        }
    }
}

/// A label that comes from the resource or the scope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BaseLabel {
    pub(super) name: String,
    pub(super) value: Vec<u8>,
    /// Whether it overrides an attribute of the same name.
    pub(super) overrides: bool,
}

/// Labels of the current point, and the layout computed from its attribute names.
pub(super) struct Labels<'a> {
    /// Sorted by name; of the current scope.
    base: std::result::Result<Vec<BaseLabel>, String>,
    layout: LabelLayout<'a>,
    /// Labels of the point without its name and extra label.
    bytes: Vec<u8>,
    /// Where in `bytes` each slot begins, and where the last one ends.
    starts: Vec<usize>,
    series: Vec<u8>,
    text: Vec<u8>,
    bytes_left: usize,
}

/// What follows from the attribute names of a point and the labels of its scope.
#[derive(Default)]
struct LabelLayout<'a> {
    keys: Vec<&'a [u8]>,
    /// False until it is computed for the current scope.
    valid: bool,
    slots: Vec<Slot>,
    /// Prefixes of labels, and whole labels of resource and scope.
    arena: Vec<u8>,
    /// Attributes that are joined, by position.
    joined: Vec<u32>,
    name: InsertPosition,
    le: InsertPosition,
    quantile: InsertPosition,
    problem: Option<String>,
}

/// Where a label that is not the point's own goes: before a slot, or in its place.
#[derive(Clone, Copy, Default)]
struct InsertPosition {
    slot: usize,
    replaces: bool,
}

enum Slot {
    /// A whole label.
    Fixed(Range<usize>),
    /// The prefix of a label, and the attribute with its value.
    Attribute(Range<usize>, usize),
    /// The prefix of a label, and a range of `joined`.
    Joined(Range<usize>, Range<usize>),
}

impl<'a> Labels<'a> {
    pub(super) fn new() -> Self {
        Self {
            base: Ok(Vec::new()),
            layout: LabelLayout::default(),
            bytes: Vec::new(),
            starts: Vec::new(),
            series: Vec::new(),
            text: Vec::new(),
            bytes_left: LABEL_BYTES_PER_REQUEST_MAX,
        }
    }

    /// Takes bytes from the budget of the request; an error when it is used up.
    pub(super) fn spend(&mut self, bytes: usize) -> std::result::Result<(), String> {
        match self.bytes_left.checked_sub(bytes) {
            Some(left) => {
                self.bytes_left = left;
                Ok(())
            }
            None => {
                self.bytes_left = 0;
                Err(format!(
                    "more than {LABEL_BYTES_PER_REQUEST_MAX} bytes of labels in one request: split it"
                ))
            }
        }
    }

    /// Begins another scope. `base` is sorted by name, each name once.
    pub(super) fn set_base(&mut self, base: std::result::Result<Vec<BaseLabel>, String>) {
        self.base = base.and_then(|base| {
            let bytes: usize = base.iter().map(|b| b.name.len() + b.value.len()).sum();
            match bytes {
                0..=BASE_BYTES_MAX => Ok(base),
                _ => Err(format!(
                    "resource and scope give each series {bytes} bytes of labels, more than {BASE_BYTES_MAX}"
                )),
            }
        });
        self.layout.valid = false;
    }

    /// Takes the attributes of the next point. The inner error is why it is refused.
    pub(super) fn set_point(
        &mut self,
        translation: &Translation,
        attributes: &[Attribute<'a>],
    ) -> Result<std::result::Result<(), String>> {
        if self.bytes_left == 0 {
            return Ok(self.spend(1));
        }
        if !self.layout.fits(attributes) {
            let base = match &self.base {
                Ok(base) => base,
                Err(reason) => return Ok(Err(reason.clone())),
            };
            self.layout.compute(translation, attributes, base);
            let spent = self.layout.arena.len();
            if let Err(reason) = self.spend(spent) {
                return Ok(Err(reason));
            }
        }
        if let Some(problem) = &self.layout.problem {
            return Ok(Err(problem.clone()));
        }
        self.write_values(attributes)
    }

    fn write_values(
        &mut self,
        attributes: &[Attribute<'a>],
    ) -> Result<std::result::Result<(), String>> {
        let LabelLayout {
            slots,
            arena,
            joined,
            ..
        } = &self.layout;
        let value_of = |index: usize| attributes.get(index).map_or(&[][..], |a| a.value);
        self.bytes.clear();
        self.starts.clear();
        for slot in slots {
            self.starts.push(self.bytes.len());
            let (prefix, indexes) = match slot {
                Slot::Fixed(label) => {
                    self.bytes.extend_from_slice(slice(arena, label));
                    continue;
                }
                Slot::Attribute(prefix, index) => {
                    let prefix = slice(arena, prefix);
                    if let Some(text) = common_string(value_of(*index)) {
                        push_with_prefix(&mut self.bytes, prefix, text);
                        continue;
                    }
                    self.text.clear();
                    if !push_text(value_of(*index), &mut self.text)? {
                        return Ok(Err(too_deep()));
                    }
                    push_with_prefix(&mut self.bytes, prefix, &self.text);
                    continue;
                }
                Slot::Joined(prefix, range) => (
                    slice(arena, prefix),
                    joined.get(range.clone()).unwrap_or_default(),
                ),
            };
            self.text.clear();
            for (i, index) in indexes.iter().enumerate() {
                if i > 0 {
                    self.text.push(b';');
                }
                if !push_text(value_of(*index as usize), &mut self.text)? {
                    return Ok(Err(too_deep()));
                }
            }
            push_with_prefix(&mut self.bytes, prefix, &self.text);
        }
        self.starts.push(self.bytes.len());
        Ok(Ok(()))
    }

    /// Announces the series with this name and extra label, both encoded, for the current point.
    pub(super) fn announce(
        &mut self,
        sink: &mut impl SampleSink,
        name: &[u8],
        extra: Option<(ExtraLabel, &[u8])>,
    ) -> std::result::Result<(), String> {
        let name_at = self.bounds(self.layout.name).0;
        self.series.clear();
        self.series
            .extend_from_slice(between(&self.bytes, 0, name_at));
        self.series.extend_from_slice(name);
        let end = self.bytes.len();
        match extra {
            None => self
                .series
                .extend_from_slice(between(&self.bytes, name_at, end)),
            Some((extra, label)) => {
                let (before, after) = self.bounds(match extra {
                    ExtraLabel::Le => self.layout.le,
                    ExtraLabel::Quantile => self.layout.quantile,
                });
                self.series
                    .extend_from_slice(between(&self.bytes, name_at, before));
                self.series.extend_from_slice(label);
                self.series
                    .extend_from_slice(between(&self.bytes, after, end));
            }
        }
        self.spend(self.series.len())?;
        // The guess may be a series whose labels are a prefix of these.
        if sink.guess_series(&self.series) != Some(self.series.len()) {
            sink.series(RawLabels(&self.series));
        }
        Ok(())
    }

    /// Where the bytes before and after a label that goes to `position` end and begin.
    fn bounds(&self, position: InsertPosition) -> (usize, usize) {
        let start = |slot: usize| self.starts.get(slot).copied().unwrap_or(self.bytes.len());
        let before = start(position.slot);
        let after = if position.replaces {
            start(position.slot + 1)
        } else {
            before
        };
        (before, after)
    }
}

impl<'a> LabelLayout<'a> {
    /// Whether it was computed for attributes of these names.
    #[inline]
    fn fits(&self, attributes: &[Attribute<'a>]) -> bool {
        self.valid
            && self.keys.len() == attributes.len()
            && std::iter::zip(&self.keys, attributes).all(|(key, a)| *key == a.key)
    }

    fn compute(
        &mut self,
        translation: &Translation,
        attributes: &[Attribute<'a>],
        base: &[BaseLabel],
    ) {
        self.keys.clear();
        self.keys.extend(attributes.iter().map(|a| a.key));
        self.valid = true;
        self.slots.clear();
        self.arena.clear();
        self.joined.clear();
        self.problem = None;
        [self.name, self.le, self.quantile] = [InsertPosition::default(); 3];
        let mut names = Vec::with_capacity(attributes.len());
        for (index, attribute) in attributes.iter().enumerate() {
            match label_name(translation, attribute.key) {
                Ok(name) => names.push((name, attribute.key, index)),
                Err(reason) => {
                    self.problem = Some(reason);
                    return;
                }
            }
        }
        // Attributes that become one label are joined in the order of their own names.
        names.sort_unstable();
        let mut base = base.iter().peekable();
        let mut names = names.chunk_by(|a, b| a.0 == b.0).peekable();
        loop {
            let attribute_name = names
                .peek()
                .and_then(|group| Some(group.first()?.0.as_str()));
            let base_name = base.peek().map(|label| label.name.as_str());
            let attribute_first = match (attribute_name, base_name) {
                (None, None) => break,
                (Some(_), None) => true,
                (None, Some(_)) => false,
                (Some(attribute), Some(base)) => attribute < base,
            };
            if attribute_first {
                if let Some(group) = names.next() {
                    self.push_attributes(group);
                }
                continue;
            }
            let Some(label) = base.next() else { continue };
            if attribute_name == Some(label.name.as_str()) {
                if !label.overrides {
                    continue;
                }
                names.next();
            }
            self.push_base(label);
        }
    }

    fn push_attributes(&mut self, group: &[(String, &[u8], usize)]) {
        let Some((name, _, index)) = group.first() else {
            return;
        };
        // An attribute cannot set the metric name.
        if name == METRIC_NAME {
            return;
        }
        self.note_position(name);
        let start = self.arena.len();
        push_prefix(&mut self.arena, name.as_bytes());
        let prefix = start..self.arena.len();
        self.slots.push(match group.len() {
            1 => Slot::Attribute(prefix, *index),
            _ => {
                let start = self.joined.len();
                self.joined
                    .extend(group.iter().map(|(_, _, index)| *index as u32));
                Slot::Joined(prefix, start..self.joined.len())
            }
        });
    }

    fn push_base(&mut self, label: &BaseLabel) {
        if label.name == METRIC_NAME {
            return;
        }
        self.note_position(&label.name);
        let start = self.arena.len();
        push_label(&mut self.arena, label.name.as_bytes(), &label.value);
        self.slots.push(Slot::Fixed(start..self.arena.len()));
    }

    /// Notes that the label comes next, for the labels that follow or replace it.
    fn note_position(&mut self, name: &str) {
        let next = self.slots.len();
        for (position, of) in [
            (&mut self.name, METRIC_NAME),
            (&mut self.le, ExtraLabel::Le.name()),
            (&mut self.quantile, ExtraLabel::Quantile.name()),
        ] {
            if name < of {
                position.slot = next + 1;
                position.replaces = false;
            } else if name == of {
                position.slot = next;
                position.replaces = true;
            }
        }
    }
}

fn too_deep() -> String {
    "attribute value has too many arrays and maps within one another".into()
}

fn slice<'b>(bytes: &'b [u8], range: &Range<usize>) -> &'b [u8] {
    bytes.get(range.clone()).unwrap_or_default()
}

fn between(bytes: &[u8], start: usize, end: usize) -> &[u8] {
    bytes.get(start..end).unwrap_or_default()
}

/// Appends a label in the encoding of [`RawLabels`]; nothing when its value is empty.
pub(super) fn push_label(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    let mut prefix = Vec::with_capacity(name.len() + 4);
    push_prefix(&mut prefix, name);
    push_with_prefix(out, &prefix, value);
}

/// The part of a label's encoding that depends on its name alone.
fn push_prefix(out: &mut Vec<u8>, name: &[u8]) {
    out.push(0x0a);
    push_varint(out, name.len() as u64);
    out.extend_from_slice(name);
    out.push(0x12);
}

#[inline]
fn push_with_prefix(out: &mut Vec<u8>, prefix: &[u8], value: &[u8]) {
    if value.is_empty() {
        return;
    }
    out.push(0x0a);
    let length = prefix.len() + varint_length(value.len() as u64) + value.len();
    push_varint(out, length as u64);
    out.extend_from_slice(prefix);
    push_varint(out, value.len() as u64);
    out.extend_from_slice(value);
}
