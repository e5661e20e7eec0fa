//! The tables beside points, as cells: UIDs, meta data, annotations, trees.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use icecore_model::CatalogRecord;
use icecore_wire::opentsdb::cell_line::CellLine;

use super::documents;
use super::export_points::offset;
use super::report::Report;
use super::tables::TableLayout;
use crate::annotation::{Annotation, to_ms};
use crate::catalog::{self, json_of};
use crate::catalog_key;
use crate::error::Error;
use crate::hbase::{CellBuf, Column, RowKey, SeriesMetaCell, TreeCell, UidCell, row_base};
use crate::meta::{SeriesMeta, UidMeta};
use crate::tree::{Branch, BranchId, Leaf, Tree};
use crate::tsd::Tsd;
use crate::uid::{Tsuid, Uid, UidKind};

/// Records that are read at once.
const RECORDS_AT_ONCE: usize = 4096;

/// An export that is under way.
pub struct TableExport {
    tsd: Arc<Tsd>,
    layout: TableLayout,
    /// First and last millisecond at which annotations start.
    range_ms: (i64, i64),
    sections: VecDeque<Section>,
    /// Where the first section goes on.
    from: Option<Vec<u8>>,
    report: Report,
}

/// Records of one kind.
#[derive(Clone, Debug)]
enum Section {
    Names(UidKind),
    UidMeta(UidKind),
    SeriesMeta,
    Annotations,
    GlobalAnnotations,
    Tree(Arc<Tree>),
    Branches(u16),
    Leaves(u16),
    Collisions(u16),
    NotMatched(u16),
}

impl TableExport {
    pub fn new(tsd: Arc<Tsd>, layout: TableLayout, range_ms: (i64, i64)) -> Self {
        let mut sections = VecDeque::new();
        sections.extend(UidKind::ALL.map(Section::Names));
        sections.extend(UidKind::ALL.map(Section::UidMeta));
        sections.extend([
            Section::SeriesMeta,
            Section::Annotations,
            Section::GlobalAnnotations,
        ]);
        for tree in tsd.trees.all() {
            let id = tree.id;
            sections.extend([
                Section::Tree(tree),
                Section::Branches(id),
                Section::Leaves(id),
                Section::Collisions(id),
                Section::NotMatched(id),
            ]);
        }
        Self {
            tsd,
            layout,
            range_ms,
            sections,
            from: None,
            report: Report::default(),
        }
    }

    pub fn report(&self) -> &Report {
        &self.report
    }

    /// The next lines, which may be none; `None` at the end.
    pub async fn next_chunk(&mut self) -> Result<Option<Vec<u8>>, Error> {
        let Some(section) = self.sections.front().cloned() else {
            return Ok(None);
        };
        let mut out = Vec::new();
        let next = match &section {
            Section::Names(kind) => self.write_names(*kind, &mut out),
            Section::Tree(tree) => {
                self.write_tree(tree, &mut out);
                None
            }
            section => {
                let mut keys = section.keys();
                if let Some(from) = self.from.take() {
                    keys.start = from;
                }
                let found = self.tsd.records.range(keys, RECORDS_AT_ONCE).await?;
                for record in &found {
                    self.write_record(section, record, &mut out)?;
                }
                let is_full = found.len() >= RECORDS_AT_ONCE;
                let last = found.into_iter().next_back().filter(|_| is_full);
                last.map(|(key, _)| catalog_key::exactly(&key).end)
            }
        };
        if next.is_none() {
            self.sections.pop_front();
        }
        self.from = next;
        Ok(Some(out))
    }

    /// Names in the order of their ids; then where to go on.
    fn write_names(&mut self, kind: UidKind, out: &mut Vec<u8>) -> Option<Vec<u8>> {
        let tsd = Arc::clone(&self.tsd);
        let space = tsd.uids.read(kind);
        let from = self.from.take();
        let from = from.and_then(|from| catalog_key::parse_id(&from));
        let names = space.names_after(Uid(from.unwrap_or(0)));
        let (mut last, mut count) = (Uid(0), 0);
        for (uid, name) in names.take(RECORDS_AT_ONCE) {
            let widths = self.layout.widths;
            for cell in [
                UidCell::Name(kind, uid, name.to_string()),
                UidCell::Id(kind, name.to_string(), uid),
            ] {
                self.write(Table::Uid, cell.encode(widths), out);
            }
            (last, count) = (uid, count + 1);
            self.report.names += 1;
        }
        if count == RECORDS_AT_ONCE {
            return Some(last.0.to_be_bytes().to_vec());
        }
        let greatest = UidCell::Greatest(kind, space.last());
        self.write(Table::Uid, greatest.encode(self.layout.widths), out);
        None
    }

    fn write_tree(&mut self, tree: &Tree, out: &mut Vec<u8>) {
        let definition = TreeCell::Definition(documents::write_tree(tree));
        let rules = tree.rules.values().flat_map(|level| level.values());
        let rules = rules.map(|rule| {
            let mut json = String::new();
            rule.write(&mut json);
            TreeCell::Rule(rule.level, rule.order, json.into_bytes())
        });
        for cell in std::iter::once(definition).chain(rules) {
            self.write(Table::Tree, cell.encode(tree.id), out);
            self.report.records += 1;
        }
    }

    fn write_record(
        &mut self,
        section: &Section,
        record: &CatalogRecord,
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let (key, value) = record;
        let widths = self.layout.widths;
        let here = self.tsd.config.uid_widths;
        let written = match section {
            Section::Names(_) | Section::Tree(_) => return Ok(()),
            Section::UidMeta(kind) => parse(|| {
                let uid = Uid(catalog_key::parse_uid(key)?);
                let meta = UidMeta::decode(value)?;
                let json = documents::write_uid_meta(&meta, *kind);
                let cell = UidCell::Meta(*kind, uid, json).encode(widths);
                Some(Some((Table::Uid, cell)))
            }),
            Section::SeriesMeta => parse(|| {
                let tsuid = Tsuid::from_bytes(catalog_key::parse_series_meta(key)?, here)?;
                let meta = SeriesMeta::decode(tsuid.clone(), value)?;
                let json = documents::write_series_meta(&meta, widths);
                let cell = SeriesMetaCell::Meta(tsuid, json).encode(widths);
                Some(Some((Table::Meta, cell)))
            }),
            Section::Annotations => parse(|| {
                let tsuid = Tsuid::from_bytes(catalog_key::parse_annotation(key)?, here)?;
                let note = Annotation::decode(Some(tsuid), json_of(value)?)?;
                Some(self.annotation(&note))
            }),
            Section::GlobalAnnotations => parse(|| {
                let note = Annotation::decode(None, json_of(value)?)?;
                Some(self.annotation(&note))
            }),
            Section::Branches(id) => parse(|| {
                let branch = Branch::decode(*id, value)?;
                let path = hashes(&BranchId::of(*id, &branch.path).hashes);
                let cell = TreeCell::Branch(path, documents::write_branch(&branch));
                Some(Some((Table::Tree, cell.encode(*id))))
            }),
            Section::Leaves(id) => parse(|| {
                let (branch, hash) = catalog_key::parse_leaf(key)?;
                let mut leaf = Leaf::decode(value)?;
                leaf.tsuid = Tsuid::from_hex(&leaf.tsuid, here)?.to_hex(widths);
                let json = documents::write_leaf(&leaf);
                let cell = TreeCell::Leaf(hashes(branch), hash, json);
                Some(Some((Table::Tree, cell.encode(*id))))
            }),
            Section::Collisions(id) => parse(|| {
                let tsuid = Tsuid::from_bytes(catalog_key::parse_tree_series(key)?, here)?;
                let owner = std::str::from_utf8(value).ok()?;
                let owner = Tsuid::from_hex(owner, here)?.to_hex(widths);
                let cell = TreeCell::Collision(tsuid.to_bytes(widths), owner);
                Some(Some((Table::Tree, cell.encode(*id))))
            }),
            Section::NotMatched(id) => parse(|| {
                let tsuid = Tsuid::from_bytes(catalog_key::parse_tree_series(key)?, here)?;
                let message = std::str::from_utf8(value).ok()?.to_owned();
                let cell = TreeCell::NotMatched(tsuid.to_bytes(widths), message);
                Some(Some((Table::Tree, cell.encode(*id))))
            }),
        };
        let unreadable = || catalog::failed(catalog_key::unreadable("a record", key));
        if let Some((table, cell)) = written.ok_or_else(unreadable)? {
            self.write(table, cell, out);
            self.report.records += 1;
        }
        Ok(())
    }

    /// `None` where it does not start in the time that is exported.
    fn annotation(&self, note: &Annotation) -> Option<(Table, CellBuf)> {
        let start_ms = to_ms(note.start_time);
        if !(self.range_ms.0..=self.range_ms.1).contains(&start_ms) {
            return None;
        }
        let base_s = row_base(start_ms.div_euclid(1000))?;
        let json = documents::write_annotation(note, self.layout.widths);
        let column = Column::Annotation(offset(start_ms, base_s), json);
        let (qualifier, value) = column.encode();
        let keys = self.layout.keys();
        let row = match &note.tsuid {
            None => keys.global_annotations(base_s),
            Some(tsuid) => keys.encode(&RowKey {
                tsuid: tsuid.clone(),
                base_s,
            }),
        };
        let cell = CellBuf {
            row,
            family: b"t".to_vec(),
            qualifier,
            value,
        };
        Some((Table::Data, cell))
    }

    fn write(&mut self, table: Table, cell: CellBuf, out: &mut Vec<u8>) {
        let names = &self.layout.names;
        let table = match table {
            Table::Data => &names.data,
            Table::Uid => &names.uid,
            Table::Meta => &names.meta,
            Table::Tree => &names.tree,
        };
        let line = CellLine {
            table: table.into(),
            row: cell.row,
            family: cell.family,
            qualifier: cell.qualifier,
            value: cell.value,
            timestamp_ms: None,
        };
        line.write(out);
        self.report.lines += 1;
    }
}

/// Which table a cell belongs to.
enum Table {
    Data,
    Uid,
    Meta,
    Tree,
}

/// Runs a closure in which `?` ends at what cannot be read.
fn parse<T>(read: impl FnOnce() -> Option<T>) -> Option<T> {
    read()
}

impl Section {
    fn keys(&self) -> Range<Vec<u8>> {
        let contents = |id: &u16, index: usize| {
            let mut contents = catalog_key::tree_contents(*id);
            std::mem::take(&mut contents[index])
        };
        match self {
            // These are in memory.
            Self::Names(_) | Self::Tree(_) => Vec::new()..Vec::new(),
            Self::UidMeta(kind) => catalog_key::uid_metas(*kind as u8),
            Self::SeriesMeta => catalog_key::all_series_metas(),
            Self::Annotations => catalog_key::all_annotations(),
            Self::GlobalAnnotations => catalog_key::global_annotations(0, u64::MAX),
            Self::Branches(id) => contents(id, 0),
            Self::Leaves(id) => contents(id, 1),
            Self::Collisions(id) => contents(id, 2),
            Self::NotMatched(id) => contents(id, 3),
        }
    }
}

/// Four bytes are a hash each.
fn hashes(bytes: &[u8]) -> Vec<u32> {
    let (hashes, _) = bytes.as_chunks::<4>();
    hashes
        .iter()
        .map(|hash| u32::from_be_bytes(*hash))
        .collect()
}
