//! Scores of texts in a search: which texts match, and how well.
//!
//! ```text
//! search[] ─► terms ─┬─ subsequence: a prefix, or all letters in their order
//!                    └─ jarowinkler: the term itself, or a text that resembles it
//! text ─► each term ─► the best score ─► taken if it reaches the threshold
//! ```
//!
//! Holds always:
//! - Scores are those of Prometheus 3.15, bit by bit: operations on floats have its order.
//! - The comparisons of one search are counted and at most [`STEPS_MAX`]. Long texts with many
//!   repetitions would take time by the square of their length.

/// Comparisons of letters in one search: some seconds of one core. A million names of forty letters
/// take a tenth of it for each term.
pub(super) const STEPS_MAX: u64 = 4_000_000_000;

/// Matches that are not exact score less than 1 after rounding, too.
const INEXACT_SCALE: f64 = 0.999;

/// The way in which a term is compared with a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Algorithm {
    Subsequence,
    JaroWinkler,
}

impl Algorithm {
    pub(super) const ALL: [(&'static str, Self); 2] = [
        ("subsequence", Self::Subsequence),
        ("jarowinkler", Self::JaroWinkler),
    ];

    pub(super) fn by_name(name: &str) -> Option<Self> {
        let found = Self::ALL.iter().find(|(known, _)| *known == name)?;
        Some(found.1)
    }
}

/// The error of a search with more than [`STEPS_MAX`] comparisons.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooManySteps;

/// Compares texts with the terms of one search.
#[derive(Debug)]
pub(super) struct Scorer {
    terms: Vec<String>,
    algorithm: Algorithm,
    /// From 0 to 1.
    threshold: f64,
    is_case_sensitive: bool,
    steps: Steps,
}

/// The comparisons that are left.
#[derive(Debug)]
struct Steps {
    left: u64,
    are_exceeded: bool,
}

impl Steps {
    /// Takes some, and returns `false` if there are not as many.
    fn take(&mut self, count: usize) -> bool {
        match self.left.checked_sub(count as u64) {
            Some(left) => self.left = left,
            None => self.are_exceeded = true,
        }
        !self.are_exceeded
    }
}

impl Scorer {
    /// Returns `None` if every text matches: no term says anything.
    pub(super) fn new<'t>(
        terms: impl Iterator<Item = &'t str>,
        algorithm: Algorithm,
        threshold_percent: u8,
        is_case_sensitive: bool,
    ) -> Option<Self> {
        let terms: Vec<String> = terms
            .filter(|term| !term.is_empty())
            .map(|term| {
                if is_case_sensitive {
                    term.to_owned()
                } else {
                    term.to_lowercase()
                }
            })
            .collect();
        (!terms.is_empty()).then_some(Self {
            terms,
            algorithm,
            threshold: f64::from(threshold_percent) / 100.0,
            is_case_sensitive,
            steps: Steps {
                left: STEPS_MAX,
                are_exceeded: false,
            },
        })
    }

    /// The best score of a text that matches at least one term.
    pub(super) fn score(&mut self, text: &str) -> Result<Option<f64>, TooManySteps> {
        let folded;
        let text = if self.is_case_sensitive {
            text
        } else {
            folded = text.to_lowercase();
            &folded
        };
        let mut best: Option<f64> = None;
        for term in &self.terms {
            let score = match self.algorithm {
                Algorithm::Subsequence => {
                    by_subsequence(term, text, self.threshold, &mut self.steps)
                }
                Algorithm::JaroWinkler => {
                    by_resemblance(term, text, self.threshold, &mut self.steps)
                }
            };
            if self.steps.are_exceeded {
                return Err(TooManySteps);
            }
            if let Some(score) = score {
                best = Some(best.map_or(score, |best| best.max(score)));
            }
            if best == Some(1.0) {
                break;
            }
        }
        Ok(best)
    }
}

fn by_subsequence(term: &str, text: &str, threshold: f64, steps: &mut Steps) -> Option<f64> {
    if !steps.take(term.len()) {
        return None;
    }
    if text.starts_with(term) {
        return Some(1.0);
    }
    if term.len() > text.len() {
        return None;
    }
    let score = if term.is_ascii() && text.is_ascii() {
        subsequence(term.as_bytes(), text.as_bytes(), steps)
    } else {
        subsequence(&letters(term), &letters(text), steps)
    };
    (score > 0.0 && score >= threshold).then_some(score)
}

/// The term itself anywhere in the text; else, with a threshold, a text that resembles it.
fn by_resemblance(term: &str, text: &str, threshold: f64, steps: &mut Steps) -> Option<f64> {
    // Looking for a term prepares all of it.
    let is_longer = term.len() > text.len();
    let term_steps = if is_longer { 0 } else { term.len() };
    if !steps.take(text.len() + term_steps) {
        return None;
    }
    let place = if is_longer { None } else { text.find(term) };
    if let Some(place) = place {
        return Some(by_place(term, text, place));
    }
    if threshold <= 0.0 {
        return None;
    }
    let score = if term.is_ascii() && text.is_ascii() {
        jaro_winkler(term.as_bytes(), text.as_bytes(), steps)
    } else {
        jaro_winkler(&letters(term), &letters(text), steps)
    };
    (score >= threshold).then_some(score)
}

fn letters(text: &str) -> Vec<char> {
    text.chars().collect()
}

/// From 1 for a prefix down to 0.1 for the end of the text.
fn by_place(term: &str, text: &str, place: usize) -> f64 {
    let (before, _) = text.split_at(place);
    let position = before.chars().count();
    let last = text.chars().count().saturating_sub(term.chars().count());
    if position == 0 || last == 0 {
        return 1.0;
    }
    1.0 - 0.9 * position as f64 / last as f64
}

/// Rewards runs of letters that follow each other and takes off for gaps; 0 for no match.
fn subsequence<T: Copy + PartialEq>(pattern: &[T], text: &[T], steps: &mut Steps) -> f64 {
    let (Some(first), Some(last_start)) = (pattern.first(), text.len().checked_sub(pattern.len()))
    else {
        return 0.0;
    };
    let mut best = -1.0;
    for (start, letter) in text.iter().enumerate().take(last_start + 1) {
        if letter != first {
            continue;
        }
        if !steps.take(text.len() - start) {
            return 0.0;
        }
        // A later start has less text for the same letters.
        let Some(score) = score_from(pattern, text, start) else {
            break;
        };
        if score > best {
            best = score;
        }
    }
    if best < 0.0 {
        return 0.0;
    }
    best / (pattern.len() * pattern.len()) as f64 * INEXACT_SCALE
}

/// The score of the match that begins at a place and takes each letter as early as it can.
fn score_from<T: Copy + PartialEq>(pattern: &[T], text: &[T], start: usize) -> Option<f64> {
    let part = 1.0 / text.len() as f64;
    let mut score = 0.0;
    // Behind the run before.
    let mut end = 0;
    let mut place = start;
    let mut pattern = pattern;
    while let Some(wanted) = pattern.first() {
        place += text.get(place..)?.iter().position(|it| it == wanted)?;
        let rest = text.get(place..)?;
        let run = std::iter::zip(pattern, rest).take_while(|(a, b)| a == b);
        let size = run.count();
        let gap = place - end;
        if gap > 0 {
            score -= gap as f64 * part;
        }
        score += (size * size) as f64;
        place += size;
        end = place;
        pattern = pattern.get(size..)?;
    }
    let trailing = text.len() - end;
    if trailing > 0 {
        score -= trailing as f64 * part * 0.5;
    }
    Some(score)
}

/// The Jaro similarity, with a bonus for up to four first letters in common.
fn jaro_winkler<T: Copy + PartialEq>(term: &[T], text: &[T], steps: &mut Steps) -> f64 {
    let (short, long) = if term.len() > text.len() {
        (text, term)
    } else {
        (term, text)
    };
    if short.is_empty() {
        return 0.0;
    }
    let distance = (long.len() / 2).saturating_sub(1);
    if !steps.take(short.len().saturating_mul(long.len().min(2 * distance + 1))) {
        return 0.0;
    }
    // The letters of the shorter text that match, and which of the longer one they took.
    let mut taken = vec![false; long.len()];
    let mut matched = Vec::with_capacity(short.len());
    for (i, letter) in short.iter().enumerate() {
        let window = i.saturating_sub(distance)..(i + distance + 1).min(long.len());
        let (Some(others), Some(taken)) = (long.get(window.clone()), taken.get_mut(window)) else {
            continue;
        };
        for (other, taken) in std::iter::zip(others, taken) {
            if !*taken && other == letter {
                *taken = true;
                matched.push(*letter);
                break;
            }
        }
    }
    if matched.is_empty() {
        return 0.0;
    }
    let others = std::iter::zip(long, &taken).filter(|(_, taken)| **taken);
    let moved = std::iter::zip(&matched, others).filter(|(letter, (other, _))| letter != other);
    let transpositions = moved.count() as f64;
    let matches = matched.len() as f64;
    // In this order, on which the last bit depends.
    let (of_short, of_long) = (1.0 / short.len() as f64, 1.0 / long.len() as f64);
    let jaro =
        (matches * of_short + matches * of_long + (matches - transpositions * 0.5) / matches) / 3.0;
    let common = std::iter::zip(short, long).take_while(|(a, b)| a == b);
    let common = common.take(4).count() as f64;
    jaro + common * 0.1 * (1.0 - jaro)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn scorer(terms: &[&str], algorithm: Algorithm, percent: u8, sensitive: bool) -> Scorer {
        Scorer::new(terms.iter().copied(), algorithm, percent, sensitive).unwrap()
    }

    #[track_caller]
    fn close(found: Option<f64>, expected: Option<f64>) {
        match (found, expected) {
            (Some(found), Some(expected)) => {
                assert!(
                    (found - expected).abs() < 1e-12,
                    "{found} is not {expected}"
                );
            }
            (found, expected) => assert_eq!(found, expected),
        }
    }

    #[test]
    fn subsequences_reward_runs() {
        let mut scorer = scorer(&["abc"], Algorithm::Subsequence, 0, true);
        for (text, score) in [
            ("abc", Some(1.0)),
            ("abcd", Some(1.0)),
            // One run of three after a gap of one: (9 - 1/4) / 9.
            ("xabc", Some(0.999 * (9.0 - 0.25) / 9.0)),
            // Three runs of one, two gaps of one each.
            ("axbxc", Some(0.999 * (3.0 - 0.4) / 9.0)),
            // The second start is better than the first.
            ("a_abc", Some(0.999 * (9.0 - 0.4) / 9.0)),
            // A letter that nothing follows takes half as much off.
            ("xabcx", Some(0.999 * (9.0 - 0.2 - 0.1) / 9.0)),
            ("acb", None),
            ("ab", None),
            ("ABC", None),
            ("", None),
        ] {
            close(scorer.score(text).unwrap(), score);
        }
    }

    #[test]
    fn letters_count_and_not_bytes() {
        let mut scorer = scorer(&["bc"], Algorithm::Subsequence, 0, true);
        close(
            scorer.score("ábc").unwrap(),
            Some(0.999 * (4.0 - 1.0 / 3.0) / 4.0),
        );
        let mut scorer = self::scorer(&["bc"], Algorithm::JaroWinkler, 0, true);
        close(scorer.score("ábcd").unwrap(), Some(1.0 - 0.9 / 2.0));
        assert_eq!(scorer.score("ác").unwrap(), None);
    }

    #[test]
    fn texts_resemble_each_other() {
        let mut scorer = scorer(&["martha"], Algorithm::JaroWinkler, 10, true);
        // Known values of the literature.
        close(
            scorer.score("marhta").unwrap(),
            Some(0.944_444_444_444_444_4 + 0.3 * (1.0 - 0.944_444_444_444_444_4)),
        );
        close(scorer.score("a_martha").unwrap(), Some(1.0 - 0.9));
        assert_eq!(scorer.score("xyz").unwrap(), None);
        let mut scorer = self::scorer(&["dixon"], Algorithm::JaroWinkler, 81, true);
        close(
            scorer.score("dicksonx").unwrap(),
            Some(0.766_666_666_666_666_7 + 0.2 * (1.0 - 0.766_666_666_666_666_7)),
        );
        let mut scorer = self::scorer(&["dixon"], Algorithm::JaroWinkler, 82, true);
        assert_eq!(scorer.score("dicksonx").unwrap(), None);
    }

    #[test]
    fn case_and_several_terms() {
        let mut folded = scorer(&["HTTP", "up"], Algorithm::Subsequence, 0, false);
        close(folded.score("Http_requests").unwrap(), Some(1.0));
        close(folded.score("UP").unwrap(), Some(1.0));
        assert_eq!(folded.score("node").unwrap(), None);
        assert!(Scorer::new([""].into_iter(), Algorithm::Subsequence, 0, true).is_none());
    }

    #[test]
    fn work_is_bounded() {
        let pattern = format!("{}b", "a".repeat(20_000));
        let text = "a".repeat(200_000);
        let mut scorer = scorer(&[&pattern], Algorithm::JaroWinkler, 1, true);
        assert_eq!(scorer.score(&text), Err(TooManySteps));
        let text = format!("x{}b", "ab".repeat(100_000));
        let mut scorer = self::scorer(&["ab"], Algorithm::Subsequence, 1, true);
        assert_eq!(scorer.score(&text), Err(TooManySteps));
    }

    proptest! {
        #[test]
        fn scores_lie_between_0_and_1(term in "[ab_é]{1,6}", text in "[abc_é]{0,12}") {
            for algorithm in [Algorithm::Subsequence, Algorithm::JaroWinkler] {
                let mut scorer = scorer(&[&term], algorithm, 1, true);
                if let Some(score) = scorer.score(&text).unwrap() {
                    prop_assert!((0.0..=1.0).contains(&score), "{term} in {text}: {score}");
                }
                prop_assert_eq!(scorer.score(&term).unwrap(), Some(1.0));
            }
        }

        #[test]
        fn bytes_and_letters_score_alike(term in "[ab_]{1,5}", text in "[abc_]{0,12}") {
            let mut steps = Steps { left: STEPS_MAX, are_exceeded: false };
            prop_assert_eq!(
                subsequence(term.as_bytes(), text.as_bytes(), &mut steps).to_bits(),
                subsequence(&letters(&term), &letters(&text), &mut steps).to_bits()
            );
            prop_assert_eq!(
                jaro_winkler(term.as_bytes(), text.as_bytes(), &mut steps).to_bits(),
                jaro_winkler(&letters(&term), &letters(&text), &mut steps).to_bits()
            );
        }
    }
}
