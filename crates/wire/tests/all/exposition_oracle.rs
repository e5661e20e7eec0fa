//! The exposition parser beside others that read the same bodies, many of them damaged:
//!
//! - Prometheus' own parser, if `ICECORE_TEXTPARSE` names the program of `testdata/wire/textparse`.
//!   Both must refuse the same bodies and read the same from the others.
//! - `promtool check metrics`, if it is installed. It is another parser, stricter in some rules and
//!   more lenient in others, so that it only judges bodies on whose rules both agree.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};

use icecore_wire::exposition::{Entry, Format, Parser, SeriesValue};

/// Splitmix64: the same bodies in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    fn pick<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.below(choices.len())]
    }
}

const LINES: &[&str] = &[
    "# HELP a Some help \\\\ with \\n escapes \\\" \\x",
    "# HELP a",
    "# HELP a ",
    "# TYPE a counter",
    "# TYPE a gauge",
    "# TYPE h histogram",
    "# TYPE s summary",
    "# TYPE \"q.r\" untyped",
    "# TYPE u unknown",
    "# UNIT a_seconds seconds",
    "# a comment",
    "a 1",
    "a_total{x=\"y\",z=\"\"} 1.5",
    "a{x=\"\\\"\\\\\\n\\t\"} 2",
    "h_bucket{le=\"1\"} 5",
    "h_bucket{le=\"1e6\",x=\"y\"} 5 # {id=\"a b\"} 0.5 1.5",
    "s{quantile=\"0.50\"} NaN",
    "{\"q.r\",\"l.m\"=\"v\",n=\"o\"} 17",
    "{n=\"o\",\"q.r\"} -Inf 1234",
    "a +Inf 1700000000000",
    "a 1 1700000000.123",
    "a 1 1.5 # {} 2",
    "h_count 3 # {id=\"x\"} 1e3",
];

const PIECES: &[&str] = &[
    " ", "\t", "\n", "\r", "\"", "\\", "{", "}", "=", ",", "#", "# ", "a", "1", ".", "-", "+", "e",
    "_", "0x1p1", "inf", "nan", "é", "\0", "  ", "HELP ", "TYPE ", "le=\"2\"", "x=\"y\"", "1_0",
    "1e400", "# EOF", "# EOF\n",
];

fn body(random: &mut Random, openmetrics: bool) -> Vec<u8> {
    let mut body = String::new();
    for _ in 0..1 + random.below(4) {
        body += random.pick(LINES);
        body.push('\n');
    }
    if openmetrics {
        body += "# EOF\n";
    }
    let mut body = body.into_bytes();
    for _ in 0..random.below(4) {
        let at = random.below(body.len() + 1);
        let to = (at + random.below(3)).min(body.len());
        body.splice(at..to, random.pick(PIECES).bytes());
    }
    body
}

fn hex(bytes: impl AsRef<[u8]>) -> String {
    bytes.as_ref().iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

/// What is read, in the words of `testdata/wire/textparse`; nothing for a body that is refused.
fn words(body: &[u8], format: Format) -> Option<String> {
    let mut words = String::from("ok");
    let mut parser = Parser::new(body, format);
    while let Some(entry) = parser.next().ok()? {
        match entry {
            Entry::Type {
                family,
                metric_type,
            } => {
                let _ = write!(words, " T,{},{metric_type}", hex(&*family));
            }
            Entry::Help { family, text } => {
                let _ = write!(words, " H,{},{}", hex(&*family), hex(&*text));
            }
            Entry::Unit { family, unit } => {
                let _ = write!(words, " U,{},{}", hex(&*family), hex(&*unit));
            }
            Entry::Series(series) => {
                let mut pairs = Vec::new();
                series.labels(&mut pairs).ok()?;
                pairs.sort();
                words += " S";
                for (name, value) in &pairs {
                    let _ = write!(words, ",{}={}", hex(&**name), hex(&**value));
                }
                let SeriesValue::Float(value) = series.value else {
                    panic!("text has no native histograms")
                };
                let _ = write!(words, ",{:x}", value.to_bits());
                if let Some(timestamp) = series.timestamp_ms {
                    let _ = write!(words, "@{timestamp}");
                }
                for exemplar in series.exemplars() {
                    let exemplar = exemplar.ok()?;
                    let _ = write!(words, "#{:x}", exemplar.value.to_bits());
                    if let Some(timestamp) = exemplar.timestamp_ms {
                        let _ = write!(words, "@{timestamp}");
                    }
                }
            }
        }
    }
    Some(words)
}

/// Where we differ from Prometheus' parser on purpose.
fn differs_on_purpose(body: &[u8], ours: &str, theirs: &str) -> bool {
    // Its lexer takes a zero byte for the end in some states, skips it in others and refuses it in
    // a third kind.
    body.contains(&0)
        // Blanks before a name become part of the name there.
        || body.starts_with(b" ") || body.starts_with(b"\t")
        || body.windows(2).any(|pair| matches!(pair, b"\n " | b"\n\t"))
        // A name with a number right behind it, as in `a+1`, is a sample there.
        || (ours == "err" && theirs != "err" && body.split(|b| *b == b'\n').any(abuts))
        // Line ends between quotes are read here only in label values, and not after a brace and a
        // number.
        || (ours == "err" && theirs != "err" && body.split(|b| *b == b'\n').any(ends_in_quotes))
        // Text timestamps with a minus are read here.
        || (theirs == "err" && contains(body, " -"))
        // Names that are not UTF-8 are found later there, by the scrape loop.
        || (ours == "err" && str::from_utf8(body).is_err())
        // Bounds and quantiles may have Go's newer forms there, which values may not.
        || contains(body, "_0") || contains(body, "0x")
        // Families in quotes keep their escapes there.
        || contains(body, "HELP \"") || contains(body, "TYPE \"")
        // Timestamps that no 64 bits hold are whatever the conversion gives there.
        || (ours == "err" && theirs.contains("@-9223372036854775808"))
}

fn contains(body: &[u8], part: &str) -> bool {
    body.windows(part.len())
        .any(|window| window == part.as_bytes())
}

fn ends_in_quotes(line: &[u8]) -> bool {
    line.iter().filter(|byte| **byte == b'"').count() % 2 == 1
}

/// Whether a line begins with a name and a character that neither belongs to it nor ends it.
fn abuts(line: &[u8]) -> bool {
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b':');
    let after = line.iter().find(|byte| !is_name(byte));
    line.first().is_some_and(is_name) && matches!(after, Some(b'+' | b'-' | b'.'))
}

#[test]
fn the_same_as_prometheus_textparse() {
    let Ok(program) = std::env::var("ICECORE_TEXTPARSE") else {
        skipped_tests::skip(
            "pages compared with Prometheus' parser",
            "build testdata/wire/textparse and set ICECORE_TEXTPARSE to it",
        );
        return;
    };
    let count =
        std::env::var("ICECORE_TEXTPARSE_BODIES").map_or(20_000, |text| text.parse().unwrap());
    let mut random =
        Random(std::env::var("ICECORE_TEXTPARSE_SEED").map_or(1, |text| text.parse().unwrap()));
    let bodies: Vec<(bool, Vec<u8>)> = (0..count)
        .map(|i| (i % 2 == 1, body(&mut random, i % 2 == 1)))
        .collect();
    let mut child = Command::new(program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut stdin = child.stdin.take().expect("it is piped");
    let requests: Vec<u8> = bodies
        .iter()
        .flat_map(|(openmetrics, body)| {
            let head = [
                [u8::from(*openmetrics)].as_slice(),
                &(body.len() as u32).to_le_bytes(),
            ]
            .concat();
            head.into_iter().chain(body.iter().copied())
        })
        .collect();
    let writer = std::thread::spawn(move || stdin.write_all(&requests));
    let output = child.wait_with_output().expect("it ends");
    writer.join().unwrap().unwrap();
    let output = String::from_utf8(output.stdout).unwrap();
    let (mut differences, mut accepted) = (Vec::new(), 0);
    for ((openmetrics, body), theirs) in bodies.iter().zip(output.lines()) {
        let format = if *openmetrics {
            Format::OpenMetrics
        } else {
            Format::Text004
        };
        let ours = words(body, format).unwrap_or("err".into());
        accepted += u32::from(ours != "err");
        if ours != theirs && !differs_on_purpose(body, &ours, theirs) {
            let body = String::from_utf8_lossy(body);
            differences.push(format!(
                "{openmetrics} {body:?}\n  ours   {ours}\n  theirs {theirs}"
            ));
        }
    }
    println!(
        "{count} bodies, {accepted} accepted, {} differences",
        differences.len()
    );
    differences.truncate(40);
    assert!(differences.is_empty(), "\n{}", differences.join("\n"));
}

/// Lines on whose rules promtool's parser and the server's agree: no quoted names, no blanks where
/// one of them minds, one family with one type.
const AGREED: &[&str] = &[
    "agreed_total 1",
    "agreed_total{x=\"y\"} 1.5e3",
    "agreed_total{x=\"\\\"\\\\\\n\",y=\"z\"} +Inf",
    "agreed_total{x=\"z\",} 2 1700000000000",
    "agreed_total{y=\"é\"} NaN",
];

const DAMAGES: &[&str] = &[
    "", "", "x", "{", "}", "\"", "=", ",,", "1 1 1", " abc", "-", "#", "\\",
];

#[test]
fn the_same_bodies_are_refused_by_promtool() {
    if Command::new("promtool").arg("--version").output().is_err() {
        skipped_tests::skip("pages compared with promtool", "apt install prometheus");
        return;
    }
    let mut random = Random(5);
    let (mut accepted, mut refused) = (0, 0);
    for _ in 0..60 {
        let mut line = random.pick(AGREED).to_string();
        let damage = random.pick(DAMAGES);
        let mut at = random.below(line.len() + 1);
        while !line.is_char_boundary(at) {
            at -= 1;
        }
        line.insert_str(at, damage);
        let body = format!("# HELP agreed_total Help.\n# TYPE agreed_total counter\n{line}\n");
        if !judged(&line, damage) {
            continue;
        }
        let ours = words(body.as_bytes(), Format::Text004).is_some();
        let theirs = promtool_reads(body.as_bytes());
        assert_eq!(ours, theirs, "{body:?}");
        *(if ours { &mut accepted } else { &mut refused }) += 1;
    }
    assert!(accepted > 5 && refused > 5, "{accepted} {refused}");
}

/// Whether both parsers have the same rule for a damaged line.
fn judged(line: &str, damage: &str) -> bool {
    // A comment is checked by promtool, a name of another family is another family, and a quote, a
    // backslash or a minus may be fine for one of them where it stands.
    !line.starts_with('#')
        && (line.starts_with("agreed_total{") || line.starts_with("agreed_total "))
        && !matches!(damage, "\\" | "-" | "\"" | "x" | "=" | ",,")
        // Escapes that do not exist are refused by promtool and stay as they are in the server.
        && (damage.is_empty() || !line.contains('\\'))
}

/// What promtool has to say about style ends with another status than a parse error.
fn promtool_reads(body: &[u8]) -> bool {
    let mut child = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool starts");
    let mut stdin = child.stdin.take().expect("it is piped");
    // It may have seen enough before it has read all.
    let _ = stdin.write_all(body);
    drop(stdin);
    let output = child.wait_with_output().expect("promtool ends");
    let said = String::from_utf8_lossy(&output.stderr);
    !said.contains("error while linting")
}
