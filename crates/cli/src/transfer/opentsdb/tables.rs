//! Flags that say how the original's tables are laid out.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use icecore_opentsdb::ConfigFile;
use icecore_opentsdb::hbase::Salt;
use icecore_opentsdb::transfer::{ConfiguredTables, TableLayout, TableNames};

use crate::WrongUsage;

#[derive(Args)]
#[command(next_help_heading = "Tables")]
pub(super) struct TableArgs {
    /// The opentsdb.conf of the installation, which names its tables and widths
    #[arg(long = "opentsdb.config", value_name = "FILE")]
    config: Option<PathBuf>,

    /// The table of points (default: tsdb)
    #[arg(long, value_name = "NAME")]
    data_table: Option<String>,

    /// The table of UIDs (default: tsdb-uid)
    #[arg(long, value_name = "NAME")]
    uid_table: Option<String>,

    /// The table of meta data (default: tsdb-meta)
    #[arg(long, value_name = "NAME")]
    meta_table: Option<String>,

    /// The table of trees (default: tsdb-tree)
    #[arg(long, value_name = "NAME")]
    tree_table: Option<String>,

    /// Bytes of a salt before the keys of points (default: 0)
    #[arg(long, value_name = "BYTES")]
    salt_width: Option<usize>,

    /// How many values the salt has (default: 20)
    #[arg(long, value_name = "COUNT")]
    salt_buckets: Option<u32>,
}

impl TableArgs {
    /// What flags say counts more than the file.
    pub(super) fn tables(&self) -> anyhow::Result<ConfiguredTables> {
        let mut tables = match &self.config {
            Some(path) => read_config(path)?,
            None => ConfiguredTables {
                layout: TableLayout {
                    names: TableNames::default(),
                    widths: [3; 3],
                    salt: Salt::default(),
                },
                rollups: Vec::new(),
            },
        };
        let names = &mut tables.layout.names;
        for (name, given) in [
            (&mut names.data, &self.data_table),
            (&mut names.uid, &self.uid_table),
            (&mut names.meta, &self.meta_table),
            (&mut names.tree, &self.tree_table),
        ] {
            if let Some(given) = given {
                name.clone_from(given);
            }
        }
        let salt = tables.layout.salt;
        let buckets = match salt.buckets() {
            0 => Salt::BUCKETS,
            buckets => buckets,
        };
        let width = self.salt_width.unwrap_or(salt.width());
        let salt = Salt::new(width, self.salt_buckets.unwrap_or(buckets));
        let wrong = || WrongUsage("--salt-width is at most 8, --salt-buckets at least 1".into());
        tables.layout.salt = salt.ok_or_else(wrong)?;
        Ok(tables)
    }

    pub(super) fn has_config(&self) -> bool {
        self.config.is_some()
    }
}

fn read_config(path: &Path) -> anyhow::Result<ConfiguredTables> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {shown}"))?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let open = |name: &str| {
        // A name as the daemon sees it, which may run elsewhere; beside the file otherwise.
        let beside = folder.join(Path::new(name).file_name().unwrap_or_default());
        let text = std::fs::read_to_string(folder.join(name));
        let text = text.or_else(|_| std::fs::read_to_string(beside));
        text.map_err(|error| error.to_string())
    };
    let tables = ConfiguredTables::of_file(&ConfigFile::read(&text, open));
    let tables = tables.map_err(|problem| WrongUsage(format!("{shown}: {problem}")))?;
    Ok(tables)
}

/// The layout as parameters of a request.
pub(super) fn params(layout: &TableLayout) -> Vec<(&'static str, String)> {
    let names = &layout.names;
    let mut params = vec![
        ("data_table", names.data.clone()),
        ("uid_table", names.uid.clone()),
        ("meta_table", names.meta.clone()),
        ("tree_table", names.tree.clone()),
    ];
    if layout.salt.width() > 0 {
        params.push(("salt_width", layout.salt.width().to_string()));
        params.push(("salt_buckets", layout.salt.buckets().to_string()));
    }
    params
}

/// Bytes of UIDs, as a flag has them.
pub(super) fn parse_widths(text: &str) -> Result<[usize; 3], String> {
    let width = |text: &str| text.trim().parse().ok().filter(|n| (1..=8).contains(n));
    let widths: Option<Vec<usize>> = text.split(',').map(width).collect();
    let widths = widths.and_then(|widths| widths.try_into().ok());
    widths.ok_or_else(|| format!("{text:?} is not three numbers from 1 to 8, as in 3,3,3"))
}

/// The same as text.
pub(super) fn show_widths(widths: [usize; 3]) -> String {
    widths.map(|width| width.to_string()).join(",")
}
