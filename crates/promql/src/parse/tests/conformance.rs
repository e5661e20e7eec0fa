//! Every query of Prometheus' own scripts parses.

use std::path::PathBuf;

use super::super::parse;

/// A query of a script, and whether the script expects it to fail.
struct Eval {
    place: String,
    query: String,
    may_fail: bool,
}

#[test]
fn queries_of_the_scripts_parse() {
    let root = std::env::var_os("ICECORE_SHARED").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared")),
        PathBuf::from,
    );
    let Ok(files) = std::fs::read_dir(root.join("promqltest")) else {
        skipped_tests::skip(
            "Prometheus' own PromQL scripts",
            "set ICECORE_SHARED to the directory that has promqltest/",
        );
        return;
    };
    let mut evals = Vec::new();
    for file in files {
        let path = file.unwrap().path();
        if path
            .extension()
            .is_some_and(|extension| extension == "test")
        {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            collect(&name, &std::fs::read_to_string(&path).unwrap(), &mut evals);
        }
    }
    assert!(evals.len() > 1000, "only {} queries", evals.len());
    let mut failures = Vec::new();
    for eval in &evals {
        if let Err(error) = parse(&eval.query)
            && !eval.may_fail
        {
            failures.push(format!("{}: {}\n    {error}", eval.place, eval.query));
        }
    }
    assert!(
        failures.is_empty(),
        "{} of {}:\n{}",
        failures.len(),
        evals.len(),
        failures.join("\n")
    );
}

fn collect(file: &str, script: &str, evals: &mut Vec<Eval>) {
    for (number, line) in script.lines().enumerate() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let Some(eval) = evals.last_mut()
            && line.starts_with(char::is_whitespace)
            && matches!(words.as_slice(), ["expect", "fail", ..])
        {
            eval.may_fail = true;
        }
        // `eval instant at <time> <query>`, `eval range from <t> to <t> step <d> <query>`
        let before_query = match words.as_slice() {
            [command, "instant", "at", ..] if command.starts_with("eval") => 4,
            [command, "range", "from", ..] if command.starts_with("eval") => 8,
            _ => continue,
        };
        evals.push(Eval {
            place: format!("{file}:{}", number + 1),
            query: after_words(line, before_query).to_string(),
            may_fail: words[0] == "eval_fail",
        });
    }
}

fn after_words(line: &str, count: usize) -> &str {
    let mut rest = line.trim_start();
    for _ in 0..count {
        let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
        rest = rest[end..].trim_start();
    }
    rest
}
