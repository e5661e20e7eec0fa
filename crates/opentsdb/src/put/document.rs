//! Documents of points that are more than a number: `/api/rollup` and `/api/histogram`.

use icecore_wire::opentsdb::DISTINCT_TAGS_MAX;
use icecore_wire::opentsdb::put_json::JsonTag;

use super::endpoint::unparsable;
use super::error::PutError;
use super::report::Report;
use super::series::SeriesText;
use super::writer::PointWriter;
use crate::error::Error;
use crate::json::{Json, push_text};

/// The fields that all kinds of points have.
pub(super) struct DocumentPoint<'a> {
    json: &'a Json<'a>,
    pub(super) metric: Option<&'a str>,
    pub(super) timestamp: i64,
    pub(super) value: Option<&'a str>,
    pub(super) tags: Option<Vec<JsonTag>>,
}

/// All points of a document, but for those that are `null`, are handed to `write`, which says what
/// is wrong with one, and may change the tags that are shown with that; the document is refused
/// before that where a field has the wrong type.
pub(super) fn write_points<T>(
    writer: &mut PointWriter<'_>,
    text: &str,
    with_details: bool,
    read: impl Fn(&DocumentPoint<'_>) -> Result<T, Error>,
    write: impl Fn(&mut PointWriter<'_>, &mut DocumentPoint<'_>, &T) -> Result<(), PutError>,
    show: impl Fn(&T, &mut Vec<(&'static str, String)>),
) -> Result<Report, Error> {
    let document = Json::parse(text).map_err(|error| unparsable(error.reason))?;
    let elements = document
        .as_array()
        .unwrap_or_else(|| std::slice::from_ref(&document));
    if elements.is_empty() {
        return Err(Error::bad_request("No datapoints found in content"));
    }
    let read = |json| {
        let point = DocumentPoint::read(json)?;
        point.map(|p| read(&p).map(|more| (p, more))).transpose()
    };
    let mut points: Vec<_> = elements.iter().map(read).collect::<Result<_, Error>>()?;
    let mut report = Report::new(points.len(), with_details);
    let mut number = 0;
    for point in &mut points {
        let Some((point, more)) = point else {
            let error = PutError::argument("Unexpected null datapoint encountered in set.");
            let shown = || "null".to_owned();
            writer.log_refusal(&error, shown);
            report.fail(&error.http_text(), shown);
            continue;
        };
        let shown = |point: &DocumentPoint<'_>| {
            let mut fields = Vec::new();
            show(more, &mut fields);
            point.to_json(fields)
        };
        match write(writer, point, more) {
            Err(error) => {
                writer.log_refusal(&error, || shown(&*point));
                report.fail(&error.http_text(), || shown(&*point));
            }
            // The store may still refuse it.
            Ok(()) if with_details => {
                report.shown.insert(number, shown(&*point));
            }
            Ok(()) => {}
        }
        number += 1;
    }
    Ok(report)
}

impl<'a> DocumentPoint<'a> {
    fn read(json: &'a Json<'a>) -> Result<Option<Self>, Error> {
        if json.is_null() {
            return Ok(None);
        }
        if json.as_object().is_none() {
            return Err(unparsable("a point is no object"));
        }
        let mut point = Self {
            json,
            metric: None,
            timestamp: 0,
            value: None,
            tags: None,
        };
        point.metric = point.text("metric")?;
        point.timestamp = point.integer("timestamp")?.unwrap_or(0);
        point.value = point.text("value")?;
        point.tags = point.tags()?;
        Ok(Some(point))
    }

    /// A text, or a number as written.
    pub(super) fn text(&self, name: &str) -> Result<Option<&'a str>, Error> {
        match self.json.get(name) {
            None | Some(Json::Null) => Ok(None),
            Some(json) => match json.text() {
                Some(text) => Ok(Some(text)),
                None => Err(unparsable("a text is expected")),
            },
        }
    }

    pub(super) fn integer(&self, name: &str) -> Result<Option<i64>, Error> {
        let text = self.text(name)?;
        text.map(|text| integer(text).ok_or_else(|| unparsable("an integer is expected")))
            .transpose()
    }

    /// The members of an object of integers.
    pub(super) fn integers(&self, name: &str) -> Result<Option<Vec<(&'a str, i64)>>, Error> {
        let members = match self.json.get(name) {
            None | Some(Json::Null) => return Ok(None),
            Some(json) => json.as_object(),
        };
        let members = members.ok_or_else(|| unparsable("an object is expected"))?;
        let member = |(name, value): &'a (std::borrow::Cow<'_, str>, Json<'_>)| {
            let value = value.text().and_then(integer);
            let value = value.ok_or_else(|| unparsable("an integer is expected"))?;
            Ok((name.as_ref(), value))
        };
        members
            .iter()
            .map(member)
            .collect::<Result<_, _>>()
            .map(Some)
    }

    fn tags(&self) -> Result<Option<Vec<JsonTag>>, Error> {
        let members = match self.json.get("tags") {
            None | Some(Json::Null) => return Ok(None),
            Some(json) => json.as_object(),
        };
        let members = members.ok_or_else(|| unparsable("tags are no object"))?;
        let mut tags: Vec<JsonTag> = Vec::new();
        for (name, value) in members {
            let value = match value {
                Json::Null => None,
                value => Some(value.text().ok_or_else(|| unparsable("a tag is no text"))?),
            };
            let value = value.map(String::from);
            let mut known = tags.iter_mut().take(DISTINCT_TAGS_MAX);
            match known.find(|tag| tag.0 == *name) {
                Some(tag) => tag.1 = value,
                None => tags.push((name.to_string(), value)),
            }
        }
        Ok(Some(tags))
    }

    /// What every point needs: a metric, a time and tags; where `value` is wanted, that too.
    pub(super) fn series(&self, wants_value: bool) -> Result<SeriesText<'_>, PutError> {
        let refused = |message: &str| Err(PutError::argument(message));
        let metric = self.metric.unwrap_or_default();
        if metric.is_empty() {
            return refused("Metric name was empty");
        }
        if self.timestamp <= 0 {
            return refused("Invalid timestamp");
        }
        if wants_value && self.value.unwrap_or_default().is_empty() {
            return refused("Empty value");
        }
        match self.tags.as_deref() {
            None | Some([]) => refused("Missing tags"),
            Some(tags) => Ok(SeriesText::Pairs { metric, tags }),
        }
    }

    /// As an error shows it.
    fn to_json(&self, more: Vec<(&'static str, String)>) -> String {
        let quoted = |text: &str| {
            let mut json = String::new();
            push_text(&mut json, text);
            json
        };
        let mut fields = Vec::new();
        fields.extend(self.metric.map(|metric| ("metric", quoted(metric))));
        fields.push(("timestamp", self.timestamp.to_string()));
        fields.extend(self.value.map(|value| ("value", quoted(value))));
        if let Some(tags) = &self.tags {
            let tags = tags.iter().map(|(name, value)| {
                let value = value.as_deref().map_or("null".into(), quoted);
                format!("{}:{value}", quoted(name))
            });
            let tags: Vec<String> = tags.collect();
            fields.push(("tags", format!("{{{}}}", tags.join(","))));
        }
        fields.extend(more);
        let fields = fields
            .iter()
            .map(|(name, json)| format!("\"{name}\":{json}"));
        format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
    }
}

/// Fractions are cut off; an empty text is 0.
fn integer(text: &str) -> Option<i64> {
    let text = text.trim();
    if text.is_empty() {
        return Some(0);
    }
    let cut = |text: &str| text.parse::<f64>().ok().map(|value| value as i64);
    let exact = text.parse().ok();
    exact.or_else(|| cut(text).filter(|_| text.contains(['.', 'e', 'E'])))
}
