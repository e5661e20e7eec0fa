//! OpenMetrics, `_created` lines, and classic histograms with custom bounds.

use super::super::*;
use super::read;
use proptest::prelude::*;

const CREATED: ParserOptions = ParserOptions {
    created_timestamps: true,
    classic_beside_native: false,
    classic_to_custom_bounds: false,
    ignore_native: false,
};

const CUSTOM: ParserOptions = ParserOptions {
    created_timestamps: true,
    classic_beside_native: false,
    classic_to_custom_bounds: true,
    ignore_native: false,
};

fn openmetrics(body: &str) -> Result<Vec<String>, String> {
    read(
        body.as_bytes(),
        Format::OpenMetrics,
        ParserOptions::default(),
    )
}

fn check(body: &str, options: ParserOptions, expected: &[&str]) {
    let read = read(body.as_bytes(), Format::OpenMetrics, options);
    assert_eq!(read.unwrap(), expected, "{body:?}");
}

fn refused(body: &str, reason: &str) {
    let error = openmetrics(body).expect_err(body);
    assert!(error.contains(reason), "{body:?} gave {error}");
}

#[test]
fn a_body_of_every_kind_of_line() {
    check(
        concat!(
            "# HELP go_seconds A \\\"summary\\\" \\\\ of\\nit.\n",
            "# TYPE go_seconds summary\n",
            "# UNIT go_seconds seconds\n",
            "go_seconds{quantile=\"0\"} 4.9351e-05\n",
            "go_seconds{quantile=\"0.5\",a=\"b\",} 8.3835e-05\n",
            "# HELP empty \n",
            "# TYPE hh histogram\n",
            "hh_bucket{le=\"1\"} 1 # {} 4\n",
            "hh_bucket{le=\"+Inf\"} 2 1520879607.789 # {id=\"h-t\",x=\"\"} 5 1520879607.7\n",
            "# TYPE gh gaugehistogram\n",
            "gh_bucket{le=\"1\"} 1\n",
            "# TYPE ii info\nii_info{foo=\"#}bar\"} 1\n",
            "# TYPE ss stateset\nss{ss=\"on\"} 1\n",
            "# TYPE un unknown\n_un{b=\"# {\"} NaN 0\n",
            "# UNIT no \n",
            "{\"some.name\",\"l.x\"=\"y\"} 1 -1.5\n",
            "# TYPE foo counter\n",
            "foo_total 17.0 1520879607.789 # {id=\"c-\\\"t\"} 5\n",
            "foo_created 1000\n",
            "# EOF\n",
        ),
        ParserOptions::default(),
        &[
            "help go_seconds A \"summary\" \\ of\nit.",
            "type go_seconds summary",
            "unit go_seconds seconds",
            "__name__=go_seconds quantile=0.0 → 0.000049351",
            "__name__=go_seconds quantile=0.5 a=b → 0.000083835",
            "help empty ",
            "type hh histogram",
            "__name__=hh_bucket le=1.0 → 1 # {} 4",
            "__name__=hh_bucket le=+Inf → 2 @1520879607789 # {id=\"h-t\"} 5 @1520879607700",
            "type gh gaugehistogram",
            "__name__=gh_bucket le=1 → 1",
            "type ii info",
            "__name__=ii_info foo=#}bar → 1",
            "type ss stateset",
            "__name__=ss ss=on → 1",
            "type un unknown",
            "__name__=_un b=# { → NaN @0",
            "unit no ",
            "__name__=some.name l.x=y → 1 @-1500",
            "type foo counter",
            "__name__=foo_total → 17 @1520879607789 # {id=\"c-\\\"t\"} 5",
            "__name__=foo_created → 1000",
        ],
    );
}

#[test]
fn the_end_has_to_be_said() {
    assert_eq!(openmetrics("# EOF").unwrap(), [""; 0]);
    assert_eq!(openmetrics("# EOF\n").unwrap(), [""; 0]);
    for (body, reason) in [
        ("", "does not end with # EOF"),
        ("a 1", "does not end with # EOF"),
        ("a 1\n", "does not end with # EOF"),
        ("a 1 # EOF\n", "expected timestamp"),
        ("# TYPE a gauge", "does not end with # EOF"),
        ("\n\n# EOF\n", "expected value"),
        ("# EOF\n\n", "after # EOF"),
        ("# EOF\na 1\n", "after # EOF"),
        ("#EOF\n", "expected value"),
    ] {
        refused(body, reason);
    }
}

#[test]
fn what_is_refused() {
    for (line, reason) in [
        ("# a comment", "expected HELP, TYPE, UNIT or EOF"),
        ("#", "expected value"),
        ("# TYPE a untyped", "invalid metric type"),
        ("# TYPE a  gauge", "invalid metric type"),
        ("# TYPE a\tgauge", "expected a space and text"),
        ("# TYPE c counter \n", "invalid metric type"),
        ("# HELP a", "expected a space and text"),
        ("# HELP  a b", "expected a metric name"),
        ("# UNIT metric suffix", "not a suffix"),
        ("# UNIT metric_suffix suff", "not a suffix"),
        ("# UNIT seconds seconds", "not a suffix"),
        (" a 1", "expected value"),
        ("a  1", "expected value"),
        ("a 1 ", "expected timestamp"),
        ("a\t1", "expected value"),
        ("a{b=\"c\"}1", "expected value after metric"),
        ("a{b = \"c\"} 1", "expected ="),
        ("a{b=\"c\" d=\"e\"} 1", "comma or }"),
        ("a{b=\"c\",d=\"e\" } 1", "comma or }"),
        ("a{ b=\"c\"} 1", "expected a label name"),
        ("a {b=\"c\"} 1", "expected"),
        ("a 1 NaN", "invalid timestamp"),
        ("a 1 +Inf", "invalid timestamp"),
        ("a 1 1e300", "invalid timestamp"),
        ("a 1 x", "expected timestamp"),
        ("a 1 1 2", "expected next entry"),
        ("a 1\r", "expected value"),
        ("a 1_2", "expected value"),
        ("a 1 # {b=\"c\"}", "expected value after exemplar"),
        ("a 1 # {b=\"c\"} x", "expected value after exemplar"),
        ("a 1 # {b=\"c\"} 1 NaN", "invalid exemplar timestamp"),
        ("a 1 # {b=\"c\"} 1 1 1", "expected next entry"),
        ("a 1 # {\"b\"} 1", "without a value"),
        ("a 1 # {b} 1", "expected ="),
        ("a 1 # {b=\"c} 1", "closing quote"),
        ("a 1 #{b=\"c\"} 1", "expected timestamp"),
        ("a 1 # b 1", "expected timestamp"),
        ("a{b=\"c\",b=\"d\"} 1", "not unique"),
        ("{} 1", "expected a metric name"),
    ] {
        refused(&format!("{line}\n# EOF\n"), reason);
    }
    let error = openmetrics("a 1\nb 1\nc x\n# EOF\n").unwrap_err();
    assert_eq!(error, "line 3: expected value after metric, got \"x\"");
}

#[test]
fn an_exemplar_with_too_many_characters_says_so() {
    let body = format!("a_total 1 # {{id=\"{}\"}} 1\n# EOF\n", "x".repeat(200));
    refused(&body, "more than 128 characters");
}

#[test]
fn created_lines_belong_to_their_series() {
    check(
        concat!(
            "# TYPE c counter\n",
            "c_total{a=\"1\",b=\"x\"} 5\n",
            "c_created{b=\"x\",a=\"1\"} 1000.5\n",
            "c_total{a=\"2\"} 6\n",
            "c_total{a=\"3\"} 6\n",
            "c_created{a=\"3\"} 3000\n",
            "c_created{a=\"2\"} 2000\n",
            "c_total{a=\"4\"} 7\n",
            "# TYPE h histogram\n",
            "h_bucket{le=\"1\"} 1\nh_bucket{le=\"+Inf\"} 2\nh_count 2\nh_sum 3\nh_created 7\n",
            "# TYPE s summary\n",
            "s{quantile=\"0.5\",x=\"y\"} 1\ns_count{x=\"y\"} 2\ns_sum{x=\"y\"} 2\ns_created{x=\"y\"} 8\n",
            "# TYPE g gauge\ng 1\ng_created 9\n",
            "# TYPE n counter\nn_total 1\nn_created NaN\n",
            "# TYPE \"u.x\" counter\n{\"u.x_total\",a=\"b\"} 1\n{\"u.x_created\",a=\"b\"} 11\n",
            "# TYPE d counter\nd_total 1\nother_created 5\n",
            "# EOF\n",
        ),
        CREATED,
        &[
            "type c counter",
            "__name__=c_total a=1 b=x → 5 from 1000500",
            "__name__=c_total a=2 → 6 from 2000000",
            "__name__=c_total a=3 → 6 from 3000000",
            "__name__=c_total a=4 → 7",
            "type h histogram",
            "__name__=h_bucket le=1.0 → 1 from 7000",
            "__name__=h_bucket le=+Inf → 2 from 7000",
            "__name__=h_count → 2 from 7000",
            "__name__=h_sum → 3 from 7000",
            "type s summary",
            "__name__=s quantile=0.5 x=y → 1 from 8000",
            "__name__=s_count x=y → 2 from 8000",
            "__name__=s_sum x=y → 2 from 8000",
            "type g gauge",
            "__name__=g → 1",
            "__name__=g_created → 9",
            "type n counter",
            "__name__=n_total → 1",
            "type u.x counter",
            "__name__=u.x_total a=b → 1 from 11000",
            "type d counter",
            "__name__=d_total → 1",
        ],
    );
}

#[test]
fn classic_histograms_become_native_ones() {
    let body = concat!(
        "# TYPE h histogram\n",
        "h_bucket{a=\"b\",le=\"1\"} 1 # {id=\"x\"} 0.5\n",
        "h_bucket{a=\"b\",le=\"2\"} 4\nh_bucket{a=\"b\",le=\"+Inf\"} 5 # {id=\"y\"} 9 10\n",
        "h_count{a=\"b\"} 5\nh_sum{a=\"b\"} 12.5\nh_created{a=\"b\"} 7\n",
        "h_bucket{le=\"1\"} 0.5\nh_bucket{le=\"+Inf\"} 1\nh_sum 0.5\n",
        "h_other 1\n",
        "# TYPE bad histogram\nbad_bucket{le=\"1\"} 3\nbad_bucket{le=\"+Inf\"} 2\nbad_count 2\nbad_sum 1\n",
        "# TYPE c counter\nc_total 1\n",
        "# TYPE last histogram\nlast_count 0\nlast_sum 0\n",
        "# EOF\n",
    );
    let first = "__name__=h a=b → schema -53 hint Unknown zero 0 sum 12.5 Integer { count: 5, zero_count: 0, \
                 positive_deltas: [1, 2, -2], negative_deltas: [] } +[0+3] -[] bounds [1.0, 2.0] from 7000 \
                 # {id=\"x\"} 0.5 # {id=\"y\"} 9 @10000";
    let second = "__name__=h → schema -53 hint Unknown zero 0 sum 0.5 Float { count: 1.0, zero_count: 0.0, \
                  positive: [0.5, 0.5], negative: [] } +[0+2] -[] bounds [1.0]";
    let last = "__name__=last → schema -53 hint Unknown zero 0 sum 0 Integer { count: 0, zero_count: 0, \
                positive_deltas: [0], negative_deltas: [] } +[0+1] -[]";
    check(
        body,
        CUSTOM,
        &[
            "type h histogram",
            first,
            second,
            "__name__=h_other → 1",
            "type bad histogram",
            "__name__=bad_bucket le=1.0 → 3",
            "__name__=bad_bucket le=+Inf → 2",
            "__name__=bad_count → 2",
            "__name__=bad_sum → 1",
            "type c counter",
            "__name__=c_total → 1",
            "type last histogram",
            last,
        ],
    );
    let both = ParserOptions {
        classic_beside_native: true,
        ..CUSTOM
    };
    let read = read(body.as_bytes(), Format::OpenMetrics, both).unwrap();
    let classic = read.iter().filter(|word| !word.contains("schema")).count();
    assert_eq!((read.len(), classic), (23, 20), "{read:#?}");
    assert_eq!(read[6], first);
}

#[test]
fn the_text_format_has_custom_bounds_too() {
    let body = b"# TYPE h histogram\nh_bucket{le=\"1\"} 1 5\nh_bucket{le=\"+Inf\"} 2 5\nh_sum 3 5\nh_count 2 5\n";
    let words = read(body, Format::Text004, CUSTOM).unwrap();
    assert_eq!(words.len(), 2);
    assert!(words[1].ends_with("bounds [1.0] @5"), "{words:?}");
}

fn pieces() -> impl Strategy<Value = String> {
    let pieces = vec![
        "a",
        "a_created",
        "h_bucket",
        "{",
        "}",
        "\"",
        "\\",
        "=",
        ",",
        " ",
        "\n",
        "1",
        "NaN",
        "# ",
        "TYPE ",
        "HELP ",
        "UNIT ",
        "counter",
        "histogram",
        "# TYPE h histogram\n",
        "h_bucket{le=\"1\"} 1\n",
        "h_count 1\n",
        "h_created 5\n",
        " # {a=\"b\"} 1",
        "# EOF\n",
        "é",
        "\t",
    ];
    prop::collection::vec(prop::sample::select(pieces), 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn no_bytes_panic(body in pieces()) {
        for options in [ParserOptions::default(), CREATED, CUSTOM] {
            let _ = read(body.as_bytes(), Format::OpenMetrics, options);
            let _ = read(body.as_bytes(), Format::Text004, options);
        }
    }

    /// Counters with and without `_created` lines, in any order: each finds its own.
    #[test]
    fn created_lines_are_found_in_any_order(
        mut lines in prop::collection::btree_map(0u32..50, prop::option::of(1u32..1000), 1..12)
            .prop_map(|map| map.into_iter().collect::<Vec<_>>()),
        seed: u64,
    ) {
        let mut body = Vec::new();
        for (id, created) in &lines {
            body.push(format!("c_total{{id=\"{id}\"}} {id}\n"));
            body.extend(created.map(|at| format!("c_created{{id=\"{id}\"}} {at}\n")));
        }
        // Any order will do: sorted by a hash that the seed decides.
        body.sort_by_key(|line| {
            line.bytes().fold(seed, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
        });
        let body = format!("# TYPE c counter\n{}# EOF\n", body.concat());
        let mut words = read(body.as_bytes(), Format::OpenMetrics, CREATED).unwrap();
        let mut expected: Vec<String> = lines
            .drain(..)
            .map(|(id, created)| {
                let from = created.map_or(String::new(), |at| format!(" from {at}000"));
                format!("__name__=c_total id={id} → {id}{from}")
            })
            .chain(["type c counter".into()])
            .collect();
        words.sort();
        expected.sort();
        prop_assert_eq!(words, expected);
    }
}
