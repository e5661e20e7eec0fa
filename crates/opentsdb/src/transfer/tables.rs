//! Which table is which, and how its keys are laid out.

use crate::config::ConfigFile;
use crate::hbase::{KeyLayout, Salt};
use crate::rollup::{RollupConfig, RollupInterval};

/// The names of the original's tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableNames {
    /// `tsd.storage.hbase.data_table`
    pub data: String,
    /// `tsd.storage.hbase.uid_table`
    pub uid: String,
    /// `tsd.storage.hbase.meta_table`
    pub meta: String,
    /// `tsd.storage.hbase.tree_table`
    pub tree: String,
}

impl Default for TableNames {
    fn default() -> Self {
        Self {
            data: "tsdb".into(),
            uid: "tsdb-uid".into(),
            meta: "tsdb-meta".into(),
            tree: "tsdb-tree".into(),
        }
    }
}

/// The tables of an installation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableLayout {
    pub names: TableNames,
    /// Bytes of UIDs: of metrics, tag keys and tag values.
    pub widths: [usize; 3],
    pub salt: Salt,
}

/// What the cells of a table are about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Table<'a> {
    Data,
    Uid,
    Meta,
    Tree,
    /// Points of an interval, aggregated over tags or not.
    Rollup(&'a RollupInterval, RollupTable),
}

/// Which table of an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RollupTable {
    Temporal,
    PreAggregates,
}

impl TableLayout {
    pub(super) fn keys(&self) -> KeyLayout {
        KeyLayout {
            widths: self.widths,
            salt: self.salt,
        }
    }

    /// The table of a name, if it is known. Names of rollup tables are in their configuration.
    pub(super) fn table<'a>(
        &self,
        name: &str,
        rollups: Option<&'a RollupConfig>,
    ) -> Option<Table<'a>> {
        let names = &self.names;
        for (known, table) in [
            (&names.data, Table::Data),
            (&names.uid, Table::Uid),
            (&names.meta, Table::Meta),
            (&names.tree, Table::Tree),
        ] {
            if known == name {
                return Some(table);
            }
        }
        let intervals = rollups.map(RollupConfig::intervals).unwrap_or_default();
        intervals.iter().find_map(|interval| {
            let kind = if interval.table == name {
                RollupTable::Temporal
            } else if interval.pre_aggregation_table == name {
                RollupTable::PreAggregates
            } else {
                return None;
            };
            Some(Table::Rollup(interval, kind))
        })
    }
}

/// The tables of an installation as its `opentsdb.conf` has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfiguredTables {
    pub layout: TableLayout,
    /// Tables of rollups and pre-aggregates.
    pub rollups: Vec<String>,
}

impl ConfiguredTables {
    /// Reads what a file says about tables; the error says what is wrong with it.
    pub fn of_file(file: &ConfigFile) -> Result<Self, String> {
        if let Some(problem) = file.problems.first() {
            let (line, key, text) = (problem.line, &problem.key, &problem.text);
            return Err(format!("line {line}: {key}: {text}"));
        }
        let value = |key: &str| {
            let mut notes = file.not_needed.iter().rev();
            let found = notes.find(|note| note.key == key);
            found.map(|note| note.text.trim().to_owned())
        };
        let number = |key: &str, default: u32| match value(key) {
            None => Ok(default),
            Some(text) => text
                .parse()
                .map_err(|_| format!("{key}: {text:?} is no number")),
        };
        let defaults = TableNames::default();
        let names = TableNames {
            data: value("tsd.storage.hbase.data_table").unwrap_or(defaults.data),
            uid: value("tsd.storage.hbase.uid_table").unwrap_or(defaults.uid),
            meta: value("tsd.storage.hbase.meta_table").unwrap_or(defaults.meta),
            tree: value("tsd.storage.hbase.tree_table").unwrap_or(defaults.tree),
        };
        let width = number("tsd.storage.salt.width", 0)?;
        let buckets = number("tsd.storage.salt.buckets", Salt::BUCKETS)?;
        let salt = Salt::new(width as usize, buckets);
        let salt = salt.ok_or("tsd.storage.salt: at most 8 bytes, and at least 1 bucket")?;
        let rollups = file.config.rollups().map(RollupConfig::parse);
        let rollups = rollups
            .transpose()
            .map_err(|error| format!("tsd.rollups.config: {error}"))?;
        let intervals = rollups.as_ref().map(RollupConfig::intervals);
        let mut tables: Vec<String> = Vec::new();
        for interval in intervals.unwrap_or_default() {
            for table in [&interval.table, &interval.pre_aggregation_table] {
                if !table.is_empty() && *table != names.data && !tables.contains(table) {
                    tables.push(table.clone());
                }
            }
        }
        Ok(Self {
            layout: TableLayout {
                names,
                widths: file.config.uid_widths,
                salt,
            },
            rollups: tables,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_those_of_the_file() {
        let text = "tsd.storage.hbase.data_table = t1\n\
                    tsd.storage.hbase.uid_table = t1-uid\n\
                    tsd.storage.salt.width = 1\n\
                    tsd.storage.uid.width.tagv = 4\n\
                    tsd.rollups.enable = true\n\
                    tsd.rollups.config = r.json\n";
        let rollups = r#"{"aggregationIds":{"sum":0},"intervals":[
            {"table":"t1","preAggregationTable":"p","interval":"1m","rowSpan":"1h"},
            {"table":"h","preAggregationTable":"p","interval":"1h","rowSpan":"1n"}]}"#;
        let file = ConfigFile::read(text, |_| Ok(rollups.into()));
        let tables = ConfiguredTables::of_file(&file).unwrap();
        assert_eq!(tables.layout.names.data, "t1");
        assert_eq!(tables.layout.names.uid, "t1-uid");
        assert_eq!(tables.layout.names.tree, "tsdb-tree");
        assert_eq!(tables.layout.widths, [3, 3, 4]);
        assert_eq!(
            (tables.layout.salt.width(), tables.layout.salt.buckets()),
            (1, 20)
        );
        assert_eq!(tables.rollups, ["p", "h"]);
        for broken in [
            "tsd.storage.salt.width = x",
            "tsd.storage.salt.width = 9",
            "tsd.mode = x",
        ] {
            let file = ConfigFile::read(broken, |_| Err("no file".into()));
            assert!(ConfiguredTables::of_file(&file).is_err(), "{broken}");
        }
    }
}
