use std::sync::Arc;

use icecore_model::{
    Histogram, Labels, Metadata, MetricType, RawLabels, STALE_NAN_BITS, SampleSink,
};

use super::*;
use crate::testing::job;

/// Writes down what it is told: `name{…} value@timestamp`.
#[derive(Default)]
struct Written {
    series: String,
    lines: Vec<String>,
    metadata: Vec<(String, MetricType)>,
    announced: usize,
    rejected: Vec<String>,
}

impl SampleSink for Written {
    fn guess_series(&mut self, _: &[u8]) -> Option<usize> {
        None
    }

    fn series(&mut self, labels: RawLabels<'_>) {
        let mut pairs = Vec::new();
        labels.parse(&mut pairs).unwrap();
        self.series = Labels::from_pairs(pairs).to_string();
        self.announced += 1;
    }

    fn sample(&mut self, sample: Sample) {
        let value = match sample.value.to_bits() {
            STALE_NAN_BITS => "stale".to_owned(),
            _ => sample.value.to_string(),
        };
        let (series, time) = (&self.series, sample.timestamp_ms);
        let start = match sample.start_timestamp_ms {
            0 => String::new(),
            start => format!(" since {start}"),
        };
        self.lines.push(format!("{series} {value}@{time}{start}"));
    }

    fn histogram(&mut self, timestamp_ms: i64, _: i64, histogram: Histogram) {
        let what = if histogram.is_stale() {
            "stale histogram".to_owned()
        } else {
            format!("histogram of schema {}", histogram.schema)
        };
        self.lines
            .push(format!("{} {what}@{timestamp_ms}", self.series));
    }

    fn exemplar(&mut self, exemplar: Exemplar) {
        let (value, time) = (exemplar.value, exemplar.timestamp_ms);
        self.lines
            .push(format!("{} exemplar {value}@{time}", self.series));
    }

    fn metadata(&mut self, family: &str, metadata: Metadata) {
        self.metadata.push((family.into(), metadata.metric_type));
    }

    fn reject(&mut self, reason: String) {
        self.rejected.push(reason);
    }
}

struct Scrapes {
    rules: Rules,
    rules_number: u64,
    series: TargetSeries,
    now_ms: i64,
    counts: Counts,
    format: Format,
    histograms: HistogramOverrides,
}

impl Scrapes {
    fn new(change: impl FnOnce(&mut ScrapeConfig)) -> Self {
        Self {
            rules: rules(change),
            rules_number: 1,
            series: TargetSeries::new([("job", "j")].into_iter()),
            now_ms: 0,
            counts: Counts::default(),
            format: Format::Text004,
            histograms: HistogramOverrides::default(),
        }
    }

    /// One scrape a second after the last, stored.
    fn scrape(&mut self, body: &str) -> Result<Written, BodyError> {
        let mut written = Written::default();
        self.now_ms += 1000;
        self.series.begin(self.rules_number, self.now_ms);
        self.counts = Counts::default();
        let page = Page {
            bytes: body.as_bytes(),
            format: self.format,
            histograms: self.histograms,
        };
        let now = self.now_ms;
        let series = &mut self.series;
        append(
            &self.rules,
            series,
            &page,
            now,
            &mut self.counts,
            &mut written,
        )?;
        series.commit();
        Ok(written)
    }

    fn lines(&mut self, body: &str) -> Vec<String> {
        self.scrape(body).unwrap().lines
    }
}

fn rules(change: impl FnOnce(&mut ScrapeConfig)) -> Rules {
    let mut config = job();
    change(&mut config);
    Rules::new(Arc::new(config))
}

#[test]
fn samples_get_the_time_of_their_scrape_or_their_own() {
    let body = "a 1\nb 2 77\n";
    let mut honoring = Scrapes::new(|_| {});
    assert_eq!(
        honoring.lines(body),
        ["a{job=\"j\"} 1@1000", "b{job=\"j\"} 2@77"]
    );
    let mut not = Scrapes::new(|c| c.honor_timestamps = false);
    assert_eq!(
        not.lines(body),
        ["a{job=\"j\"} 1@1000", "b{job=\"j\"} 2@1000"]
    );
}

#[test]
fn series_end_when_they_do_not_come_again() {
    let mut scrapes = Scrapes::new(|_| {});
    scrapes.lines("a 1\nb 1\nc 1 77\n");
    assert_eq!(
        scrapes.lines("a 2\n"),
        ["a{job=\"j\"} 2@2000", "b{job=\"j\"} stale@2000"]
    );
    assert_eq!(scrapes.lines("a 3\n"), ["a{job=\"j\"} 3@3000"]);
    let mut tracking = Scrapes::new(|c| c.track_timestamps_staleness = true);
    tracking.lines("c 1 77\n");
    assert_eq!(tracking.lines(""), ["c{job=\"j\"} stale@2000"]);
}

#[test]
fn known_texts_are_not_resolved_again() {
    let mut scrapes = Scrapes::new(|_| {});
    scrapes.lines("a 1\nb 1\n");
    assert_eq!(scrapes.counts.added, 2);
    scrapes.lines("b 1\na 1\n");
    assert_eq!(scrapes.counts.added, 0);
    assert_eq!(scrapes.counts.scraped, 2);
    // Other rules mean that everything is looked at again.
    scrapes.rules = rules(|c| c.label_limit = 1);
    assert!(scrapes.scrape("a 1\n").is_ok());
    scrapes.rules_number = 2;
    assert!(scrapes.scrape("a 1\n").is_err());
}

#[test]
fn a_page_that_cannot_be_read_is_an_error_and_ends_nothing_new() {
    let mut scrapes = Scrapes::new(|_| {});
    scrapes.lines("a 1\n");
    let error = scrapes.scrape("a 2\nnew 1\nnonsense\n").err().unwrap();
    assert!(matches!(error, BodyError::Malformed(_)), "{error}");
    assert_eq!(scrapes.counts.scraped, 2);
    // What the caller writes then: everything that is live ends, and nothing that never was.
    let mut written = Written::default();
    scrapes.series.begin(1, 3000);
    scrapes.series.end_others(3000, &mut written);
    assert_eq!(written.lines, ["a{job=\"j\"} stale@3000"]);
}

#[test]
fn the_first_of_two_samples_counts() {
    let mut scrapes = Scrapes::new(|_| {});
    let lines = scrapes.lines("a{x=\"1\"} 1\na{x=\"1\"} 2\na{ x = \"1\" } 3\n");
    assert_eq!(lines, ["a{job=\"j\", x=\"1\"} 1@1000"]);
    assert_eq!(scrapes.counts.duplicates, 2);
    assert_eq!(scrapes.counts.kept, 3);
    // Those that name their times are different samples.
    let lines = scrapes.lines("b 1 10\nb 2 20\n");
    assert_eq!(lines.len(), 3, "{lines:?}");
}

#[test]
fn sample_limits_count_what_relabelling_keeps() {
    let mut scrapes = Scrapes::new(|c| c.sample_limit = 2);
    assert!(scrapes.scrape("a 1\nb 1\n").is_ok());
    let error = scrapes.scrape("a 1\nb 1\nc 1\nd 1\n").err().unwrap();
    assert_eq!(error, BodyError::Limit("sample limit exceeded".into()));
    assert_eq!(scrapes.counts.scraped, 4);
    assert_eq!(scrapes.counts.kept, 4);
}

#[test]
fn what_is_said_about_families_is_written_when_it_changes() {
    let mut scrapes = Scrapes::new(|_| {});
    let page = "# HELP a Help.\n# TYPE a counter\na 1\n";
    let counter = ("a".to_owned(), MetricType::Counter);
    assert_eq!(
        scrapes.scrape(page).unwrap().metadata,
        std::slice::from_ref(&counter)
    );
    assert_eq!(scrapes.scrape(page).unwrap().metadata, []);
    let changed = "# HELP a Help.\n# TYPE a gauge\na 1\n";
    let gauge = ("a".to_owned(), MetricType::Gauge);
    assert_eq!(
        scrapes.scrape(changed).unwrap().metadata,
        std::slice::from_ref(&gauge)
    );
    // What could not be stored is written again.
    scrapes.series.failed();
    assert_eq!(scrapes.scrape(changed).unwrap().metadata, [gauge]);
    let help = &scrapes.series.families.get("a").unwrap().help;
    assert_eq!(help, "Help.");
}

/// As Prometheus 3.14: a time that a series has already is a duplicate, another one is not.
#[test]
fn of_one_time_the_first_sample_counts() {
    let mut scrapes = Scrapes::new(|_| {});
    let page = "a 1 500\na 2 500\na 3 600\na 4 500\na 5 600\na 6\nb 1\nb 2\nb 3 1000\nb 4 900\n";
    assert_eq!(
        scrapes.lines(page),
        [
            "a{job=\"j\"} 1@500",
            "a{job=\"j\"} 3@600",
            "b{job=\"j\"} 1@1000",
            "b{job=\"j\"} 4@900",
        ]
    );
}

#[test]
fn created_lines_are_series_unless_start_timestamps_are_wanted() {
    let page = "# TYPE a counter\na_total 5\na_created 0.25\n# EOF\n";
    let mut scrapes = Scrapes::new(|_| {});
    scrapes.format = Format::OpenMetrics;
    assert_eq!(
        scrapes.lines(page),
        [
            "a_total{job=\"j\"} 5@1000",
            "a_created{job=\"j\"} 0.25@1000"
        ]
    );
    let mut scrapes = Scrapes::new(|job| job.start_timestamps = true);
    scrapes.format = Format::OpenMetrics;
    assert_eq!(scrapes.lines(page), ["a_total{job=\"j\"} 5@1000 since 250"]);
}

#[test]
fn an_exemplar_without_a_time_is_stored_once() {
    let mut scrapes = Scrapes::new(|_| {});
    scrapes.format = Format::OpenMetrics;
    let page = "# TYPE a counter\na_total 5 # {trace_id=\"x\"} 1.5\n# EOF\n";
    let series = "a_total{job=\"j\"}";
    assert_eq!(
        scrapes.lines(page),
        [
            format!("{series} 5@1000"),
            format!("{series} exemplar 1.5@1000")
        ]
    );
    assert_eq!(scrapes.lines(page), [format!("{series} 5@2000")]);
    let timed = "# TYPE a counter\na_total 5 # {trace_id=\"x\"} 1.5 9\n# EOF\n";
    assert_eq!(
        scrapes.lines(timed)[1],
        format!("{series} exemplar 1.5@9000")
    );
}

#[test]
fn a_target_that_goes_ends_everything_after_its_last_sample() {
    let mut scrapes = Scrapes::new(|_| {});
    scrapes.lines("a 1\n");
    let mut written = Written::default();
    let report = crate::report::Report::default();
    scrapes.series.report(&report, 1000, &mut written);
    let mut written = Written::default();
    // The clock was set back.
    assert!(scrapes.series.end_all(500, &mut written));
    assert_eq!(written.lines[0], "a{job=\"j\"} stale@1001");
    assert_eq!(written.lines[1], "up{job=\"j\"} stale@1001");
    assert_eq!(written.lines.len(), 6);
    scrapes.series.commit();
    let mut again = Written::default();
    assert!(!scrapes.series.end_all(9000, &mut again));
    assert!(again.lines.is_empty());
}

#[test]
fn a_target_says_how_its_histograms_are_read() {
    let body = "# TYPE h histogram\nh_bucket{le=\"+Inf\"} 1\nh_sum 1\nh_count 1\n";
    let native = "h{job=\"j\"} histogram of schema -53@1000";
    let mut scrapes = Scrapes::new(|c| c.convert_classic_histograms_to_nhcb = true);
    assert_eq!(scrapes.lines(body), [native]);
    let mut scrapes = Scrapes::new(|c| c.convert_classic_histograms_to_nhcb = true);
    scrapes.histograms.convert_classic = Some(false);
    assert_eq!(scrapes.lines(body).len(), 3);
    let mut scrapes = Scrapes::new(|_| {});
    scrapes.histograms.convert_classic = Some(true);
    assert_eq!(scrapes.lines(body), [native]);
    let mut scrapes = Scrapes::new(|c| c.convert_classic_histograms_to_nhcb = true);
    scrapes.histograms.always_classic = Some(true);
    assert_eq!(scrapes.lines(body).len(), 4);
}
