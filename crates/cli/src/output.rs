//! What commands print: tables, sizes, JSON, and a line of progress while people wait.

use std::io::{self, Write};

use clap::ValueEnum;
use comfy_table::{CellAlignment, presets};
use icecore_storage::inspect::Progress;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressFinish, ProgressStyle};

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

    /// False when the reader is gone.
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
    table: comfy_table::Table,
    /// Leading columns that are text.
    text_columns: usize,
}

impl Table {
    pub(crate) fn new<const N: usize>(text_columns: usize, head: [&str; N]) -> Self {
        let mut table = comfy_table::Table::new();
        table.load_preset(presets::NOTHING);
        table.add_row(head);
        Self {
            table,
            text_columns,
        }
    }

    pub(crate) fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.table.add_row(cells);
    }

    pub(crate) fn print(mut self, output: &mut Output) -> io::Result<()> {
        self.align();
        output.line(&self.table.trim_fmt())?;
        Ok(())
    }

    fn align(&mut self) {
        for (index, column) in self.table.column_iter_mut().enumerate() {
            column.set_padding((if index == 0 { 0 } else { 2 }, 0));
            if index >= self.text_columns {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
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

/// A line on standard error that is kept up to date; hidden where that is no terminal.
pub(crate) fn status_line() -> ProgressBar {
    const UPDATES_PER_SECOND: u8 = 5;
    let style = ProgressStyle::with_template("{msg}").expect("the template is valid");
    ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(UPDATES_PER_SECOND))
        .with_style(style)
        .with_finish(ProgressFinish::AndClear)
}

/// Makes a bar of a line: how much of a total is done, and what the line says.
pub(crate) fn show_fraction(line: &ProgressBar, done: u64, total: u64) {
    const TEMPLATE: &str = "[{bar:30}] {percent:>3} %  {msg}";
    if line.length().is_none() {
        let style = ProgressStyle::with_template(TEMPLATE).expect("the template is valid");
        line.set_style(style.progress_chars("=> "));
    }
    line.set_length(total);
    line.set_position(done);
}

/// Shows on `line` how far something is that reads a database.
pub(crate) fn show_progress(
    line: &ProgressBar,
    what: &'static str,
) -> impl Fn(&Progress) + Send + Sync + use<> {
    let line = line.clone();
    move |progress: &Progress| {
        let elapsed = line.elapsed().as_secs_f64();
        let rest = match progress.done {
            done if done > 0.01 => format!(", about {:.0} s left", elapsed * (1.0 - done) / done),
            _ => String::new(),
        };
        line.set_message(format!(
            "{what}: {:.0} %, {} records, {}, {elapsed:.0} s{rest}",
            progress.done * 100.0,
            progress.records,
            size(progress.bytes),
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_have_aligned_columns() {
        let mut table = Table::new(1, ["name", "bytes", "count"]);
        table.row(["a longer name".into(), "1 KiB".into(), "7".into()]);
        table.row(["x".into(), "1023 B".into(), String::new()]);
        table.align();
        let expected = "\
name            bytes  count
a longer name   1 KiB      7
x              1023 B";
        assert_eq!(table.table.trim_fmt(), expected);
    }

    #[test]
    fn sizes_and_hex() {
        assert_eq!(size(1023), "1023 B");
        assert_eq!(size(1536), "1.5 KiB");
        assert_eq!(unhex("01 31_ff").unwrap(), [1, 0x31, 0xff]);
        assert!(unhex("013").is_err() && unhex("0g").is_err() && unhex("é").is_err());
    }
}
