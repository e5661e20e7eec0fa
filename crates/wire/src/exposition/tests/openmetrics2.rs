//! OpenMetrics 2.0.

use super::super::*;
use super::read;
use proptest::prelude::*;

const DEFAULT: ParserOptions = ParserOptions {
    created_timestamps: false,
    classic_beside_native: false,
    classic_to_custom_bounds: false,
    ignore_native: false,
};

#[track_caller]
fn check(body: &str, options: ParserOptions, expected: &[&str]) {
    let body = format!("{body}# EOF\n");
    let read = read(body.as_bytes(), Format::OpenMetrics2, options);
    assert_eq!(read.unwrap(), expected, "{body:?}");
}

#[track_caller]
fn refused(body: &str, reason: &str) {
    let whole = format!("{body}# EOF\n");
    let error = read(whole.as_bytes(), Format::OpenMetrics2, DEFAULT).expect_err(body);
    assert!(error.contains(reason), "{body:?} gave {error}");
}

const NATIVE: &str = "# TYPE n histogram\n\
    n{a=\"b\"} {count:5,sum:12.5,schema:0,zero_threshold:0.001,zero_count:2,\
    positive_spans:[0:2,1:1],positive_buckets:[1,1,1],bucket:[1:2,+Inf:5]} # {t=\"x\"} 3 4\n";

const NATIVE_WORD: &str = "__name__=n a=b → schema 0 hint Unknown zero 0.001 sum 12.5 Integer \
    { count: 5, zero_count: 2, positive_deltas: [1, 0, 0], negative_deltas: [] } +[0+2,1+1] -[]";

const CLASSIC_WORDS: [&str; 4] = [
    "__name__=n_count a=b → 5",
    "__name__=n_sum a=b → 12.5",
    "__name__=n_bucket a=b le=1.0 → 2",
    "__name__=n_bucket a=b le=+Inf → 5",
];

#[test]
fn a_body_of_every_kind_of_line() {
    check(
        concat!(
            "# HELP requests_total A \\\"counter\\\".\n",
            "# TYPE requests_total counter\n",
            "# UNIT requests_total requests\n",
            "requests_total{a=\"b\"} 17.0 1520879607.789 st@1520879600.5 # {id=\"x\"} 5 6.5\n",
            "requests_total{a=\"c\"} 3 st@1 # {id=\"x\"} 5 6 # {} 7 8\n",
            "# TYPE seconds summary\n",
            "seconds{g=\"y\"} {count:80,sum:1.2,quantile:[0.5:0.1,1:0.5]} 2 st@1\n",
            "# TYPE i info\ni{version=\"1 {\"} 1\n",
            "# TYPE s stateset\ns{s=\"on\"} 1\ns{s=\"off\"} 0\n",
            "# TYPE \"a.b\" gauge\n{\"a.b\",\"l.x\"=\"y\"} NaN\n{\"c.d\"} -1.5\n",
            "other 1\n",
        ),
        DEFAULT,
        &[
            "help requests_total A \"counter\".",
            "type requests_total counter",
            "unit requests_total requests",
            "__name__=requests_total a=b → 17 @1520879607789 from 1520879600500 # {id=\"x\"} 5 @6500",
            "__name__=requests_total a=c → 3 from 1000 # {id=\"x\"} 5 @6000 # {} 7 @8000",
            "type seconds summary",
            "__name__=seconds_count g=y → 80 @2000 from 1000",
            "__name__=seconds_sum g=y → 1.2 @2000 from 1000",
            "__name__=seconds g=y quantile=0.5 → 0.1 @2000 from 1000",
            "__name__=seconds g=y quantile=1.0 → 0.5 @2000 from 1000",
            "type i info",
            "__name__=i version=1 { → 1",
            "type s stateset",
            "__name__=s s=on → 1",
            "__name__=s s=off → 0",
            "type a.b gauge",
            "__name__=a.b l.x=y → NaN",
            "__name__=c.d → -1.5",
            "__name__=other → 1",
        ],
    );
}

#[test]
fn histograms_are_native_classic_or_both() {
    let native = format!("{NATIVE_WORD} # {{t=\"x\"}} 3 @4000");
    let with = |change: fn(&mut ParserOptions), expected: &[&str]| {
        let mut options = DEFAULT;
        change(&mut options);
        let expected = [&["type n histogram"][..], expected].concat();
        check(NATIVE, options, &expected);
    };
    with(|_| {}, &[&native]);
    let both = [&[native.as_str()][..], &CLASSIC_WORDS].concat();
    with(|options| options.classic_beside_native = true, &both);
    let exemplar = "__name__=n_count a=b → 5 # {t=\"x\"} 3 @4000";
    let classic = [&[exemplar][..], &CLASSIC_WORDS[1..]].concat();
    with(|options| options.ignore_native = true, &classic);
    let converted = "__name__=n a=b → schema -53 hint Unknown zero 0 sum 12.5 Integer \
        { count: 5, zero_count: 0, positive_deltas: [2, 1], negative_deltas: [] } +[0+2] -[] \
        bounds [1.0] # {t=\"x\"} 3 @4000";
    with(
        |options| (options.ignore_native, options.classic_to_custom_bounds) = (true, true),
        &[converted],
    );
}

#[test]
fn gauge_histograms_and_floats() {
    check(
        concat!(
            "# TYPE g gaugehistogram\n",
            "g {gcount:6,gsum:-1,bucket:[0.5:2,+Inf:6]}\n",
            "g {gcount:2,gsum:3,schema:-4,zero_threshold:0,zero_count:0.0,negative_spans:[-1:1],negative_buckets:[2.0]}\n",
        ),
        ParserOptions {
            classic_to_custom_bounds: true,
            ..DEFAULT
        },
        &[
            "type g gaugehistogram",
            "__name__=g_gcount → 6",
            "__name__=g_gsum → -1",
            "__name__=g_bucket le=0.5 → 2",
            "__name__=g_bucket le=+Inf → 6",
            "__name__=g → schema -4 hint Gauge zero 0 sum 3 Float { count: 2.0, zero_count: 0.0, \
             positive: [], negative: [2.0] } +[] -[-1+1]",
        ],
    );
}

/// Floats have gaps above 2^53 = 9007199254740992.
#[test]
fn whole_counts_are_exact() {
    check(
        concat!(
            "# TYPE h histogram\n",
            "h {count:9007199254740993,sum:1,schema:0,zero_threshold:0,zero_count:0,\
             positive_spans:[0:1],positive_buckets:[9007199254740993]}\n",
            "h {count:9007199254740995,sum:1,schema:0,zero_threshold:0,\
             zero_count:9007199254740993,positive_spans:[0:1],positive_buckets:[2]}\n",
            "h {count:3e0,sum:1,schema:0,zero_threshold:0,zero_count:1.0,\
             positive_spans:[0:1],positive_buckets:[2]}\n",
            "# TYPE g gaugehistogram\n",
            "g {gcount:9007199254740993,gsum:1,schema:0,zero_threshold:0,zero_count:0,\
             negative_spans:[0:1],negative_buckets:[9007199254740993]}\n",
        ),
        DEFAULT,
        &[
            "type h histogram",
            "__name__=h → schema 0 hint Unknown zero 0 sum 1 Integer { count: 9007199254740993, \
             zero_count: 0, positive_deltas: [9007199254740993], negative_deltas: [] } +[0+1] -[]",
            "__name__=h → schema 0 hint Unknown zero 0 sum 1 Integer { count: 9007199254740995, \
             zero_count: 9007199254740993, positive_deltas: [2], negative_deltas: [] } +[0+1] -[]",
            "__name__=h → schema 0 hint Unknown zero 0 sum 1 Integer { count: 3, \
             zero_count: 1, positive_deltas: [2], negative_deltas: [] } +[0+1] -[]",
            "type g gaugehistogram",
            "__name__=g → schema 0 hint Gauge zero 0 sum 1 Integer { count: 9007199254740993, \
             zero_count: 0, positive_deltas: [], negative_deltas: [9007199254740993] } +[] -[0+1]",
        ],
    );
    refused(
        "# TYPE h histogram\n\
         h {count:9007199254740992,sum:1,schema:0,zero_threshold:0,zero_count:0,\
         positive_spans:[0:1],positive_buckets:[9007199254740993]}\n",
        "observations found in buckets",
    );
}

#[test]
fn each_line_has_its_own_labels() {
    check(
        concat!(
            "# TYPE s summary\n",
            "s{a=\"b\",c=\"d\"} {count:2,sum:3,quantile:[0.5:1]}\n",
            "s{e=\"\\\"\"} {count:1,sum:4,quantile:[]}\n",
            "s {count:5,sum:6,quantile:[1:7]}\n",
            "# TYPE \"x.y\" histogram\n",
            "{\"x.y\",a=\"1\"} {count:1,sum:2,bucket:[+Inf:1]}\n",
        ),
        DEFAULT,
        &[
            "type s summary",
            "__name__=s_count a=b c=d → 2",
            "__name__=s_sum a=b c=d → 3",
            "__name__=s a=b c=d quantile=0.5 → 1",
            "__name__=s_count e=\" → 1",
            "__name__=s_sum e=\" → 4",
            "__name__=s_count → 5",
            "__name__=s_sum → 6",
            "__name__=s quantile=1.0 → 7",
            "type x.y histogram",
            "__name__=x.y_count a=1 → 1",
            "__name__=x.y_sum a=1 → 2",
            "__name__=x.y_bucket a=1 le=+Inf → 1",
        ],
    );
}

#[test]
fn types_end_with_their_names() {
    // Counters must not be NaN.
    refused("# TYPE a counter\na NaN\n", "must not be NaN");
    check(
        "# TYPE a counter\na_total NaN\na 1\na NaN\n",
        DEFAULT,
        &[
            "type a counter",
            "__name__=a_total → NaN",
            "__name__=a → 1",
            "__name__=a → NaN",
        ],
    );
}

#[test]
fn what_prometheus_refuses() {
    for (body, reason) in [
        ("a x\n", "expected a number"),
        ("a  1\n", "expected value"),
        ("a 1 \n", "expected timestamp"),
        ("a\n", "expected value"),
        ("\n", "expected a metric name"),
        ("a 1 2 3\n", "duplicate timestamp"),
        ("a 1 st@1 st@2\n", "duplicate start timestamp"),
        ("a 1 st@1 2\n", "must precede"),
        ("a 1 st@NaN\n", "invalid start timestamp"),
        ("a 1 Inf\n", "invalid timestamp"),
        ("a 1 # {x=\"y\"} 1\n", "expected exemplar timestamp"),
        ("a 1 # {\"x\"} 1 2\n", "a name without a value"),
        ("a 1 # {x=\"y\"} 1 2 3\n", "next exemplar"),
        ("{a=\"b\"} 1\n", "a metric name in quotes"),
        ("{\"\"} 1\n", "must not be empty"),
        ("{\"a\"=\"b\"} 1\n", "must be the first item"),
        ("a{\"b\"} 1\n", "metric name already set"),
        ("# TYPE a thing\n", "invalid metric type"),
        ("# NOTE a b\n", "expected HELP, TYPE, UNIT or EOF"),
        ("# EOF\na 1\n", "unexpected data after # EOF"),
        ("a {count:1}\n", "not supported for metric type \"unknown\""),
        ("# TYPE a histogram\na 1\n", "composite value required"),
        ("# TYPE a stateset\na{a=\"x\"} 2\n", "must be 0 or 1"),
        ("# TYPE a stateset\na{b=\"x\"} 1\n", "must have a label"),
    ] {
        refused(body, reason);
    }
    for (value, reason) in [
        ("{count:1,sum:2", "wrapped in {}"),
        ("{count:1,sum:2}", "missing required field: bucket"),
        ("{count:1,bucket:[+Inf:1]}", "missing required field: sum"),
        ("{count:1,count:1}", "duplicate composite field"),
        ("{count:1,mean:1}", "unknown composite field"),
        ("{count}", "missing ':'"),
        ("{count:x,sum:1}", "invalid count"),
        ("{count:1,sum:2,bucket:[1:1]}", "include a +Inf threshold"),
        ("{count:1,sum:2,bucket:[2:1,1:1]}", "increasing order"),
        ("{count:1,sum:2,bucket:1}", "wrapped in []"),
        ("{count:1,sum:2,bucket:[one:1]}", "expected two numbers"),
        ("{count:1,sum:2,schema:9}", "between -4 and 8"),
        ("{count:1,sum:2,schema:0}", "zero_threshold"),
        (
            "{count:1,sum:2,schema:0,zero_threshold:-1}",
            "non-negative, finite",
        ),
        (
            "{count:1,sum:2,schema:0,zero_threshold:0,zero_count:0,positive_spans:[0:2],positive_buckets:[1]}",
            "span",
        ),
        (
            "{count:1,sum:2,schema:0,zero_threshold:0,zero_count:0,positive_spans:[0-2]}",
            "invalid positive_spans",
        ),
    ] {
        refused(&format!("# TYPE h histogram\nh {value}\n"), reason);
    }
    let error = read(b"a 1\n", Format::OpenMetrics2, DEFAULT).unwrap_err();
    assert!(error.contains("does not end with # EOF"), "{error}");
}

proptest! {
    #[test]
    fn no_input_panics(
        type_name in "(histogram|summary|gaugehistogram|stateset|counter)",
        line in "h(\\{[a-z=\",]{0,8}\\})? [{}a-z0-9:,.\\[\\]+Inf #@-]{0,40}",
    ) {
        let body = format!("# TYPE h {type_name}\n{line}\n# EOF\n");
        let _ = read(body.as_bytes(), Format::OpenMetrics2, DEFAULT);
    }
}
