//! Which values a regex accepts, derived from its structure.
//!
//! It works on the HIR, where case-insensitive letters are already classes of their variants, so a
//! flag in the pattern cannot be overlooked. Everything here assumes that the whole value has to
//! match.

use regex_syntax::hir::{Class, Hir, HirKind, Look};

use super::pattern::{Glob, GlobPiece};

/// Most bytes of all values to which a pattern is written out.
const MAX_EXPANDED_BYTES: usize = 4 << 20;

/// The same pattern without `^` where it begins and `$` where it ends: both ends are anchored
/// anyway, and the anchors would hide `^(a|b)$` from the analysis.
pub(super) fn without_edge_anchors(hir: &Hir) -> Hir {
    strip(&strip(hir, Look::Start), Look::End)
}

fn strip(hir: &Hir, anchor: Look) -> Hir {
    match hir.kind() {
        HirKind::Look(look) if *look == anchor => Hir::empty(),
        HirKind::Capture(capture) => strip(&capture.sub, anchor),
        HirKind::Alternation(branches) => Hir::alternation(
            branches
                .iter()
                .map(|branch| strip(branch, anchor))
                .collect(),
        ),
        HirKind::Concat(parts) => {
            let mut parts = parts.clone();
            let edge = if anchor == Look::Start {
                parts.first_mut()
            } else {
                parts.last_mut()
            };
            if let Some(edge) = edge {
                *edge = strip(edge, anchor);
            }
            Hir::concat(parts)
        }
        _ => hir.clone(),
    }
}

/// The exact set of accepted values, sorted and unique, if it has at most `cap` members (counted
/// before duplicates are removed).
pub(super) fn enumerate(hir: &Hir, cap: usize) -> Option<Vec<String>> {
    let mut values = values_of(hir, cap)?;
    values.sort_unstable();
    values.dedup();
    Some(values)
}

fn values_of(hir: &Hir, cap: usize) -> Option<Vec<String>> {
    match hir.kind() {
        HirKind::Empty => Some(vec![String::new()]),
        HirKind::Literal(literal) => Some(vec![std::str::from_utf8(&literal.0).ok()?.to_owned()]),
        HirKind::Class(class) => chars_of(class, cap),
        HirKind::Look(_) => None,
        HirKind::Capture(capture) => values_of(&capture.sub, cap),
        HirKind::Repetition(repetition) => {
            let max = repetition.max?;
            let one = values_of(&repetition.sub, cap)?;
            let mut power = vec![String::new()];
            let mut all = Vec::new();
            for count in 0..=max {
                if count >= repetition.min {
                    all.extend_from_slice(&power);
                }
                if all.len() > cap || total_bytes(&all) > MAX_EXPANDED_BYTES {
                    return None;
                }
                if count < max {
                    power = product(&power, &one, cap)?;
                }
            }
            Some(all)
        }
        HirKind::Concat(parts) => parts.iter().try_fold(vec![String::new()], |heads, part| {
            product(&heads, &values_of(part, cap)?, cap)
        }),
        HirKind::Alternation(branches) => {
            let mut all = Vec::new();
            let mut bytes = 0;
            for branch in branches {
                let mut values = values_of(branch, cap)?;
                bytes += total_bytes(&values);
                all.append(&mut values);
                if all.len() > cap || bytes > MAX_EXPANDED_BYTES {
                    return None;
                }
            }
            Some(all)
        }
    }
}

fn chars_of(class: &Class, cap: usize) -> Option<Vec<String>> {
    let class = match class {
        Class::Unicode(class) => class,
        // This is how a class that accepts nothing looks.
        Class::Bytes(class) if class.ranges().is_empty() => return Some(Vec::new()),
        Class::Bytes(_) => return None,
    };
    let count: usize = class.ranges().iter().map(|range| range.len()).sum();
    if count > cap {
        return None;
    }
    let chars = class
        .ranges()
        .iter()
        .flat_map(|range| range.start()..=range.end());
    Some(chars.map(String::from).collect())
}

/// Every head followed by every tail.
fn product(heads: &[String], tails: &[String], cap: usize) -> Option<Vec<String>> {
    let count = heads.len().checked_mul(tails.len())?;
    let head_bytes = total_bytes(heads).checked_mul(tails.len())?;
    let tail_bytes = total_bytes(tails).checked_mul(heads.len())?;
    if count > cap || head_bytes.checked_add(tail_bytes)? > MAX_EXPANDED_BYTES {
        return None;
    }
    let pairs = heads
        .iter()
        .flat_map(|head| tails.iter().map(move |tail| (head, tail)));
    Some(pairs.map(|(head, tail)| format!("{head}{tail}")).collect())
}

fn total_bytes(values: &[String]) -> usize {
    values.iter().map(String::len).sum()
}

/// The pattern as text with gaps, if it is a sequence of literals, `.*` and `.+`.
pub(super) fn glob_of(hir: &Hir) -> Option<Glob> {
    let mut glob = Glob {
        prefix: String::new(),
        pieces: Vec::new(),
    };
    add_to_glob(hir, &mut glob)?;
    (!glob.pieces.is_empty()).then_some(glob)
}

fn add_to_glob(hir: &Hir, glob: &mut Glob) -> Option<()> {
    match hir.kind() {
        HirKind::Empty => {}
        HirKind::Literal(literal) => {
            let text = std::str::from_utf8(&literal.0).ok()?;
            let end = glob
                .pieces
                .last_mut()
                .map_or(&mut glob.prefix, |piece| &mut piece.text);
            end.push_str(text);
        }
        HirKind::Capture(capture) => add_to_glob(&capture.sub, glob)?,
        HirKind::Concat(parts) => {
            for part in parts {
                add_to_glob(part, glob)?;
            }
        }
        HirKind::Repetition(repetition)
            if repetition.min <= 1 && repetition.max.is_none() && is_any_char(&repetition.sub) =>
        {
            glob.pieces.push(GlobPiece {
                gap_not_empty: repetition.min == 1,
                text: String::new(),
            });
        }
        _ => return None,
    }
    Some(())
}

fn is_any_char(hir: &Hir) -> bool {
    match hir.kind() {
        HirKind::Capture(capture) => is_any_char(&capture.sub),
        HirKind::Class(Class::Unicode(class)) => match class.ranges() {
            [range] => range.start() == '\0' && range.end() == char::MAX,
            _ => false,
        },
        _ => false,
    }
}

/// The longest text known to begin every accepted value.
pub(super) fn common_prefix(hir: &Hir) -> String {
    prefix_of(hir).text
}

struct Prefix {
    text: String,
    /// Whether the text is all that this part of the pattern can consume.
    complete: bool,
}

impl Prefix {
    fn complete(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            complete: true,
        }
    }

    fn unknown() -> Self {
        Self {
            text: String::new(),
            complete: false,
        }
    }
}

fn prefix_of(hir: &Hir) -> Prefix {
    match hir.kind() {
        // Assertions consume nothing; that they may forbid more does not make the prefix wrong.
        HirKind::Empty | HirKind::Look(_) => Prefix::complete(""),
        HirKind::Literal(literal) => {
            std::str::from_utf8(&literal.0).map_or(Prefix::unknown(), Prefix::complete)
        }
        HirKind::Class(_) => Prefix::unknown(),
        HirKind::Capture(capture) => prefix_of(&capture.sub),
        HirKind::Repetition(repetition) if repetition.min >= 1 => Prefix {
            text: prefix_of(&repetition.sub).text,
            complete: false,
        },
        HirKind::Repetition(_) => Prefix::unknown(),
        HirKind::Concat(parts) => {
            let mut whole = Prefix::complete("");
            for part in parts {
                let next = prefix_of(part);
                whole.text.push_str(&next.text);
                whole.complete = next.complete;
                if !whole.complete {
                    break;
                }
            }
            whole
        }
        HirKind::Alternation(branches) => {
            let shared = branches
                .iter()
                .map(|branch| prefix_of(branch).text)
                .reduce(shared_start);
            Prefix {
                text: shared.unwrap_or_default(),
                complete: false,
            }
        }
    }
}

fn shared_start(mut one: String, other: String) -> String {
    let shared = one.chars().zip(other.chars()).take_while(|(a, b)| a == b);
    one.truncate(shared.map(|(c, _)| c.len_utf8()).sum());
    one
}
