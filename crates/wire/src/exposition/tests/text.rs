//! The text formats.

use super::super::*;
use super::read;
use crate::prometheus::TextWriter;
use proptest::prelude::*;

fn text(body: &str) -> Result<Vec<String>, String> {
    text_bytes(body.as_bytes())
}

fn text_bytes(body: &[u8]) -> Result<Vec<String>, String> {
    read(body, Format::Text004, ParserOptions::default())
}

fn check(body: &str, expected: &[&str]) {
    assert_eq!(text(body).unwrap(), expected, "{body:?}");
}

fn refused(body: &str, reason: &str) {
    let error = text(body).expect_err(body);
    assert!(error.contains(reason), "{body:?} gave {error}");
}

#[test]
fn a_body_of_every_kind_of_line() {
    check(
        concat!(
            "# HELP rpc_seconds How long \\\\ it\\ntook, \\\"quoted\\\".\n",
            "# \tTYPE rpc_seconds summary\n",
            "rpc_seconds{quantile=\"0\"} 4.9351e-05\n",
            "rpc_seconds{quantile=\"0.25\",} 7.424100000000001e-05\n",
            "rpc_seconds{ quantile = \"1\", a = \"b\" , }\t8 \n",
            "rpc_seconds { quantile=\"2.0\" a=\"b\" }5\n",
            "\n",
            " \t \n",
            "#\n#no comment\n# HELPS nothing\n# HELP\n# TYPE\n# UNIT rpc_seconds seconds\n",
            "rpc_seconds_count 99\n",
            "some:rule{a_b=\"c\"}\t1\n",
            "  # TYPE up gauge\n",
            "\tup 33  \t123123  \n",
            "_up{_l=\"\"} -1 0\n",
            "last +Inf -5",
        ),
        &[
            "help rpc_seconds How long \\ it\ntook, \\\"quoted\\\".",
            "type rpc_seconds summary",
            "__name__=rpc_seconds quantile=0.0 → 0.000049351",
            "__name__=rpc_seconds quantile=0.25 → 0.00007424100000000001",
            "__name__=rpc_seconds quantile=1.0 a=b → 8",
            "__name__=rpc_seconds quantile=2.0 a=b → 5",
            "__name__=rpc_seconds_count → 99",
            "__name__=some:rule a_b=c → 1",
            "type up gauge",
            "__name__=up → 33 @123123",
            "__name__=_up _l= → -1 @0",
            "__name__=last → inf @-5",
        ],
    );
}

#[test]
fn metadata_without_text() {
    check(
        "# HELP a\n# HELP b \n# HELP c  two\n",
        &["help a ", "help b ", "help c  two"],
    );
    check("# TYPE a untyped\n", &["type a unknown"]);
    check("# HELP a b\r\n", &["help a b\r"]);
    check("# HELP m foo\0bar\n", &["help m foo\0bar"]);
    refused("# TYPE a\n", "invalid metric type");
    refused("# TYPE a counter \n", "invalid metric type");
    refused("# TYPE a counter\r\n", "invalid metric type");
    refused("# TYPE a unknown\n", "invalid metric type");
    refused("# TYPE #\n", "expected a metric name");
    refused("# HELP #\n", "expected a metric name");
    refused("# HELP \n", "expected a metric name");
}

#[test]
fn names_in_quotes() {
    check(
        concat!(
            "# HELP \"go.gc\" A \"summary\".\n# TYPE \"go.gc\" summary\n",
            "{\"go.gc\",quantile=\"0\"} 1\n",
            "{ \"go.gc\", quantile= \"1.0\", a= \"b\", } 2\n",
            "{\"go.count\"} 99\n",
            "{a=\"b\",\"after\"} 1\n",
            "{\"10€ {x\\ny} \\\"z\\\"\",\"l©\\n'q'\"=\"6\"} 10.0",
        ),
        &[
            "help go.gc A \"summary\".",
            "type go.gc summary",
            "__name__=go.gc quantile=0.0 → 1",
            "__name__=go.gc quantile=1.0 a=b → 2",
            "__name__=go.count → 99",
            "__name__=after a=b → 1",
            "__name__=10€ {x\ny} \"z\" l©\n'q'=6 → 10",
        ],
    );
    refused("{a=\"ok\"} 1", "expected a metric name");
    refused("{} 1", "expected a metric name");
    refused("{\"\"} 1", "expected a metric name");
    refused("{\"a\",\"b\"} 1", "already set");
    refused("a{\"b\"} 1", "already set");
    refused("{\"a\", \"b = \"c\"} 1", "expected =");
    refused("{\"a\",b\\nc=\"d\"} 1", "expected =");
}

#[test]
fn label_values() {
    check(
        "a{b=\"\\\"x\\\" \\\\ \\n \\t }\"} 1\n",
        &["__name__=a b=\"x\" \\ \n \\t } → 1"],
    );
    check("a{b=\"\0\"} 1", &["__name__=a b=\0 → 1"]);
    // Line ends are characters like others between quotes.
    check(
        "a{b=\"one\ntwo}\nthree\",c=\"d\"} 1\nz 2",
        &["__name__=a b=one\ntwo}\nthree c=d → 1", "__name__=z → 2"],
    );
    for (body, reason) in [
        ("a{b='c'} 1\n", "expected a label value"),
        ("a{b=\n", "expected value"),
        ("a{b=c} 1", "expected a label value"),
        ("a{b=\"c} 1", "expected a closing quote"),
        ("a{b=\"c\\\"} 1", "expected a closing quote"),
        ("a{,} 1", "expected a label name"),
        ("a{b=\"c\",,} 1", "expected a label name"),
        ("a{=\"\"} 0", "expected a label name"),
        ("a{1b=\"\"} 0", "expected a label name"),
        ("a{b:c=\"\"} 0", "expected ="),
        ("a{b\0=\"h\"}\t1", "expected ="),
        ("a{b=\0\"s\"} 1", "expected a label value"),
        ("a{b=\"c\"}} 1", "end of the series"),
        ("a{b=\"c\"", "expected value"),
        ("1a 1", "metric name or {"),
        ("a-b 1", "metric name or {"),
        ("a\0{b=\"d\"} 1", "metric name or {"),
        ("é 1", "metric name or {"),
        ("a{b=\"c\",b=\"d\"} 1", "label name \"b\" is not unique"),
        (
            "a{__name__=\"b\"} 1",
            "label name \"__name__\" is not unique",
        ),
    ] {
        refused(body, reason);
    }
    for body in [
        &b"a{\xff=\"b\"} 1"[..],
        b"a{b=\"\xff\"} 1",
        b"# HELP a \xff\n",
        b"\xff 1",
    ] {
        assert!(text_bytes(body).unwrap_err().to_lowercase().contains("utf"));
    }
    let many: String = (0..40).map(|i| format!("l{i}=\"v\",")).collect();
    assert!(text(&format!("a{{{many}}} 1")).is_ok());
    refused(
        &format!("a{{{many}l7=\"\"}} 1"),
        "label name \"l7\" is not unique",
    );
}

#[test]
fn values_and_timestamps() {
    check(
        "a NaN\na nan 7\na -inf",
        &[
            "__name__=a → NaN",
            "__name__=a → NaN @7",
            "__name__=a → -inf",
        ],
    );
    for (body, reason) in [
        ("a", "expected value after metric"),
        ("a \n", "expected value after metric"),
        ("a{}\n", "expected value after metric"),
        ("a true\n", "got \"true\""),
        ("a 1_2\n", "got \"1_2\""),
        ("a 0x1p-3\n", "got \"0x1p-3\""),
        ("a 1e999\n", "got \"1e999\""),
        ("a 1\r\n", "line feed alone"),
        ("a 1\0\n", "expected a number"),
        ("a 0 1_2\n", "expected timestamp"),
        ("a 0 1.5\n", "expected timestamp"),
        ("a 0 +1\n", "expected timestamp"),
        ("a 0 -\n", "expected timestamp"),
        ("a 0 1\0", "expected timestamp"),
        ("a 0 9223372036854775808\n", "expected timestamp"),
        ("a 0 1 2\n", "expected next entry"),
        ("a 0 1 # {b=\"c\"} 1\n", "metric name or {, got '0'"),
        ("\0", "expected value"),
        ("<html><body>404</body></html>", "expected value"),
    ] {
        refused(body, reason);
    }
}

#[test]
fn errors_say_the_line() {
    assert_eq!(
        text("a 1\n\n# c\nb x\nc 1").unwrap_err(),
        "line 4: expected a number, got \"x\""
    );
    assert_eq!(
        text("a{b=\"\n\n\"} 1\nb").unwrap_err(),
        "line 4: expected value after metric"
    );
}

#[test]
fn errors_in_labels_say_the_line() {
    let mut parser = Parser::new(b"a 1\n\n{b} 1\nc 1", Format::Text004);
    parser.next().unwrap();
    let Some(Entry::Series(series)) = parser.next().unwrap() else {
        panic!()
    };
    let error = series.labels(&mut Vec::new()).unwrap_err();
    assert_eq!(parser.labels_error(&error).line, 3);
}

#[test]
fn numbers_in_labels_depend_on_the_type() {
    let body = "a{le=\"1\"} 1\n# TYPE h histogram\nh_bucket{le=\"1\"} 1\nh_bucket{le=\"+Inf\",quantile=\"1\"} 1\n\
                h_bucket{le=\"x\"} 1\nh_bucket{le=\"1000000\"} 1\n# TYPE g gauge\ng{le=\"1\"} 1\n";
    check(
        body,
        &[
            "__name__=a le=1 → 1",
            "type h histogram",
            "__name__=h_bucket le=1.0 → 1",
            "__name__=h_bucket le=+Inf quantile=1 → 1",
            "__name__=h_bucket le=x → 1",
            "__name__=h_bucket le=1e+06 → 1",
            "type g gauge",
            "__name__=g le=1 → 1",
        ],
    );
}

#[test]
fn the_text_is_what_is_exposed() {
    let body = b" a { b = \"c}\" , } 1 2\n{\"x\"}3\nplain\t4";
    let mut parser = Parser::new(body, Format::Text100);
    let mut texts = Vec::new();
    while let Some(entry) = parser.next().unwrap() {
        let Entry::Series(series) = entry else {
            panic!()
        };
        texts.push(String::from_utf8(series.text.to_vec()).unwrap());
    }
    assert_eq!(texts, ["a { b = \"c}\" , }", "{\"x\"}", "plain"]);
}

/// A name, labels and a value.
type Written = (String, Vec<(String, String)>, f64);

fn written() -> impl Strategy<Value = Vec<Written>> {
    let labels = prop::collection::btree_map("[a-zA-Z_][a-zA-Z0-9_]{0,6}", any::<String>(), 0..5);
    let labels = labels.prop_map(|labels| labels.into_iter().collect());
    let value = prop_oneof![any::<f64>(), any::<i32>().prop_map(f64::from)];
    prop::collection::vec(("[a-zA-Z_:][a-zA-Z0-9_:]{0,9}", labels, value), 0..12)
}

proptest! {
    #[test]
    fn what_our_writer_writes_is_read(samples in written(), help in any::<String>()) {
        let mut writer = TextWriter::new();
        writer.family("family", &help, MetricType::Counter);
        let mut expected = vec![format!("help family {help}"), "type family counter".into()];
        for (name, labels, value) in &samples {
            let pairs: Vec<_> = labels.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
            writer.sample(name, &pairs, *value);
            let labels: String = labels.iter().map(|(n, v)| format!("{n}={v} ")).collect();
            expected.push(format!("__name__={name} {labels}→ {value}"));
        }
        // Blanks alone are no help.
        if help.bytes().all(|b| b == b' ' || b == b'\t') {
            expected[0] = "help family ".into();
        }
        prop_assert_eq!(text_bytes(&writer.into_bytes()).unwrap(), expected);
    }

    #[test]
    fn no_bytes_panic(pieces in prop::collection::vec(
        prop::sample::select(vec![
            "a", "{", "}", "\"", "\\", "=", ",", " ", "\n", "1", "NaN", "# ", "TYPE ", "HELP ", "counter", "\t", "é",
        ]),
        0..40,
    )) {
        let _ = text(&pieces.concat());
    }
}
