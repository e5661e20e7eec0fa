//! How far a transfer is: a line on a terminal, and a sentence at the end.

use indicatif::ProgressBar;

use crate::output::{size, status_line};

pub(crate) struct Progress {
    line: ProgressBar,
    pub(crate) bytes: u64,
    pub(crate) samples: u64,
}

impl Progress {
    pub(crate) fn new() -> Self {
        Self {
            line: status_line(),
            bytes: 0,
            samples: 0,
        }
    }

    /// Updates the line; `done` is a part of 1 where it is known.
    pub(crate) fn update(&self, what: &str, done: Option<f64>) {
        let percent = done.map(|done| format!("{:.0} %, ", done.clamp(0.0, 1.0) * 100.0));
        let percent = percent.unwrap_or_default();
        self.line
            .set_message(format!("{what}{percent}{}", self.rates()));
    }

    pub(crate) fn clear(&self) {
        self.line.finish_and_clear();
    }

    /// `12.0 MiB, 1000 samples (500/s), 2 s`.
    pub(crate) fn rates(&self) -> String {
        let seconds = self.line.elapsed().as_secs_f64();
        let mut text = size(self.bytes);
        if self.samples > 0 {
            let rate = self.samples as f64 / seconds.max(0.001);
            text.push_str(&format!(", {} samples ({rate:.0}/s)", self.samples));
        }
        text.push_str(&format!(", {seconds:.1} s"));
        text
    }
}
