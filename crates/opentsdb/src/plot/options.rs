//! What a query string says about a graph. The words are those that the original hands to gnuplot;
//! what has no meaning here is refused and never passed on.

use jiff::tz::TimeZone;
use plotters::style::RGBColor;

use super::key::KeyOptions;
use super::number_format::NumberFormat;
use super::smooth::Smooth;
use super::time_axis::check_format;
use crate::error::Error;
use crate::request::Request;

/// The size of a graph that names none.
const SIZE: (u32, u32) = (1024, 768);

/// The least pixels of a side, as in the original.
const SIDE_MIN: u32 = 100;

/// The most pixels of a side: such a graph takes 48 MiB while it is drawn.
const SIDE_MAX: u32 = 4096;

/// How a graph looks.
#[derive(Clone, Debug)]
pub(crate) struct PlotOptions {
    /// Width and height in pixels.
    pub(crate) size: (u32, u32),
    pub(super) title: String,
    pub(super) left: AxisOptions,
    pub(super) right: AxisOptions,
    /// How times are written; by the length of the window where it is empty.
    pub(super) time_format: String,
    pub(super) zone: TimeZone,
    /// `None` where there is no key.
    pub(super) key: Option<KeyOptions>,
    /// `None` where it is transparent.
    pub(super) background: Option<RGBColor>,
    pub(super) foreground: RGBColor,
    pub(super) curve: CurveOptions,
}

/// How an axis of values looks.
#[derive(Clone, Debug, Default)]
pub(super) struct AxisOptions {
    pub(super) min: Option<f64>,
    pub(super) max: Option<f64>,
    pub(super) is_log: bool,
    pub(super) label: String,
    pub(super) format: NumberFormat,
}

/// How a curve is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct CurveOptions {
    pub(super) style: CurveStyle,
    pub(super) smooth: Option<Smooth>,
    /// Whether its values are those of the axis on the right.
    pub(super) is_right: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum CurveStyle {
    Lines,
    #[default]
    LinesAndPoints,
    Points,
    Circles,
    Dots,
}

impl PlotOptions {
    /// Times are in `zone`.
    pub(crate) fn parse(request: &Request, zone: TimeZone) -> Result<Self, Error> {
        let text = |name: &str| request.param(name).unwrap_or_default();
        let time_format = text("xformat");
        check_format(time_format, &zone).map_err(|reason| invalid("xformat", request, reason))?;
        Ok(Self {
            size: size(request)?,
            title: text("title").to_owned(),
            left: AxisOptions::parse(request, ["yrange", "ylog", "ylabel", "yformat"])?,
            right: AxisOptions::parse(request, ["y2range", "y2log", "y2label", "y2format"])?,
            time_format: time_format.to_owned(),
            zone,
            key: key(request)?,
            background: background(request)?,
            foreground: color(request, "fgcolor")?.unwrap_or(RGBColor(0, 0, 0)),
            curve: CurveOptions {
                style: style(request)?,
                smooth: smooth(request)?,
                is_right: false,
            },
        })
    }

    /// The options of each sub query, where there are any; one `o` for each `m`.
    pub(crate) fn curves(
        &self,
        request: &Request,
        sub_queries: usize,
    ) -> Result<Vec<CurveOptions>, Error> {
        let texts: Vec<&str> = request.all("o").collect();
        if texts.is_empty() {
            return Ok(vec![self.curve; sub_queries]);
        }
        if texts.len() != sub_queries {
            let message = format!(
                "{} `o' parameters, but {sub_queries} `m' parameters.",
                texts.len()
            );
            return Err(Error::bad_request(message));
        }
        let parsed = texts.iter().map(|text| {
            let parsed = self.curve.with(text);
            parsed.map_err(|reason| Error::bad_request(format!("Invalid parameter o: {reason}")))
        });
        parsed.collect()
    }
}

impl CurveOptions {
    /// These options with those of one curve, as in `axis x1y2 with points`.
    fn with(mut self, text: &str) -> Result<Self, String> {
        let mut words = text.split_whitespace();
        while let Some(option) = words.next() {
            let value = words.next().unwrap_or_default();
            match (option, value) {
                ("axis" | "axes", "x1y1") => self.is_right = false,
                ("axis" | "axes", "x1y2") => self.is_right = true,
                ("axis" | "axes", _) => return Err("axis must be x1y1 or x1y2".into()),
                ("with" | "w", style) => self.style = CurveStyle::parse(style)?,
                ("smooth", name) => self.smooth = Some(Smooth::parse(name)?),
                _ => return Err("only axis, with and smooth are known".into()),
            }
        }
        Ok(self)
    }
}

impl CurveStyle {
    fn parse(name: &str) -> Result<Self, String> {
        Ok(match name {
            "lines" => Self::Lines,
            "linespoint" | "linespoints" => Self::LinesAndPoints,
            "points" => Self::Points,
            "circles" => Self::Circles,
            "dots" => Self::Dots,
            _ => return Err("must be linespoint, lines, points, circles or dots".into()),
        })
    }
}

impl AxisOptions {
    fn parse(request: &Request, names: [&'static str; 4]) -> Result<Self, Error> {
        let [range, log, label, format] = names;
        let is_log = request.flag(log);
        let (min, max) = match request.param(range).filter(|text| !text.is_empty()) {
            None => (None, None),
            Some(text) => {
                parse_range(text, is_log).map_err(|reason| invalid(range, request, reason))?
            }
        };
        let format = match request.param(format).filter(|text| !text.is_empty()) {
            None => NumberFormat::default(),
            Some(text) => {
                NumberFormat::parse(text).map_err(|reason| invalid(format, request, reason))?
            }
        };
        Ok(Self {
            min,
            max,
            is_log,
            label: request.param(label).unwrap_or_default().to_owned(),
            format,
        })
    }
}

/// `[min:max]`, both of which may be left out.
fn parse_range(text: &str, is_log: bool) -> Result<(Option<f64>, Option<f64>), String> {
    let inner = text.trim().strip_prefix('[');
    let inner = inner.and_then(|text| text.strip_suffix(']'));
    let ends = inner.and_then(|text| text.split_once(':'));
    let (min, max) = ends.ok_or("it must have the form [min:max]")?;
    let bound = |text: &str| match text.trim() {
        "" | "*" => Ok(None),
        text => match text.parse::<f64>() {
            Ok(value) if value.is_finite() => Ok(Some(value)),
            _ => Err(format!("{text:?} is not a number")),
        },
    };
    let (min, max) = (bound(min)?, bound(max)?);
    if min.zip(max).is_some_and(|(min, max)| min >= max) {
        return Err("its beginning must lie below its end".into());
    }
    if is_log && [min, max].into_iter().flatten().any(|end| end <= 0.0) {
        return Err("a logarithmic axis has positive numbers only".into());
    }
    Ok((min, max))
}

fn size(request: &Request) -> Result<(u32, u32), Error> {
    let Some(text) = request.param("wxh").filter(|text| !text.is_empty()) else {
        return Ok(SIZE);
    };
    let number = |text: &str| {
        let is_digits = text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse::<u32>().ok().filter(|_| is_digits)
    };
    let sides = text.trim().split_once('x');
    let sides = sides.and_then(|(width, height)| Some((number(width)?, number(height)?)));
    let reason = match sides {
        None => "it must have the form 1024x768".to_owned(),
        Some((width, height)) if width.min(height) < SIDE_MIN => {
            format!("no side may have less than {SIDE_MIN} pixels")
        }
        Some((width, height)) if width.max(height) > SIDE_MAX => {
            format!("no side may have more than {SIDE_MAX} pixels")
        }
        Some(sides) => return Ok(sides),
    };
    Err(invalid("wxh", request, reason))
}

fn key(request: &Request) -> Result<Option<KeyOptions>, Error> {
    let words = request.param("key").unwrap_or_default();
    let parsed = KeyOptions::parse(words).map_err(|reason| invalid("key", request, reason))?;
    Ok((!request.flag("nokey")).then_some(parsed))
}

fn style(request: &Request) -> Result<CurveStyle, Error> {
    match request.param("style").filter(|text| !text.is_empty()) {
        None => Ok(CurveStyle::default()),
        Some(name) => CurveStyle::parse(name).map_err(|reason| invalid("style", request, reason)),
    }
}

fn smooth(request: &Request) -> Result<Option<Smooth>, Error> {
    let name = request.param("smooth").filter(|text| !text.is_empty());
    let parsed = name.map(Smooth::parse).transpose();
    parsed.map_err(|reason| invalid("smooth", request, reason))
}

fn background(request: &Request) -> Result<Option<RGBColor>, Error> {
    if request.param("bgcolor") == Some("transparent") {
        return Ok(None);
    }
    let color = color(request, "bgcolor")?;
    Ok(Some(color.unwrap_or(RGBColor(255, 255, 255))))
}

/// A color as in `xff8000`.
fn color(request: &Request, name: &'static str) -> Result<Option<RGBColor>, Error> {
    let Some(text) = request.param(name).filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    let digits = text.strip_prefix(['x', 'X']).unwrap_or_default();
    let mut bytes = [0; 3];
    match hex::decode_to_slice(digits, &mut bytes) {
        Ok(()) => Ok(Some(RGBColor(bytes[0], bytes[1], bytes[2]))),
        Err(_) => Err(invalid(
            name,
            request,
            "it must have the form xff8000".into(),
        )),
    }
}

fn invalid(name: &'static str, request: &Request, reason: String) -> Error {
    let value = request.param(name).unwrap_or_default();
    Error::bad_request(format!("Invalid parameter {name}={value}: {reason}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(query: &str) -> Request {
        let target = format!("/q?{query}");
        let (headers, body) = (http::HeaderMap::new(), bytes::Bytes::new());
        Request::new(http::Method::GET, &target, headers, body)
    }

    fn parse(query: &str) -> Result<PlotOptions, Error> {
        PlotOptions::parse(&request(query), TimeZone::UTC)
    }

    #[test]
    fn what_a_graph_can_be_told() {
        let options = parse(
            "wxh=640x480&yrange=[0:1.5e3]&y2range=[:*]&y2log&ylabel=bytes&yformat=%25.1s%25c\
             &bgcolor=x102030&fgcolor=XFF8000&title=a%20%3Cb%3E&style=points&smooth=csplines",
        );
        let options = options.unwrap();
        assert_eq!(options.size, (640, 480));
        let (left, right) = (&options.left, &options.right);
        assert_eq!(
            (left.min, left.max, left.is_log),
            (Some(0.0), Some(1500.0), false)
        );
        assert_eq!((right.min, right.max, right.is_log), (None, None, true));
        assert_eq!(left.label, "bytes");
        assert_eq!(left.format.text(2_500.0), "2.5k");
        assert_eq!(options.background, Some(RGBColor(16, 32, 48)));
        assert_eq!(options.foreground, RGBColor(255, 128, 0));
        assert_eq!(options.title, "a <b>");
        assert_eq!(options.curve.style, CurveStyle::Points);
        assert_eq!(options.curve.smooth, Some(Smooth::Splines));
        assert!(options.key.is_some());
        assert!(parse("nokey&key=left").unwrap().key.is_none());
        assert_eq!(parse("bgcolor=transparent").unwrap().background, None);
        assert_eq!(parse("wxh=").unwrap().size, SIZE);
    }

    #[test]
    fn what_is_wrong_is_refused() {
        for query in [
            "wxh=640",
            "wxh=99x100",
            "wxh=100x99",
            "wxh=4097x100",
            "wxh=100x4097",
            "wxh=%2B640x480",
            "wxh=640x-480",
            "wxh=99999999999x100",
            "yrange=0:1",
            "yrange=[1:0]",
            "yrange=[1:1]",
            "yrange=[a:b]",
            "yrange=[0:inf]",
            "yrange=[nan:1]",
            "yrange=[0:1",
            "y2range=[0]",
            "yrange=[0:1]&ylog",
            "y2range=[-1:]&y2log",
            "yformat=%25x",
            "yformat=%25",
            "y2format=%25999f",
            "xformat=%25",
            "xformat=%25!",
            "key=everywhere",
            "key=left;system",
            "style=impulses",
            "smooth=bezier",
            "bgcolor=red",
            "bgcolor=x12345",
            "fgcolor=x1234567",
            "fgcolor=transparent",
            "bgcolor=xg00000",
            "yrange=[0:system('touch /tmp/x')]",
        ] {
            let error = parse(query).unwrap_err();
            assert_eq!(error.status, http::StatusCode::BAD_REQUEST, "{query}");
            let name = query.split('=').next().unwrap();
            assert!(error.message.contains(name), "{query}: {}", error.message);
        }
    }

    #[test]
    fn options_of_one_curve() {
        let options = parse("style=dots").unwrap();
        let curves = |query: &str, count| options.curves(&request(query), count);
        assert_eq!(curves("", 2).unwrap(), [options.curve; 2]);
        let found = curves("o=&o=axis+x1y2+with+circles", 2).unwrap();
        assert_eq!(found[0], options.curve);
        assert!(found[1].is_right);
        assert_eq!(found[1].style, CurveStyle::Circles);
        for query in [
            "o=&o=",
            "o=axis",
            "o=axis+x2y2",
            "o=with+impulses",
            "o=title+%22x%22",
            "o=%27%3Bsystem",
            "o=smooth+sbezier",
        ] {
            assert!(curves(query, 1).is_err(), "{query}");
        }
    }
}
