//! The tutorial of `docs/events.md`, done step by step as it stands there.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

use super::{has_sql, now_ms};
use crate::served::{Serve, Workplace, free_address};

/// Where the tutorial has its server.
const ADDRESS: &str = "127.0.0.1:9090";

/// A block of code and its language.
struct Block {
    language: String,
    code: String,
}

/// The blocks of the tutorial, in their order.
fn blocks() -> Vec<Block> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/events.md");
    let text = std::fs::read_to_string(path).expect("the document is there");
    let (_, after) = text
        .split_once("## From the first event to a graph\n")
        .expect("a tutorial");
    let (tutorial, _) = after.split_once("\n## ").expect("its end");
    let mut parts = tutorial.split("```");
    parts.next();
    let mut blocks = Vec::new();
    while let Some(block) = parts.next() {
        let (language, code) = block.split_once('\n').expect("a block has lines");
        blocks.push(Block {
            language: language.to_owned(),
            code: code.to_owned(),
        });
        parts.next();
    }
    blocks
}

/// A directory with `icecore` in it, which talks to the server of this test.
fn tools(workplace: &Workplace, address: &str) -> String {
    let directory = workplace.path("bin");
    std::fs::create_dir_all(&directory).expect("a directory");
    let binary = std::env::var("ICECORE_BINARY");
    let binary = binary.unwrap_or_else(|_| env!("CARGO_BIN_EXE_icecore").to_owned());
    // Whatever talks to a server talks to this one.
    let script = format!(
        "#!/bin/sh\ncase \"$1 $2\" in\n'events check') exec '{binary}' \"$@\" ;;\n\
         *) exec '{binary}' \"$@\" --server http://{address} ;;\nesac\n"
    );
    let file = directory.join("icecore");
    std::fs::write(&file, script).expect("a script");
    let executable = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(&file, executable).expect("it can be run");
    let path = std::env::var("PATH").expect("there are programs");
    format!("{}:{path}", directory.display())
}

fn shell(code: &str, directory: &Path, path: &str) -> Output {
    let output = Command::new("bash")
        .args(["-euo", "pipefail", "-c", code])
        .current_dir(directory)
        .env("PATH", path)
        .output();
    output.expect("a shell")
}

#[test]
fn a_newcomer_can_follow_the_tutorial() {
    let has_curl = Command::new("curl").arg("--version").output().is_ok();
    if !has_curl {
        skipped_tests::skip("the tutorial of events", "apt-get install curl");
        return;
    }
    let workplace = Workplace::new();
    let address = free_address().to_string();
    let blocks = blocks();
    assert_eq!(blocks[0].code.trim(), "icecore serve");
    let served = Serve::on_default_port(workplace.path("data"), workplace.path("log"))
        .flags(["--listen", &address])
        .start();
    let directory = workplace.path("work");
    std::fs::create_dir_all(&directory).expect("a directory");
    let path = tools(&workplace, &address);
    let began_ms = now_ms();
    let mut said: Vec<String> = Vec::new();
    for block in &blocks[1..] {
        match block.language.as_str() {
            // The documents, which the text tells to save.
            "yaml" => {
                std::fs::write(directory.join("shop.yaml"), &block.code).expect("a file");
            }
            // An answer: the last command has given one of its form.
            "json" => {
                let shown: serde_json::Value =
                    serde_json::from_str(&block.code).expect("JSON in the document");
                let answer: serde_json::Value =
                    serde_json::from_str(said.last().expect("a command")).expect("JSON");
                let keys = |json: &serde_json::Value| {
                    let object = json.as_object().expect("an object");
                    object.keys().cloned().collect::<Vec<String>>()
                };
                assert_eq!(keys(&answer), keys(&shown));
                assert_eq!(answer["status"], shown["status"]);
            }
            _ => {
                // Events a second apart are for people to look at.
                let code = block
                    .code
                    .replace(ADDRESS, &address)
                    .replace("sleep 1", "sleep 0.1");
                let output = shell(&code, &directory, &path);
                let text = String::from_utf8_lossy(&output.stdout).into_owned();
                let error = String::from_utf8_lossy(&output.stderr);
                if code.contains("icecore events sql") && !has_sql() {
                    assert!(!output.status.success() && text.is_empty(), "{text}");
                    assert!(error.contains("without SQL"), "{error}");
                    said.push(text);
                    continue;
                }
                assert!(
                    output.status.success(),
                    "{code}\n{error}\n{text}\n{}",
                    served.log()
                );
                said.push(text);
            }
        }
    }
    let took_ms = now_ms() - began_ms;
    assert!(took_ms < 240_000, "it took {took_ms} ms");
    let [registered, published, more, counters, found, rows, graph] = &said[..] else {
        panic!("{} commands: {said:#?}", said.len());
    };
    assert!(
        registered.contains("shop: 1 types of events"),
        "{registered}"
    );
    assert!(registered.contains("version 1: shop"), "{registered}");
    assert!(published.contains("\"stored\""), "{published}");
    assert_eq!(more, "");
    // One, and sixty more: every third by the app.
    let counters: serde_json::Value = serde_json::from_str(counters).expect("JSON");
    let counts = counters["data"]["intervals"]
        .as_array()
        .expect("intervals")
        .iter();
    let counts = counts.flat_map(|one| one["counts"].as_array().expect("counts"));
    let counts = counts.map(|one| one["count"].as_i64().expect("a count"));
    assert_eq!(counts.sum::<i64>(), 61);
    let found: serde_json::Value = serde_json::from_str(found).expect("JSON");
    assert_eq!(found["count"], 2, "{found}");
    let event = &found["data"]["events"][0];
    assert_eq!(event["attributes"]["order"]["channel"], "app", "{event}");
    for expected in ["app", "20", "web", "41"] {
        let is_there = rows.contains(expected);
        assert_eq!(is_there, has_sql(), "{expected}:\n{rows}");
    }
    // The gauge is that of the last interval that has ended.
    for expected in ["app", "web", "stock_level{"] {
        assert!(graph.contains(expected), "{expected}:\n{graph}");
    }
}
