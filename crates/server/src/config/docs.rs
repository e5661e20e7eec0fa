//! The tables of `docs/configuration.md`: generated from the registry, and held against the file.
//!
//! `UPDATE_DOCS=1` rewrites the part between the markers instead of comparing it.

use std::fmt::Write as _;
use std::path::Path;

use super::registry::{SECTIONS, SETTINGS, Setting};
use super::reload::is_live;

const BEGIN: &str =
    "<!-- settings: generated, by UPDATE_DOCS=1 cargo test -p icecore-server config -->\n";
const END: &str = "<!-- settings: end -->\n";

#[test]
fn the_documented_settings_are_the_real_ones() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let written = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = written.split_once(BEGIN).expect("begin marker");
    let (_, after) = rest.split_once(END).expect("end marker");
    let expected = format!("{before}{BEGIN}{}\n{END}{after}", tables());
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &expected).unwrap();
    } else {
        assert!(
            written == expected,
            "docs/configuration.md is not what the registry says: run this test with UPDATE_DOCS=1"
        );
    }
}

fn tables() -> String {
    let mut text = String::new();
    for (section, heading) in SECTIONS {
        let _ = writeln!(text, "\n### {heading}: `{section}`\n");
        text.push_str("| key | type | default | what and why |\n| --- | --- | --- | --- |\n");
        for setting in SETTINGS {
            if setting.section() == *section {
                text.push_str(&row(setting));
            }
        }
    }
    text
}

fn row(setting: &Setting) -> String {
    let default = match setting.default_value() {
        empty if empty.is_empty() => "(empty)".into(),
        default => format!("`{default}`"),
    };
    let bounds = match setting.bounds {
        ("", "") => String::new(),
        (least, "") => format!(", from {least}"),
        ("", most) => format!(", to {most}"),
        (least, most) => format!(", {least} to {most}"),
    };
    let short = match (setting.short_name, setting.short_variable()) {
        (Some(flag), Some(variable)) => format!(" Also `--{flag}` and `{variable}`."),
        _ => String::new(),
    };
    let live = if is_live(setting) {
        " A reload applies it."
    } else {
        ""
    };
    format!(
        "| `{}` | {}{bounds} | {default} | {}{short}{live} |\n",
        setting.key, setting.kind, setting.what,
    )
}
