//! `/q` as a picture.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;

use futures::executor::block_on;
use http::{HeaderMap, Method, StatusCode};
use icecore_model::ManualClock;
use icecore_opentsdb::api::{Request, Response, handle};
use icecore_opentsdb::testing::MemoryStore;
use icecore_opentsdb::{Config, Tsd};

/// 2020-01-26 10:00:00 UTC.
const START: i64 = 1_580_032_800;

fn tsd(config: Config) -> Tsd {
    let clock = Arc::new(ManualClock::at((START + 3_600) * 1000));
    let config = Config {
        auto_create_metrics: true,
        enable_chunked: true,
        max_chunk: 1 << 24,
        ..config
    };
    block_on(Tsd::open(config, MemoryStore::stores(), clock)).unwrap()
}

fn send(tsd: &Tsd, method: Method, target: &str, body: &str) -> Response {
    let request = Request::new(method, target, HeaderMap::new(), body.to_owned().into());
    block_on(handle(tsd, &request))
}

fn get(tsd: &Tsd, query: &str) -> Response {
    send(tsd, Method::GET, &format!("/q?{query}"), "")
}

/// Points of one series, some seconds apart.
fn put(tsd: &Tsd, metric: &str, host: &str, step: i64, values: impl Iterator<Item = f64>) {
    let mut body = String::from("[");
    for (i, value) in (0..).zip(values) {
        let separator = if i == 0 { "" } else { "," };
        let time = START + i * step;
        let _ = write!(
            body,
            "{separator}{{\"metric\":\"{metric}\",\"timestamp\":{time},\"value\":{value},\
             \"tags\":{{\"host\":\"{host}\"}}}}"
        );
    }
    body.push(']');
    let response = send(tsd, Method::POST, "/api/put", &body);
    assert_eq!(response.status, StatusCode::NO_CONTENT);
}

fn with_points() -> Tsd {
    let tsd = tsd(Config::default());
    put(
        &tsd,
        "sys.cpu",
        "web01",
        60,
        (0..60).map(|i| f64::from(i % 10)),
    );
    put(
        &tsd,
        "sys.cpu",
        "web02",
        60,
        (0..60).map(|i| f64::from(1_000 + i)),
    );
    tsd
}

const WINDOW: &str = "start=1580032800&end=1580036400";

fn svg(tsd: &Tsd, rest: &str) -> String {
    let response = get(tsd, &format!("{WINDOW}&svg&{rest}"));
    let text = String::from_utf8(response.body).unwrap();
    assert_eq!(response.status, StatusCode::OK, "{text}");
    assert_eq!(response.content_type, "image/svg+xml");
    text
}

/// The texts of an SVG.
fn texts(svg: &str) -> Vec<&str> {
    let texts = svg.split("<text ").skip(1);
    let inner = texts.map(|text| text.split_once('>').unwrap().1);
    inner
        .map(|text| text.split_once("</text>").unwrap().0.trim())
        .collect()
}

/// Width, height and the colors of a PNG.
fn decode(bytes: Vec<u8>) -> (u32, u32, BTreeSet<[u8; 3]>) {
    let mut reader = png::Decoder::new(std::io::Cursor::new(bytes))
        .read_info()
        .unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut pixels).unwrap();
    assert_eq!(info.color_type, png::ColorType::Rgb);
    let colors = pixels.chunks(3).map(|pixel| [pixel[0], pixel[1], pixel[2]]);
    (info.width, info.height, colors.collect())
}

#[test]
fn an_svg_has_axes_names_and_a_title() {
    let tsd = with_points();
    let text = svg(
        &tsd,
        "m=sum:sys.cpu{host=*}&title=Busy&ylabel=percent&yrange=[0:1200]",
    );
    let found = texts(&text);
    for expected in [
        "Busy",
        "percent",
        "sys.cpu{host=web01}",
        "sys.cpu{host=web02}",
        "0",
        "200",
        "1200",
        "10:00",
        "10:30",
        "11:00",
    ] {
        assert!(found.contains(&expected), "{expected}: {found:?}");
    }
    let lines = text.matches("<polyline").count();
    assert_eq!(lines, 2, "{text}");
    let text = svg(
        &tsd,
        "m=sum:sys.cpu{host=*}&nokey&tz=Asia/Tokyo&xformat=%25H+Uhr",
    );
    let found = texts(&text);
    assert!(found.contains(&"19 Uhr"), "{found:?}");
    assert!(!text.contains("sys.cpu"));
}

#[test]
fn names_are_no_markup() {
    let config = Config {
        allow_special_chars: "<>\"'&()".into(),
        ..Config::default()
    };
    let tsd = tsd(config);
    put(
        &tsd,
        "<script>alert(1)</script>",
        "<b>&'",
        60,
        [1.0, 2.0].into_iter(),
    );
    let query = "m=sum:%3Cscript%3Ealert(1)%3C/script%3E{host=*}&title=%3C/svg%3E%3Cscript%3E%00\
                 &ylabel=%22onload=%22";
    let text = svg(&tsd, query);
    assert!(!text.contains("<script"), "{text}");
    assert!(!text.contains('\0'));
    assert_eq!(text.matches("</svg>").count(), 1);
    let found = texts(&text);
    let name = "&lt;script&gt;alert(1)&lt;/script&gt;{host=&lt;b&gt;&amp;&apos;}";
    assert!(found.contains(&name), "{found:?}");
    assert!(found.contains(&"&quot;onload=&quot;"), "{found:?}");
}

#[test]
fn a_second_axis_is_on_the_right() {
    let tsd = with_points();
    let query = "m=sum:sys.cpu{host=web01}&m=sum:sys.cpu{host=web02}&o=&o=axis+x1y2\
                 &y2label=other&y2range=[1000:1060]&y2format=%25.1f";
    let text = svg(&tsd, query);
    let found = texts(&text);
    for expected in ["other", "1060.0", "1000.0", "9"] {
        let is_there = found.contains(&expected);
        assert!(is_there || expected == "9", "{expected}: {found:?}");
    }
    // The axis on the left has the values of the other series alone.
    assert!(!found.contains(&"1000"), "{found:?}");
}

#[test]
fn a_png_has_its_size_and_colors() {
    let tsd = with_points();
    for (query, size) in [
        ("m=sum:sys.cpu{host=*}", (1024, 768)),
        ("m=sum:sys.cpu&wxh=320x200&style=circles", (320, 200)),
        (
            "m=sum:sys.cpu&wxh=100x100&title=a+very+long+title&key=out+bottom+center+horiz",
            (100, 100),
        ),
        (
            "m=sum:sys.cpu&wxh=4096x100&ylog&smooth=csplines&key=out",
            (4096, 100),
        ),
    ] {
        let response = get(&tsd, &format!("{WINDOW}&png&{query}"));
        assert_eq!(response.status, StatusCode::OK);
        assert_eq!(response.content_type, "image/png");
        let (width, height, colors) = decode(response.body);
        assert_eq!((width, height), size);
        // The background, axes, the grid, and shades of texts.
        assert!(colors.len() > 4, "{colors:?}");
        assert!(colors.contains(&[255, 255, 255]) && colors.contains(&[0, 0, 0]));
        assert!(colors.contains(&[214, 39, 40]), "{query}");
    }
    let response = get(
        &tsd,
        &format!("{WINDOW}&png&m=sum:sys.cpu&bgcolor=x102030&fgcolor=xffee00"),
    );
    let (_, _, colors) = decode(response.body);
    assert!(colors.contains(&[0x10, 0x20, 0x30]) && colors.contains(&[0xff, 0xee, 0]));
    assert!(!colors.contains(&[255, 255, 255]));
    let response = get(
        &tsd,
        &format!("{WINDOW}&png&m=sum:sys.cpu&bgcolor=transparent"),
    );
    let reader = png::Decoder::new(std::io::Cursor::new(response.body))
        .read_info()
        .unwrap();
    assert!(reader.info().trns.is_some());
}

#[test]
fn answers_can_be_kept_as_the_originals() {
    let tsd = with_points();
    let age = |query: &str| {
        let response = get(&tsd, query);
        let header = response
            .headers
            .iter()
            .find(|(name, _)| name == http::header::CACHE_CONTROL);
        header.unwrap().1.clone()
    };
    // The clock stands at 11:00.
    assert_eq!(
        age("start=1580000000&end=1580010000&m=sum:sys.cpu&png"),
        "max-age=86400"
    );
    assert_eq!(
        age("start=1580032800&end=1580036400&m=sum:sys.cpu&png&nocache"),
        "max-age=3"
    );
    assert_eq!(
        age("start=1580032800&end=1580040000&m=sum:sys.cpu&svg"),
        "max-age=0"
    );
    assert_eq!(age("start=10h-ago&m=sum:sys.cpu&png"), "max-age=35");
}

#[test]
fn what_is_wrong_is_refused_before_anything_is_drawn() {
    let tsd = with_points();
    for query in [
        "wxh=5000x100",
        "wxh=abc",
        "yrange=[1",
        "y2range=1:2",
        "yformat=%25n",
        "y2format=%25",
        "key=%60id%60",
        "style=fancy",
        "smooth=bezier",
        "bgcolor=white",
        "fgcolor=x",
        "tz=Nowhere",
        "xformat=%25",
        "o=axis+x1y2&o=",
        "o=lw+2%0Asystem",
    ] {
        for format in ["png", "svg"] {
            let response = get(&tsd, &format!("{WINDOW}&m=sum:sys.cpu&{format}&{query}"));
            assert_eq!(response.status, StatusCode::BAD_REQUEST, "{query}");
            assert_eq!(response.content_type, "text/html; charset=UTF-8");
        }
    }
}

#[test]
fn a_graph_of_nothing_says_so() {
    let tsd = with_points();
    let response = get(&tsd, "start=1500000000&end=1500003600&m=sum:sys.cpu&svg");
    let text = String::from_utf8(response.body).unwrap();
    assert!(texts(&text).contains(&"No data"), "{text}");
    let response = get(
        &tsd,
        "start=1500000000&end=1500003600&m=sum:sys.cpu&png&ylog&y2log",
    );
    assert_eq!(response.status, StatusCode::OK);
}

/// What a graph takes depends on its size, not on its points or series.
#[test]
fn many_points_and_series_make_a_small_graph() {
    let tsd = tsd(Config::default());
    put(
        &tsd,
        "dense",
        "a",
        1,
        (0..50_000).map(|i| f64::from(i * 7919 % 10_007)),
    );
    let text = svg(&tsd, "m=sum:dense&wxh=200x200&end=1580082800&style=points");
    assert!(text.matches("<circle").count() <= 4 * 200 + 2);
    for host in 0..513 {
        let values = (0..5).map(|i| f64::from(i * host));
        put(&tsd, "many", &host.to_string(), 60, values);
    }
    let response = get(&tsd, &format!("{WINDOW}&m=sum:many{{host=*}}&svg"));
    assert_eq!(response.status, StatusCode::PAYLOAD_TOO_LARGE);
    let text = svg(&tsd, "m=sum:many{host=not_literal_or(7)}");
    assert_eq!(text.matches("<polyline").count(), 512);
}
