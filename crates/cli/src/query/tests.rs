use super::answer::Series;
use super::position::point_at;
use super::times::{Times, parse_duration_ms, round_step_ms, seconds};
use super::*;
use crate::remote::{Answer, Body, Server};

#[test]
fn times_are_relative_or_absolute() {
    let times = Times::at(1_700_000_000_500);
    for (text, ms) in [
        ("now", 1_700_000_000_500),
        ("-1h30m", 1_700_000_000_500 - 5_400_000),
        ("now-1m", 1_700_000_000_500 - 60_000),
        ("+10s", 1_700_000_010_500),
        ("-90", 1_700_000_000_500 - 90_000),
        ("1700000000.25", 1_700_000_000_250),
        ("2023-11-14T22:13:20Z", 1_700_000_000_000),
    ] {
        assert_eq!(times.parse(text), Ok(ms), "{text}");
    }
    for text in ["", "yesterday", "now1h", "-1x", "--1h", "nowhere"] {
        assert!(times.parse(text).is_err(), "{text}");
    }
    assert!(times.range("now", "-1h").is_err());
}

#[test]
fn durations() {
    for (text, ms) in [
        ("15s", 15_000),
        ("1h30m", 5_400_000),
        ("500ms", 500),
        ("2.5", 2500),
        ("1w1d", 691_200_000),
    ] {
        assert_eq!(parse_duration_ms(text), Ok(ms), "{text}");
    }
    for text in ["", "h", "1", "1x", "-5s", "1e30", "9999999999999y", "NaN"] {
        assert_eq!(parse_duration_ms(text).is_err(), text != "1", "{text}");
    }
    assert_eq!(seconds(-1500), "-1.500");
    assert_eq!(seconds(60_000), "60");
}

#[test]
fn steps_are_round_and_few() {
    assert_eq!(round_step_ms(3_600_000, 60), 60_000);
    assert_eq!(round_step_ms(3_600_000, 250), 15_000);
    assert_eq!(round_step_ms(0, 250), 1000);
    assert_eq!(
        round_step_ms(1_000_000_000_000_000, 1),
        1_000_000_000_000_000
    );
}

fn answer(json: &str) -> anyhow::Result<Answer> {
    let body = Body {
        status: reqwest::StatusCode::OK,
        bytes: json.to_owned().into(),
    };
    let server = Server {
        tls: false,
        authority: "a:1".into(),
        prefix: String::new(),
    };
    Answer::parse(&body, &server)
}

fn shown(series: &[Series]) -> Vec<String> {
    let points = |series: &Series| {
        let points = series.points.iter();
        points
            .map(|p| format!(" {}={}", p.time_ms, p.text))
            .collect::<String>()
    };
    series
        .iter()
        .map(|series| series.name() + &points(series))
        .collect()
}

#[test]
fn every_kind_of_result_is_understood() {
    let series = |data: &str| {
        let json = format!("{{\"status\":\"success\",\"data\":{data}}}");
        shown(&answer(&json).unwrap().series().unwrap())
    };
    assert_eq!(
        series(r#"{"resultType":"scalar","result":[1.5,"2"]}"#),
        ["{} 1500=2"]
    );
    let vector = r#"{"resultType":"vector","result":[{"metric":{"job":"a","__name__":"up"},"value":[1,"NaN"]},
        {"metric":{},"histogram":[2,{"count":"3","sum":"4.5","buckets":[[0,"1","2","3"]]}]}]}"#;
    assert_eq!(
        series(vector),
        ["up{job=\"a\"} 1000=NaN", "{} 2000=count:3 sum:4.5"]
    );
    let matrix = r#"{"resultType":"matrix","result":[{"metric":{"x.y":"z"},"values":[[1,"1"],[3,"+Inf"]],
        "histograms":[[2,{"count":"0","sum":"0"}]]}]}"#;
    assert_eq!(
        series(matrix),
        ["{\"x.y\"=\"z\"} 1000=1 2000=count:0 sum:0 3000=+Inf"]
    );
}

#[test]
fn errors_say_what_to_do() {
    let error = |json: &str| answer(json).err().unwrap();
    let bad = r#"{"status":"error","errorType":"bad_data","error":"invalid parameter \"query\": 1:5: parse error: unexpected end"}"#;
    let pointed = point_at(error(bad), "sum(");
    assert!(pointed.is::<WrongUsage>());
    assert!(
        pointed.to_string().ends_with("\n  sum(\n      ^"),
        "{pointed}"
    );
    let failed = error(r#"{"status":"error","errorType":"timeout","error":"too slow"}"#);
    assert!(!failed.is::<WrongUsage>());
    assert_eq!(
        failed.to_string(),
        "http://a:1 answered 200 OK, timeout: too slow"
    );
    assert!(error("<html>").to_string().contains("right address"));
}

#[test]
fn comma_separated_values() {
    let json = r#"{"status":"success","data":{"resultType":"vector","result":[
        {"metric":{"__name__":"up","job":"a,\"b\""},"value":[0,"1"]},{"metric":{"host":"h"},"value":[0.5,"2"]}]}}"#;
    let mut lines = Vec::new();
    csv::of_series(&answer(json).unwrap().series().unwrap(), |line| {
        lines.push(line.to_owned());
        true
    });
    assert_eq!(
        lines,
        [
            "__name__,host,job,timestamp,value",
            "up,,\"a,\"\"b\"\"\",1970-01-01T00:00:00Z,1",
            ",h,,1970-01-01T00:00:00.500Z,2",
        ]
    );
}
