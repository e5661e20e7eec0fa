//! Times of a matrix as text: every series has points at the same steps.

use super::number::push_timestamp;

/// The beginnings of points, `,[1435781451.781,"`, made once for all series of a matrix.
#[derive(Debug, Default)]
pub struct TimeTexts(Vec<TimeText>);

/// Fixed in size, so that copying it needs no loop; the rest of the text is cut off afterwards.
#[derive(Clone, Copy, Debug)]
struct TimeText {
    time_ms: i64,
    text: [u8; TIME_TEXT_BYTES],
    length: u8,
}

/// `,[-9223372036854775.808,"` has 26 bytes.
const TIME_TEXT_BYTES: usize = 31;

impl TimeTexts {
    /// Texts of these times, which must grow. Points at other times are written as well.
    pub fn new(times: impl Iterator<Item = i64>) -> Self {
        let mut written = Vec::with_capacity(TIME_TEXT_BYTES);
        let texts = times.map(|time_ms| {
            written.clear();
            push_point_start(&mut written, time_ms);
            let length = written.len() as u8;
            let mut text = [0; TIME_TEXT_BYTES];
            if let Some(place) = text.get_mut(..written.len()) {
                place.copy_from_slice(&written);
            }
            TimeText {
                time_ms,
                text,
                length,
            }
        });
        Self(texts.collect())
    }

    pub(super) fn cursor(&self) -> TimeCursor<'_> {
        TimeCursor { rest: &self.0 }
    }
}

/// Goes along the times of one series.
pub(super) struct TimeCursor<'a> {
    rest: &'a [TimeText],
}

impl TimeCursor<'_> {
    #[inline]
    pub(super) fn push_point_start(&mut self, out: &mut Vec<u8>, time_ms: i64, first: bool) {
        while let [next, rest @ ..] = self.rest
            && next.time_ms < time_ms
        {
            self.rest = rest;
        }
        match self.rest {
            [next, ..] if next.time_ms == time_ms && !first => {
                let length = out.len() + usize::from(next.length);
                out.extend_from_slice(&next.text);
                out.truncate(length);
            }
            // There is no comma before the first point.
            _ => {
                let begin = out.len();
                push_point_start(out, time_ms);
                if first {
                    out.remove(begin);
                }
            }
        }
    }
}

fn push_point_start(out: &mut Vec<u8>, time_ms: i64) {
    out.extend_from_slice(b",[");
    push_timestamp(out, time_ms);
    out.extend_from_slice(b",\"");
}
