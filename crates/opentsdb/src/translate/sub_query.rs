//! One sub query: a selector, downsampled, as a rate, aggregated.

use icecore_model::format_duration_ms;
use jiff::tz::TimeZone;

use super::aggregation::Aggregation;
use super::bridge;
use super::condition::{Condition, add};
use super::downsampling::Downsampled;
use super::interval::Bucket;
use super::matchers::{group_keys, selector};
use super::options::{QueryTime, TranslateOptions, zone};
use super::promql::{Vector, offset, seconds};
use super::rate::rate;
use super::refusal::Refusal;
use super::steps::{Steps, earlier, scan};
use super::variables::{Variables, has_variables};
use crate::query::{
    Aggregator, Downsampler, FillPolicy, Interval, QueryRequest, RateOptions, SubQuery,
};

/// How far back PromQL looks for the point before the last.
const RATE_RANGE: &str = "5m";

/// What stands around a sub query.
#[derive(Clone, Debug)]
pub(super) struct Surroundings<'a> {
    pub(super) options: &'a TranslateOptions,
    pub(super) time: QueryTime,
    pub(super) use_calendar: bool,
    pub(super) zone: TimeZone,
    pub(super) variables: &'a Variables,
    /// Keys that series must not have.
    pub(super) absent_keys: Vec<String>,
    /// How much earlier points are than they are shown.
    pub(super) shift_ms: i64,
}

impl<'a> Surroundings<'a> {
    pub(super) fn new(
        request: &QueryRequest,
        options: &'a TranslateOptions,
        variables: &'a Variables,
    ) -> Result<Self, Refusal> {
        Ok(Self {
            options,
            time: QueryTime::of(request, options.now_ms)?,
            use_calendar: request.use_calendar,
            zone: zone(request)?,
            variables,
            absent_keys: Vec::new(),
            shift_ms: 0,
        })
    }
}

/// An expression that is being built.
#[derive(Clone, Debug)]
pub(super) struct Built {
    pub(super) vector: Vector,
    /// The labels of its series; `None` where they have all labels of their metric.
    pub(super) keys: Option<Vec<String>>,
    pub(super) bucket: Option<Bucket>,
    pub(super) steps: Steps,
    pub(super) conditions: Vec<Condition>,
    pub(super) notes: Vec<String>,
    /// Whether OpenTSDB answers NaN where there is no sample.
    pub(super) has_nan: bool,
}

/// The expression of a sub query.
pub(super) fn build(sub_query: &SubQuery, around: &Surroundings<'_>) -> Result<Built, Refusal> {
    check_kind(sub_query)?;
    let name = sub_query.aggregator.as_str();
    let aggregator = Aggregator::find(name)
        .ok_or_else(|| Refusal::new(format!("there is no aggregator {name}")))?;
    let (aggregation, condition) = Aggregation::new(aggregator)?;
    let keys = group_keys(&sub_query.filters);
    let metric = sub_query.metric.as_deref().unwrap_or_default();
    let mut work = SubQueryWork {
        around,
        selector: selector(metric, &sub_query.filters, &around.absent_keys),
        aggregation,
        keys,
        rate: sub_query
            .rate
            .then(|| sub_query.rate_options.unwrap_or_default()),
        conditions: condition.into_iter().collect(),
        notes: Vec::new(),
        has_nan: false,
    };
    if sub_query.explicit_tags && !sub_query.filters.is_empty() {
        let mut named: Vec<String> = sub_query.filters.iter().map(|f| f.tagk.clone()).collect();
        named.dedup();
        work.conditions.push(Condition::NoOtherTags(named));
    }
    let downsample = sub_query.downsample.as_deref().unwrap_or_default();
    let (vector, bucket) = if downsample.is_empty() {
        (work.raw(), None)
    } else {
        let (downsampler, bucket) = work.downsampler(downsample)?;
        (
            work.downsampled(&downsampler, bucket.clone())?,
            Some(bucket),
        )
    };
    let time = around.time;
    Ok(Built {
        vector,
        keys: (!aggregator.is_none()).then_some(work.keys),
        steps: Steps::new(bucket.as_ref(), time, work.rate.is_some(), around.shift_ms),
        bucket,
        conditions: work.conditions,
        notes: work.notes,
        has_nan: work.has_nan,
    })
}

/// What cannot be asked for in PromQL at all.
fn check_kind(sub_query: &SubQuery) -> Result<(), Refusal> {
    if sub_query.tsuids.as_ref().is_some_and(|t| !t.is_empty()) {
        return Err(Refusal::new(
            "TSUIDs name series by numbers that only the server's table of UIDs knows: ask for \
             the metric and its tags",
        ));
    }
    if sub_query.metric.as_deref().unwrap_or_default().is_empty() {
        return Err(Refusal::new("it names no metric"));
    }
    if sub_query.is_histogram_query() {
        return Err(Refusal::new(
            "OpenTSDB answers with a bucket's middle as a percentile of histograms, \
             histogram_quantile interpolates within the bucket",
        ));
    }
    if sub_query.pre_aggregate {
        return Err(Refusal::new(
            "pre-aggregates are series of their own (metric:groupby); which of them answer is the \
             configuration of rollups",
        ));
    }
    Ok(())
}

struct SubQueryWork<'a> {
    around: &'a Surroundings<'a>,
    selector: String,
    aggregation: Aggregation,
    keys: Vec<String>,
    rate: Option<RateOptions>,
    conditions: Vec<Condition>,
    notes: Vec<String>,
    has_nan: bool,
}

impl SubQueryWork<'_> {
    fn add(&mut self, condition: Condition) {
        add(&mut self.conditions, [condition]);
    }

    /// Without a downsampler.
    fn raw(&mut self) -> Vector {
        let shift = offset(self.around.shift_ms);
        let selector = &self.selector;
        let vector = match self.rate {
            None => Vector::atom(format!("{selector}{shift}")),
            Some(_) => Vector::atom(format!("irate({selector}[{RATE_RANGE}]{shift})")),
        };
        self.add(Condition::PointsAtSteps);
        if self.rate.is_some() {
            self.add(Condition::NeverFalls);
            self.add(Condition::NotTheFirstRate);
        } else if self.aggregation.cuts_integers() {
            self.add(Condition::NoIntegers);
        }
        self.aggregation.apply(&vector, &self.keys)
    }

    /// What a specification says. The interval of a dashboard may be a variable.
    fn downsampler(&self, text: &str) -> Result<(Downsampler, Bucket), Refusal> {
        let (interval, rest) = text.split_once('-').unwrap_or((text, ""));
        let around = self.around;
        if has_variables(interval) {
            let known = format!("1m-{rest}");
            let downsampler = Downsampler::parse(&known, false, &TimeZone::UTC)?;
            let name = around.variables.restore(interval);
            return Ok((downsampler, Bucket::Variable(name)));
        }
        let downsampler = Downsampler::parse(text, around.use_calendar, &around.zone)?;
        let is_all = downsampler.interval == Interval::All;
        let bucket = if is_all && around.time == QueryTime::Dashboard {
            Bucket::WholeDashboard
        } else {
            let window = around.time.window();
            let length_ms = window.map(|window| window.end_ms - window.start_ms);
            Bucket::of(&downsampler.interval, length_ms)?
        };
        Ok((downsampler, bucket))
    }

    fn downsampled(
        &mut self,
        downsampler: &Downsampler,
        bucket: Bucket,
    ) -> Result<Vector, Refusal> {
        let fill = if bucket.is_repeated() {
            downsampler.fill
        } else {
            FillPolicy::None
        };
        let shift_ms = self.around.shift_ms;
        if let Bucket::Fixed(ms) = bucket
            && shift_ms % ms != 0
        {
            let reason = "points are shifted by a span that is no multiple of the interval";
            return Err(Refusal::new(reason));
        }
        let selector = self.selector.clone();
        let (downsampled, condition) =
            Downsampled::new(selector, bucket, downsampler.function, shift_ms)?;
        condition.into_iter().for_each(|c| self.add(c));
        let filler = match fill {
            FillPolicy::Scalar => {
                return Err(Refusal::new(
                    "OpenTSDB refuses the fill policy scalar in queries",
                ));
            }
            FillPolicy::Zero => self.filler(&downsampled.bucket),
            FillPolicy::NotANumber | FillPolicy::Null => {
                self.note_missing();
                None
            }
            FillPolicy::None => None,
        };
        match self.rate {
            Some(options) => self.rated(&downsampled, &options, fill, filler.as_deref()),
            None => Ok(self.values(&downsampled, fill, filler.as_deref())),
        }
    }

    fn note_missing(&mut self) {
        self.has_nan = true;
        let mut note = "where OpenTSDB answers NaN or null, there is no sample".to_owned();
        if self.aggregation.aggregator.name == "count" {
            note = "where OpenTSDB counts 0, there is no sample".to_owned();
        }
        self.notes.push(note);
    }

    /// A zero for each series of the query.
    fn filler(&mut self, bucket: &Bucket) -> Option<String> {
        let selector = &self.selector;
        let shift_ms = self.around.shift_ms;
        let filler = match (self.around.time, bucket) {
            (QueryTime::Absolute(window), Bucket::Fixed(ms)) => {
                let read = scan(earlier(window, shift_ms), *ms);
                let length = format_duration_ms(read.end_ms - read.start_ms);
                let end = seconds(read.end_ms - 1);
                return Some(format!("0 * last_over_time({selector}[{length}] @ {end})"));
            }
            (QueryTime::Relative(window), _) => {
                let length = format_duration_ms(window.end_ms - window.start_ms);
                format!("{selector}[{length}] @ end()")
            }
            (QueryTime::Dashboard, _) => format!("{selector}[$__range] @ end()"),
            _ => {
                self.add(Condition::NoGapsOfZeros);
                return None;
            }
        };
        self.add(Condition::SeriesOfTheRange);
        Some(format!("0 * last_over_time({filler}{})", offset(shift_ms)))
    }

    fn values(
        &mut self,
        downsampled: &Downsampled,
        fill: FillPolicy,
        filler: Option<&str>,
    ) -> Vector {
        let value = downsampled.vector(0);
        let has_gaps = fill == FillPolicy::None && downsampled.bucket.is_repeated();
        if has_gaps && !self.aggregation.ignores_gaps() {
            let interpolation = self.aggregation.aggregator.interpolation;
            let bridge = self.around.options.bridge_ms;
            let bridged = bridge.and_then(|ms| bridge::bridged(downsampled, interpolation, ms));
            if let Some((gap_ms, bridged)) = bridge.zip(bridged) {
                self.add(Condition::GapsUpTo(gap_ms));
                let aggregate = self.aggregation.apply(&bridged, &self.keys);
                return bridge::where_points_are(&aggregate, downsampled, &self.keys);
            }
            self.add(Condition::NoGaps);
        }
        let value = match filler {
            None => value,
            Some(filler) => {
                // Names are dropped on both sides, so that a series stays one.
                let named = downsampled.keeps_name();
                let plus = if named { " + 0" } else { "" };
                Vector::binary(format!("{}{plus} or {filler}", value.operand()))
            }
        };
        self.aggregation.apply(&value, &self.keys)
    }

    fn rated(
        &mut self,
        downsampled: &Downsampled,
        options: &RateOptions,
        fill: FillPolicy,
        filler: Option<&str>,
    ) -> Result<Vector, Refusal> {
        let seconds = downsampled
            .bucket
            .seconds()
            .ok_or_else(|| Refusal::new("the one value of 0all has no rate"))?;
        let is_none = self.aggregation.aggregator.is_none();
        if !matches!(self.around.time, QueryTime::Absolute(_)) {
            self.add(Condition::NotTheFirstRate);
        }
        if options.counter && options.drop_resets {
            if !is_none {
                self.add(Condition::NoResets);
            }
            if !downsampled.is_never_negative() {
                self.add(Condition::NoNegatives);
            }
        }
        if fill == FillPolicy::None {
            let bridge = self.around.options.bridge_ms.filter(|_| is_none);
            let previous = bridge.and_then(|ms| bridge::previous(downsampled, ms));
            if let Some((gap_ms, (previous, since))) = bridge.zip(previous) {
                self.add(Condition::GapsUpTo(gap_ms));
                let value = downsampled.vector(0);
                return Ok(rate(options, &value, &previous, &since));
            }
            self.add(Condition::NoGapsOfRates);
        }
        let value = |back| {
            let value = downsampled.vector(back);
            match filler {
                None => value,
                Some(filler) => Vector::binary(format!("{} or {filler}", value.operand())),
            }
        };
        let rated = rate(options, &value(0), &value(1), &seconds);
        Ok(self.aggregation.apply(&rated, &self.keys))
    }
}
