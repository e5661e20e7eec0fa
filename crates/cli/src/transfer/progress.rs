//! How far a transfer is: a line on a terminal, and a sentence at the end.

use std::io::{self, IsTerminal as _};
use std::time::{Duration, Instant};

use crate::output::{end_progress, size};

const UPDATE_EVERY: Duration = Duration::from_millis(200);

pub(crate) struct Progress {
    in_terminal: bool,
    began: Instant,
    told: Instant,
    pub(crate) bytes: u64,
    pub(crate) samples: u64,
}

impl Progress {
    pub(crate) fn new() -> Self {
        let now = Instant::now();
        Self {
            in_terminal: io::stderr().is_terminal(),
            began: now,
            told: now,
            bytes: 0,
            samples: 0,
        }
    }

    /// Keeps the line up to date; `done` is a part of 1 where it is known.
    pub(crate) fn tell(&mut self, what: &str, done: Option<f64>) {
        if !self.in_terminal || self.told.elapsed() < UPDATE_EVERY {
            return;
        }
        self.told = Instant::now();
        let percent = done.map(|done| format!("{:.0} %, ", done.clamp(0.0, 1.0) * 100.0));
        eprint!(
            "\r\x1b[K{what}{}{}",
            percent.unwrap_or_default(),
            self.rates()
        );
    }

    pub(crate) fn end(&self) {
        end_progress();
    }

    /// `12.0 MiB, 1000 samples (500/s), 2 s`.
    pub(crate) fn rates(&self) -> String {
        let seconds = self.began.elapsed().as_secs_f64();
        let mut text = size(self.bytes);
        if self.samples > 0 {
            let rate = self.samples as f64 / seconds.max(0.001);
            text.push_str(&format!(", {} samples ({rate:.0}/s)", self.samples));
        }
        text.push_str(&format!(", {seconds:.1} s"));
        text
    }
}
