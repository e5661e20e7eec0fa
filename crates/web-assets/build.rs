//! Compresses every file of `web/dist` and writes the table that `src/lib.rs` includes.
//!
//! Holds always:
//! - The same files give the same table: it is sorted by path, and gzip carries no times.
//! - A file whose content type is not known stops the build, so that nothing is served as a guess.

#![allow(
    clippy::print_stdout,
    reason = "this is how a build script talks to cargo"
)]

use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use xxhash_rust::xxh3::xxh3_128;

fn main() -> Result<(), Box<dyn Error>> {
    // Asked for when it runs: the script may have been built for another checkout.
    let package = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR")?);
    let dist = package.join("../../web/dist");
    // Of a folder cargo watches everything below it.
    println!("cargo::rerun-if-changed={}", dist.display());
    let mut files = Vec::new();
    collect(&dist, &mut files).map_err(|error| {
        let dist = dist.display();
        format!("cannot read {dist}, which has the built web interface: {error}")
    })?;
    files.sort();
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    let mut table = String::from("&[\n");
    for (number, file) in files.iter().enumerate() {
        let path = file.strip_prefix(&dist)?.to_str();
        let path = path.ok_or_else(|| format!("{} is not UTF-8", file.display()))?;
        let content = fs::read(file)?;
        let compressed = out.join(format!("{number}.gz"));
        let mut encoder = GzEncoder::new(fs::File::create(&compressed)?, Compression::best());
        encoder.write_all(&content)?;
        encoder.finish()?;
        writeln!(
            table,
            "Asset {{ path: {path:?}, content_type: {:?}, etag: {:?}, gzip: include_bytes!({compressed:?}) }},",
            content_type(path)?,
            // Weak, because the compressed form and the plain one share it.
            format!("W/\"{:032x}\"", xxh3_128(&content)),
        )?;
    }
    table.push(']');
    fs::write(out.join("assets.rs"), table)?;
    Ok(())
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}

fn content_type(path: &str) -> Result<&'static str, String> {
    let extension = path.rsplit_once('.').map_or("", |(_, extension)| extension);
    Ok(match extension {
        "html" => "text/html; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "ico" => "image/x-icon",
        "woff2" => "font/woff2",
        "json" => "application/json",
        "webmanifest" => "application/manifest+json",
        "txt" => "text/plain; charset=utf-8",
        _ => {
            return Err(format!(
                "the content type of {path} is not known here: add it"
            ));
        }
    })
}
