//! What commands print: tables, sizes, JSON, and a line of progress while people wait.

use std::io::{self, IsTerminal as _, Write};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use icecore_storage::inspect::Progress;

/// How results are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people
    #[default]
    Text,
    /// For programs
    Json,
}

/// Writes to standard output. A reader that has gone away (`| head`) has seen enough: that is no
/// failure, and nothing more is written.
pub(crate) struct Output {
    stdout: io::BufWriter<io::Stdout>,
    gone: bool,
}

impl Output {
    pub(crate) fn new() -> Self {
        Self {
            stdout: io::BufWriter::new(io::stdout()),
            gone: false,
        }
    }

    /// False when nobody reads any more.
    pub(crate) fn line(&mut self, line: &str) -> io::Result<bool> {
        let written = writeln!(self.stdout, "{line}");
        self.note(written)
    }

    pub(crate) fn json(&mut self, value: &serde_json::Value) -> io::Result<bool> {
        self.line(&value.to_string())
    }

    pub(crate) fn finish(mut self) -> io::Result<()> {
        let flushed = self.stdout.flush();
        self.note(flushed).map(drop)
    }

    fn note(&mut self, written: io::Result<()>) -> io::Result<bool> {
        match written {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => self.gone = true,
            written => written?,
        }
        Ok(!self.gone)
    }
}

/// Columns as wide as they need to be: text first, then numbers, which are right-aligned.
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
    /// Leading columns that are text.
    text_columns: usize,
}

impl Table {
    pub(crate) fn new<const N: usize>(text_columns: usize, head: [&str; N]) -> Self {
        Self {
            rows: vec![head.map(str::to_owned).to_vec()],
            text_columns,
        }
    }

    pub(crate) fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.rows.push(cells.to_vec());
    }

    pub(crate) fn print(&self, output: &mut Output) -> io::Result<()> {
        let columns = self.rows.first().map_or(0, Vec::len);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for row in &self.rows {
            let mut line = String::new();
            for (i, (cell, width)) in row.iter().zip(&widths).enumerate() {
                let gap = if i == 0 { "" } else { "  " };
                line.push_str(gap);
                let padding = " ".repeat(width.saturating_sub(cell.chars().count()));
                if i < self.text_columns {
                    line.push_str(cell);
                    line.push_str(&padding);
                } else {
                    line.push_str(&padding);
                    line.push_str(cell);
                }
            }
            output.line(line.trim_end())?;
        }
        Ok(())
    }
}

/// `1.5 MiB`.
pub(crate) fn size(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut scaled = bytes as f64;
    let mut unit = 0;
    while scaled >= 1024.0 && unit + 1 < units.len() {
        scaled /= 1024.0;
        unit += 1;
    }
    match unit {
        0 => format!("{bytes} B"),
        _ => format!("{scaled:.1} {}", units[unit]),
    }
}

/// Hex digits, with spaces and underscores between them where somebody put some.
pub(crate) fn unhex(text: &str) -> Result<Vec<u8>, String> {
    let digits = text.replace(|c: char| c.is_ascii_whitespace() || c == '_', "");
    hex::decode(digits).map_err(|_| format!("{text:?} is not pairs of hex digits, as in 0131"))
}

/// Least time between two updates of the line.
const UPDATE_EVERY: Duration = Duration::from_millis(200);

/// A listener that keeps one line on standard error up to date; `None` when that is no terminal.
pub(crate) fn progress_line(what: &'static str) -> Option<impl Fn(&Progress) + Send + Sync> {
    if !io::stderr().is_terminal() {
        return None;
    }
    let started = Instant::now();
    let last = Mutex::new(started);
    Some(move |progress: &Progress| {
        let Ok(mut last) = last.try_lock() else {
            return;
        };
        if last.elapsed() < UPDATE_EVERY {
            return;
        }
        *last = Instant::now();
        let elapsed = started.elapsed().as_secs_f64();
        let rest = match progress.done {
            done if done > 0.01 => format!(", about {:.0} s left", elapsed * (1.0 - done) / done),
            _ => String::new(),
        };
        eprint!(
            "\r\x1b[K{what}: {:.0} %, {} records, {}, {elapsed:.0} s{rest}",
            progress.done * 100.0,
            progress.records,
            size(progress.bytes),
        );
    })
}

/// Removes the line of progress.
pub(crate) fn end_progress() {
    if io::stderr().is_terminal() {
        eprint!("\r\x1b[K");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_hex() {
        assert_eq!(size(1023), "1023 B");
        assert_eq!(size(1536), "1.5 KiB");
        assert_eq!(unhex("01 31_ff").unwrap(), [1, 0x31, 0xff]);
        assert!(unhex("013").is_err() && unhex("0g").is_err() && unhex("é").is_err());
    }
}
