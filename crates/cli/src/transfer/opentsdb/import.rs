//! `icecore import opentsdb`.

use std::collections::HashSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, anyhow, bail};
use clap::Args;
use icecore_opentsdb::hbase::{Cell, UidCell};
use icecore_opentsdb::transfer::{ConfiguredTables, Skipped, UidMappings};
use icecore_server::without_secrets;
use icecore_wire::opentsdb::cell_line::CellLine;
use reqwest::header::CONTENT_ENCODING;
use serde_json::{Value, json};

use super::gateway::{NoSuchTable, Scan};
use super::inputs::{Input, expand};
use super::skips::Skips;
use super::tables::{TableArgs, params, parse_widths, show_widths};
use crate::remote::{Connection, ServerArgs};
use crate::transfer::chunks::{Chunks, InputFormat, plain};
use crate::transfer::import::incomplete;
use crate::transfer::progress::Progress;
use crate::transfer::state_file::{StateFile, sibling_path};
use crate::transfer::upload::upload;

/// Where the progress is noted if there is no file to note it beside.
const GATEWAY_STATE: &str = "icecore-import-opentsdb";

/// Store what OpenTSDB has: lines of its text format, or cells of its tables
///
/// Lines are `metric timestamp value tagk=tagv …`, as `tsdb import` reads and `tsdb scan --import`
/// writes them. Cells are lines of JSON with table, row, family, qualifier and value in
/// hexadecimal. The address of an HBase REST gateway is read table by table. UIDs keep their
/// numbers: where one means something else here, nothing is imported.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct OpentsdbImport {
    /// Files, plain or compressed, directories of them, or the URL of an HBase REST gateway
    #[arg(value_name = "FILE|DIRECTORY|URL", required = true)]
    inputs: Vec<String>,

    /// Go on where the last import of the same inputs was
    #[arg(long)]
    resume: bool,

    /// Pass over lines and cells that cannot be read, and count them
    #[arg(long)]
    skip_errors: bool,

    /// Create metrics that lines name and that have no UID yet
    #[arg(long)]
    auto_metric: bool,

    /// Bytes, before compression, of one request
    #[arg(long, value_name = "BYTES", default_value_t = 8 << 20)]
    chunk_bytes: usize,

    /// A further table of the gateway, for example of rollups; may be repeated
    #[arg(long = "table", value_name = "NAME")]
    further_tables: Vec<String>,

    /// Bytes of the UIDs in cells: of metrics, tag keys, tag values (default: the server's)
    #[arg(long, value_name = "M,K,V", value_parser = parse_widths)]
    uid_widths: Option<[usize; 3]>,

    #[command(flatten)]
    tables: TableArgs,

    #[command(flatten)]
    server: ServerArgs,
}

const EXAMPLES: &str = "\
Examples:
  icecore import opentsdb points.gz --auto-metric
  icecore import opentsdb uid.json.gz data-*.json.gz           cells; in any order
  icecore import opentsdb http://hbase:8080 --opentsdb.config /etc/opentsdb/opentsdb.conf
  icecore import opentsdb dump/ --resume                       after an interruption";

/// Which cells are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pass {
    Names,
    Rest,
}

/// How far an import is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Position {
    pass: u64,
    input: u64,
    /// Of a file: bytes and lines that were stored.
    offset: u64,
    lines: u64,
    /// Of a gateway: the table, and the row that was stored last.
    table: u64,
    row: Vec<u8>,
}

impl Position {
    fn to_json(&self) -> Value {
        json!({
            "pass": self.pass, "input": self.input, "offset": self.offset, "lines": self.lines,
            "table": self.table, "row": hex::encode(&self.row),
        })
    }

    fn from_json(noted: &Value) -> anyhow::Result<Self> {
        let number = |key: &str| noted[key].as_u64().context("invalid state file");
        let row = noted["row"].as_str().and_then(|row| hex::decode(row).ok());
        Ok(Self {
            pass: number("pass")?,
            input: number("input")?,
            offset: number("offset")?,
            lines: number("lines")?,
            table: number("table")?,
            row: row.context("invalid state file")?,
        })
    }
}

/// An import that is under way.
struct Run<'a> {
    args: &'a OpentsdbImport,
    connection: &'a Connection,
    tables: ConfiguredTables,
    state_file: StateFile,
    position: Position,
    progress: Progress,
    skips: Skips,
    /// The ids and names of the tables of UIDs; empty once names are sent.
    mappings: Arc<UidMappings>,
    /// Files that have cells of such a table.
    files_with_names: HashSet<PathBuf>,
    names: u64,
    records: u64,
    /// Whether the UID table had anything.
    saw_names: bool,
    saw_cells: bool,
}

impl OpentsdbImport {
    pub(crate) async fn import(self) -> anyhow::Result<()> {
        let connection = self.server.connect()?;
        let mut tables = self.tables.tables()?;
        if let Some(widths) = self.uid_widths {
            tables.layout.widths = widths;
        }
        tables.rollups.extend(self.further_tables.iter().cloned());
        let inputs = expand(&self.inputs)?;
        let state_path = match self.inputs.first() {
            // Beside a directory, also where its name ends with a slash.
            Some(first) if matches!(inputs.first(), Some(Input::File(_))) => {
                PathBuf::from(first.trim_end_matches('/'))
            }
            _ => PathBuf::from(GATEWAY_STATE),
        };
        let about: Vec<Value> = inputs
            .iter()
            .map(Input::about)
            .collect::<anyhow::Result<_>>()?;
        let about = json!({"inputs": about, "cells": self.cells_path(&tables)});
        let state_file = StateFile::new(sibling_path(&state_path, ".progress"), about);
        let noted = if self.resume {
            state_file.read()?
        } else {
            None
        };
        let position = noted.as_ref().map(Position::from_json).transpose()?;
        let mut run = Run {
            args: &self,
            connection: &connection,
            tables,
            state_file,
            position: position.unwrap_or_default(),
            progress: Progress::new(),
            skips: Skips::default(),
            mappings: Arc::default(),
            files_with_names: HashSet::new(),
            names: 0,
            records: 0,
            saw_names: noted.is_some(),
            saw_cells: false,
        };
        let imported = tokio::select! {
            imported = run.import(&inputs) => imported,
            _ = tokio::signal::ctrl_c() => Err(anyhow!("interrupted")),
        };
        run.progress.clear();
        run.skips.print("skipped");
        imported.map_err(|error| {
            let state = run.state_file.path();
            let context = incomplete(&error, self.skip_errors, state.exists().then_some(state));
            error.context(context)
        })?;
        run.state_file.remove();
        if run.saw_cells && !run.saw_names {
            let table = &run.tables.layout.names.uid;
            eprintln!(
                "icecore: warning: no cells of table {table}: UIDs were taken for those of this \
                 server"
            );
        }
        eprintln!(
            "icecore: imported {}; {} new names, {} records",
            run.progress.rates(),
            run.names,
            run.records
        );
        Ok(())
    }

    fn lines_path(&self) -> String {
        let mut query = form_urlencoded::Serializer::new(String::new());
        if self.skip_errors {
            query.append_pair("skip_errors", "true");
        }
        if self.auto_metric {
            query.append_pair("auto_metric", "true");
        }
        format!("/api/v1/import/opentsdb?{}", query.finish())
    }

    fn cells_path(&self, tables: &ConfiguredTables) -> String {
        let mut query = form_urlencoded::Serializer::new(String::new());
        if self.skip_errors {
            query.append_pair("skip_errors", "true");
        }
        query.extend_pairs(params(&tables.layout));
        // The server knows its own widths.
        if self.uid_widths.is_some() || self.tables.has_config() {
            query.append_pair("uid_widths", &show_widths(tables.layout.widths));
        }
        format!("/api/v1/import/opentsdb/cells?{}", query.finish())
    }
}

impl Run<'_> {
    async fn import(&mut self, inputs: &[Input]) -> anyhow::Result<()> {
        if self.position.pass == 0 {
            let mut mappings = UidMappings::default();
            for input in inputs {
                let read = self.read_mappings(input, mappings).await;
                mappings = read.with_context(|| format!("in {}", input.name()))?;
            }
            self.mappings = Arc::new(mappings);
        }
        for (number, pass) in (0..).zip([Pass::Names, Pass::Rest]) {
            if number < self.position.pass {
                continue;
            }
            for (index, input) in (0..).zip(inputs) {
                if index < self.position.input {
                    continue;
                }
                let imported = match input {
                    Input::File(path) => self.import_file(path.clone(), pass).await,
                    Input::Gateway(url) => self.import_gateway(url, pass).await,
                };
                imported.with_context(|| format!("in {}", input.name()))?;
                self.note(Position {
                    pass: number,
                    input: index + 1,
                    ..Position::default()
                })?;
            }
            self.note(Position {
                pass: number + 1,
                ..Position::default()
            })?;
        }
        Ok(())
    }

    fn note(&mut self, position: Position) -> anyhow::Result<()> {
        self.position = position;
        self.state_file.write(&self.position.to_json())
    }

    /// Adds the ids and names of a table of UIDs. They tell orphans, before any cell is sent.
    async fn read_mappings(
        &mut self,
        input: &Input,
        mut mappings: UidMappings,
    ) -> anyhow::Result<UidMappings> {
        let uid_table = self.tables.layout.names.uid.clone();
        let path = match input {
            Input::File(path) => path,
            Input::Gateway(url) => {
                let mut scan = Scan::new(url, &uid_table, Vec::new())?;
                while let Some(cells) = scan.next().await? {
                    let cells = cells.iter().filter_map(|cell| uid_cell(cell, &uid_table));
                    cells.for_each(|cell| mappings.add(&cell));
                    self.progress.update("reading names: ", None);
                }
                return Ok(mappings);
            }
        };
        let mut chunks = open(path, self.args.chunk_bytes)?;
        if chunks.form != InputFormat::Json {
            return Ok(mappings);
        }
        loop {
            let uid_table = uid_table.clone();
            let reading = tokio::task::spawn_blocking(move || {
                let next = chunks.next();
                let bytes = next.as_ref().ok().and_then(|chunk| chunk.as_ref());
                let bytes = bytes.map_or(&[][..], |chunk| &chunk.bytes[..]);
                let found = add_mappings(bytes, &uid_table, &mut mappings);
                (next.map(|chunk| chunk.is_some()), found, chunks, mappings)
            });
            let is_there;
            let found;
            (is_there, found, chunks, mappings) = reading.await?;
            if found {
                self.files_with_names.insert(path.clone());
            }
            if !is_there? {
                return Ok(mappings);
            }
            self.progress.update("reading names: ", None);
        }
    }

    async fn import_file(&mut self, path: PathBuf, pass: Pass) -> anyhow::Result<()> {
        if pass == Pass::Names && !self.files_with_names.contains(&path) {
            return Ok(());
        }
        let name = path.display().to_string();
        let mut chunks = open(&path, self.args.chunk_bytes)?;
        let is_cells = chunks.form == InputFormat::Json;
        let start = self.position.clone();
        chunks.skip_to(start.offset, start.lines, false)?;
        loop {
            let reading = tokio::task::spawn_blocking(move || (chunks.next(), chunks));
            let next;
            (next, chunks) = reading.await?;
            let Some(chunk) = next? else {
                return Ok(());
            };
            let lines = chunk.bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
            let position = Position {
                offset: chunk.end,
                lines: chunk.lines_before + lines,
                ..start.clone()
            };
            let bytes = chunk.bytes.len() as u64;
            if is_cells {
                let (layout, mappings) = (self.tables.layout.clone(), Arc::clone(&self.mappings));
                let lines_before = chunk.lines_before;
                let keeping = tokio::task::spawn_blocking(move || {
                    let names = NameTable {
                        name: &layout.names.uid,
                        mappings: &mappings,
                        widths: layout.widths,
                    };
                    keep(&chunk.bytes, pass, &names)
                });
                let (kept, orphans) = keeping.await?;
                for orphan in &orphans {
                    let line = orphan.line.unwrap_or(0) + lines_before;
                    self.skips.add_one(orphan, &format!("{name} line {line}"));
                }
                if let Some(kept) = kept {
                    self.saw_names |= pass == Pass::Names;
                    self.saw_cells = true;
                    self.send_cells(kept, lines_before, &name).await?;
                }
            } else {
                let path = self.args.lines_path();
                self.send(&path, chunk.bytes, chunk.lines_before, &name)
                    .await?;
            }
            self.note(position)?;
            self.progress.bytes += bytes;
            self.show(pass);
        }
    }

    async fn import_gateway(&mut self, url: &str, pass: Pass) -> anyhow::Result<()> {
        let names = self.tables.layout.names.clone();
        let tables: Vec<String> = match pass {
            Pass::Names => vec![names.uid],
            Pass::Rest => {
                let further = self.tables.rollups.iter().cloned();
                let mut tables = vec![names.data, names.meta, names.tree];
                tables.extend(further);
                tables
            }
        };
        let start = self.position.clone();
        for (index, table) in (0..).zip(&tables) {
            if index < start.table {
                continue;
            }
            let row = if index == start.table {
                start.row.clone()
            } else {
                Vec::new()
            };
            let is_needed = pass == Pass::Names || index == 0;
            let scanned = self.import_table(url, table, row, index, pass).await;
            match scanned {
                // Meta data, trees and rollups are not everywhere.
                Err(error) if !is_needed && error.is::<NoSuchTable>() => {
                    eprintln!("icecore: warning: {}: {error}", without_secrets(url));
                }
                scanned => scanned?,
            }
        }
        Ok(())
    }

    async fn import_table(
        &mut self,
        url: &str,
        table: &str,
        row: Vec<u8>,
        index: u64,
        pass: Pass,
    ) -> anyhow::Result<()> {
        let mut scan = Scan::new(url, table, row)?;
        let mut lines = Vec::new();
        let name = format!("{url}/{table}");
        loop {
            let cells = scan.next().await?;
            let is_end = cells.is_none();
            let mut last = None;
            let layout = &self.tables.layout;
            for cell in cells.into_iter().flatten() {
                let uid_cell = uid_cell(&cell, &layout.names.uid);
                let orphan = uid_cell.and_then(|uid_cell| {
                    let orphan = self.mappings.orphan(0, &uid_cell, layout.widths);
                    orphan.filter(|_| pass == Pass::Names)
                });
                match orphan {
                    Some(orphan) => self.skips.add_one(&orphan, &name),
                    None => cell.write(&mut lines),
                }
                last = Some(cell.row);
            }
            self.saw_names |= pass == Pass::Names && !lines.is_empty();
            self.saw_cells |= !lines.is_empty();
            if !lines.is_empty() && (is_end || lines.len() >= self.args.chunk_bytes) {
                let bytes = lines.len() as u64;
                self.send_cells(std::mem::take(&mut lines), 0, &name)
                    .await?;
                self.progress.bytes += bytes;
                if let Some(row) = last {
                    let position = Position {
                        table: index,
                        row,
                        ..self.position.clone()
                    };
                    self.note(position)?;
                }
                self.show(pass);
            }
            if is_end {
                return Ok(());
            }
        }
    }

    async fn send_cells(
        &mut self,
        lines: Vec<u8>,
        lines_before: u64,
        name: &str,
    ) -> anyhow::Result<()> {
        let path = self.args.cells_path(&self.tables);
        self.send(&path, lines, lines_before, name).await
    }

    /// Sends lines until they are stored.
    async fn send(
        &mut self,
        path: &str,
        lines: Vec<u8>,
        lines_before: u64,
        name: &str,
    ) -> anyhow::Result<()> {
        let body = tokio::task::spawn_blocking(move || zstd::bulk::compress(&lines, 1)).await??;
        let headers = [(CONTENT_ENCODING, "zstd")];
        let report = upload(self.connection, path, &headers, body.into(), lines_before).await?;
        self.skips.add(&report, |line| {
            format!("{name} line {}", lines_before + line)
        });
        let count = |key: &str| report[key].as_u64().unwrap_or(0);
        self.progress.samples += count("samples") + count("histograms");
        self.names += count("names");
        self.records += count("records");
        Ok(())
    }

    fn show(&self, pass: Pass) {
        let what = match pass {
            Pass::Names => "importing names: ",
            Pass::Rest => "importing: ",
        };
        self.progress.update(what, None);
    }
}

/// Opens a file of lines or cells.
fn open(path: &Path, chunk_bytes: usize) -> anyhow::Result<Chunks> {
    let chunks = Chunks::open(plain(File::open(path)?)?, chunk_bytes)?;
    if chunks.form == InputFormat::Native {
        bail!("neither lines nor cells: icecore import reads the native format");
    }
    Ok(chunks)
}

/// The table of UIDs.
struct NameTable<'a> {
    name: &'a str,
    mappings: &'a UidMappings,
    widths: [usize; 3],
}

/// Returns what a cell of the table of UIDs says.
fn uid_cell(cell: &CellLine<'_>, uid_table: &str) -> Option<UidCell> {
    if cell.table != uid_table {
        return None;
    }
    let CellLine {
        row,
        family,
        qualifier,
        value,
        ..
    } = cell;
    let decoded = UidCell::decode(Cell {
        row,
        family,
        qualifier,
        value,
    });
    // The server says which cells cannot be read.
    decoded.ok()
}

/// Adds the ids and names of lines. Returns `false` if there is no cell of the table of UIDs.
fn add_mappings(lines: &[u8], uid_table: &str, mappings: &mut UidMappings) -> bool {
    let mut found = false;
    for line in lines.split(|byte| *byte == b'\n') {
        let text = std::str::from_utf8(line).unwrap_or_default();
        let Ok(cell) = CellLine::parse(text) else {
            continue;
        };
        found |= cell.table == uid_table;
        if let Some(cell) = uid_cell(&cell, uid_table) {
            mappings.add(&cell);
        }
    }
    found
}

/// The lines of a pass; others are empty, so that lines keep their numbers. `None` where there is
/// nothing. Orphans among names are left out, and returned with their lines.
fn keep(lines: &[u8], pass: Pass, names: &NameTable<'_>) -> (Option<Vec<u8>>, Vec<Skipped>) {
    let mut kept = Vec::with_capacity(lines.len());
    let mut orphans = Vec::new();
    let mut is_empty = true;
    for (number, line) in (1..).zip(lines.split_inclusive(|byte| *byte == b'\n')) {
        let text = std::str::from_utf8(line).unwrap_or_default();
        let cell = CellLine::parse(text).ok();
        // What is no cell is told with the rest.
        let name = cell.filter(|cell| cell.table == names.name);
        let is_wanted = name.is_some() == (pass == Pass::Names);
        let uid_cell = name.and_then(|cell| uid_cell(&cell, names.name));
        let orphan = uid_cell.and_then(|cell| names.mappings.orphan(number, &cell, names.widths));
        let wanted = is_wanted && orphan.is_none();
        orphans.extend(orphan.filter(|_| is_wanted));
        if wanted && !line.trim_ascii().is_empty() {
            kept.extend_from_slice(line);
            is_empty = false;
        } else {
            kept.push(b'\n');
        }
    }
    ((!is_empty).then_some(kept), orphans)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_first_and_lines_keep_their_numbers() {
        let cell = |table: &str| {
            let cell = CellLine {
                table: table.into(),
                ..CellLine::default()
            };
            let mut line = Vec::new();
            cell.write(&mut line);
            String::from_utf8(line).unwrap()
        };
        let (data, uid) = (cell("tsdb"), cell("tsdb-uid"));
        let text = format!("{data}{uid}garbage\n\n{uid}");
        let names = NameTable {
            name: "tsdb-uid",
            mappings: &UidMappings::default(),
            widths: [3; 3],
        };
        let keep = |pass| keep(text.as_bytes(), pass, &names).0.unwrap();
        assert_eq!(keep(Pass::Names), format!("\n{uid}\n\n{uid}").into_bytes());
        assert_eq!(
            keep(Pass::Rest),
            format!("{data}\ngarbage\n\n\n").into_bytes()
        );
        assert_eq!(super::keep(b"\n\n", Pass::Rest, &names).0, None);
    }

    #[test]
    fn orphans_are_left_out_and_told_with_their_lines() {
        let cell = |row: &[u8], family: &str, value: &[u8]| {
            let cell = CellLine {
                table: "tsdb-uid".into(),
                row: row.into(),
                family: family.into(),
                qualifier: b"tagv".into(),
                value: value.into(),
                ..CellLine::default()
            };
            let mut line = Vec::new();
            cell.write(&mut line);
            String::from_utf8(line).unwrap()
        };
        let orphan = cell(&[0, 0, 0x17], "name", b"t2");
        let name = cell(&[0, 0, 0x18], "name", b"t2");
        let id = cell(b"t2", "id", &[0, 0, 0x18]);
        let text = format!("\n{orphan}{name}{id}");
        let mut mappings = UidMappings::default();
        assert!(!add_mappings(text.as_bytes(), "other", &mut mappings));
        assert!(add_mappings(text.as_bytes(), "tsdb-uid", &mut mappings));
        let names = NameTable {
            name: "tsdb-uid",
            mappings: &mappings,
            widths: [3; 3],
        };
        let (kept, orphans) = keep(text.as_bytes(), Pass::Names, &names);
        assert_eq!(kept.unwrap(), format!("\n\n{name}{id}").into_bytes());
        let [orphan] = &orphans[..] else {
            panic!("{orphans:?}")
        };
        assert_eq!(orphan.line, Some(2));
        let expected = "tagv: UID 000017 of \"t2\", which has UID 000018";
        assert_eq!(orphan.example, expected);
        let (kept, orphans) = keep(text.as_bytes(), Pass::Rest, &names);
        assert_eq!((kept, orphans), (None, Vec::new()));
    }

    #[test]
    fn positions_come_back() {
        let position = Position {
            pass: 1,
            input: 2,
            offset: 3,
            lines: 4,
            table: 5,
            row: vec![0, 255],
        };
        assert_eq!(Position::from_json(&position.to_json()).unwrap(), position);
        assert!(Position::from_json(&json!({})).is_err());
    }
}
