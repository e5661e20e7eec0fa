//! A sub query as `showQuery` gives it back.

use std::fmt::Write as _;

use super::rate::RateOptions;
use super::request::SubQuery;
use crate::java::float_text;
use crate::json::push_text;
use crate::uid::{Uid, UidKind, Uids};

/// Appends the sub query at an index.
pub(crate) fn push_query(
    out: &mut String,
    sub_query: &SubQuery,
    index: usize,
    table: &str,
    uids: &Uids,
) {
    out.push_str("{\"aggregator\":");
    push_text(out, &sub_query.aggregator);
    out.push_str(",\"metric\":");
    push_optional(out, sub_query.metric.as_deref());
    out.push_str(",\"tsuids\":");
    push_list(out, sub_query.tsuids.as_deref(), |out, tsuid| {
        push_text(out, tsuid)
    });
    out.push_str(",\"downsample\":");
    push_optional(out, sub_query.downsample.as_deref());
    let _ = write!(out, ",\"rate\":{},\"filters\":", sub_query.rate);
    push_list(out, Some(&sub_query.filters), |out, filter| {
        out.push_str("{\"tagk\":");
        push_text(out, &filter.tagk);
        out.push_str(",\"filter\":");
        push_text(out, &filter.text);
        let (group_by, kind) = (filter.group_by, filter.kind().name());
        let _ = write!(out, ",\"group_by\":{group_by},\"type\":\"{kind}\"}}");
    });
    out.push_str(",\"percentiles\":");
    push_list(out, sub_query.percentiles.as_deref(), |out, p| {
        out.push_str(&float_text(*p));
    });
    let _ = write!(out, ",\"index\":{index},\"rateOptions\":");
    push_rate_options(out, sub_query.rate_options);
    out.push_str(",\"filterTagKs\":");
    push_filter_keys(out, sub_query, uids);
    let _ = write!(
        out,
        ",\"explicitTags\":{},\"useFuzzyFilter\":{},\"preAggregate\":{},\"rollupUsage\":",
        sub_query.explicit_tags, !sub_query.without_fuzzy_filter, sub_query.pre_aggregate
    );
    push_optional(out, sub_query.rollup_usage.map(|usage| usage.name()));
    out.push_str(",\"rollupTable\":");
    push_text(out, table);
    let _ = write!(
        out,
        ",\"showHistogramBuckets\":{},\"useMultiGets\":{},\"tags\":{{",
        sub_query.show_histogram_buckets, !sub_query.without_multi_gets
    );
    let grouping = sub_query.filters.iter().filter(|filter| filter.group_by);
    for (i, filter) in grouping.enumerate() {
        out.push_str(if i == 0 { "" } else { "," });
        push_text(out, &filter.tagk);
        out.push(':');
        push_text(out, &format!("{}({})", filter.kind().name(), filter.text));
    }
    let is_histogram = sub_query.is_histogram_query();
    let _ = write!(out, "}},\"histogramQuery\":{is_histogram}}}");
}

fn push_optional(out: &mut String, text: Option<&str>) {
    match text {
        None => out.push_str("null"),
        Some(text) => push_text(out, text),
    }
}

fn push_list<T>(out: &mut String, list: Option<&[T]>, push: impl Fn(&mut String, &T)) {
    let Some(list) = list else {
        return out.push_str("null");
    };
    out.push('[');
    for (i, element) in list.iter().enumerate() {
        out.push_str(if i == 0 { "" } else { "," });
        push(out, element);
    }
    out.push(']');
}

fn push_rate_options(out: &mut String, options: Option<RateOptions>) {
    let Some(options) = options else {
        return out.push_str("null");
    };
    let _ = write!(
        out,
        "{{\"counter\":{},\"counterMax\":{},\"resetValue\":{},\"dropResets\":{}}}",
        options.counter, options.counter_max, options.reset_value, options.drop_resets
    );
}

/// The UIDs of the keys that are filtered, in base64.
fn push_filter_keys(out: &mut String, sub_query: &SubQuery, uids: &Uids) {
    let tagks = uids.read(UidKind::Tagk);
    let ids = sub_query.filters.iter().filter_map(|f| tagks.id(&f.tagk));
    let mut ids: Vec<Uid> = ids.collect();
    ids.sort_unstable();
    ids.dedup();
    let texts: Vec<String> = ids
        .iter()
        .map(|id| base64(&id.0.to_be_bytes()[8 - tagks.width().min(8)..]))
        .collect();
    let is_filtered = !texts.is_empty();
    push_list(out, is_filtered.then_some(&texts), |out, text| {
        push_text(out, text)
    });
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let mut group = [0; 3];
        group[..chunk.len()].copy_from_slice(chunk);
        let bits = u32::from_be_bytes([0, group[0], group[1], group[2]]);
        for i in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * i)) as usize & 63];
            text.push(if i <= chunk.len() {
                char::from(digit)
            } else {
                '='
            });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_to_the_storage_are_shown_as_given() {
        let uids = Uids::new([3; 3], false);
        for (without_fuzzy_filter, without_multi_gets) in
            [(false, false), (true, false), (false, true)]
        {
            let sub_query = SubQuery {
                without_fuzzy_filter,
                without_multi_gets,
                ..SubQuery::default()
            };
            let mut out = String::new();
            push_query(&mut out, &sub_query, 0, "raw", &uids);
            let shown: serde_json::Value = serde_json::from_str(&out).unwrap();
            assert_eq!(shown["useFuzzyFilter"], !without_fuzzy_filter);
            assert_eq!(shown["useMultiGets"], !without_multi_gets);
        }
    }

    #[test]
    fn uids_in_base64() {
        assert_eq!(base64(&[0, 0, 1]), "AAAB");
        assert_eq!(base64(b"Ma"), "TWE=");
        assert_eq!(base64(b"M"), "TQ==");
        assert_eq!(base64(b"Many"), "TWFueQ==");
    }
}
