//! Cells of events, and up to where the journal is in them.

use icecore_model::event::{Cell, HistogramCell};
use icecore_records::{DecodeError, event_cell, flush_mark};

use super::{Fact, Reading};

const MS_PER_S: i64 = 1_000;
const NS_PER_MS: i64 = 1_000_000;

impl Reading<'_> {
    pub(super) fn event_mark(&mut self, value: &[u8]) -> Result<(), DecodeError> {
        let mark = flush_mark::decode(value)?;
        self.view.fact("generation", mark.generation);
        self.view.fact("sequence", mark.seq);
        self.view.fact("registry_version", mark.registry_version);
        Ok(())
    }

    pub(super) fn event_cell(&mut self, value: &[u8]) -> Result<(), DecodeError> {
        let cell = event_cell::decode(value)?;
        let kind = match &cell {
            Cell::Counter(_) => "counter",
            Cell::Histogram(_) => "histogram",
            Cell::Gauge(_) => "gauge",
        };
        self.view.fact("kind", kind.to_owned());
        let first_ms = cell.first_s().saturating_mul(MS_PER_S);
        self.view.fact("first", Fact::Time(first_ms));
        match cell {
            Cell::Counter(cell) => {
                self.view.fact("count", Fact::Text(cell.count.to_string()));
                self.view.fact("sum", Fact::Number(cell.sum));
            }
            Cell::Histogram(cell) => self.event_histogram(&cell),
            Cell::Gauge(cell) => {
                let reducer = format!("{:?}", cell.reducer).to_lowercase();
                self.view.fact("reducer", reducer);
                self.view.fact("value", Fact::Number(cell.value));
                let observed = Fact::Time(cell.observed_ns.div_euclid(NS_PER_MS));
                self.view.fact("observed", observed);
                self.view.fact("event", hex::encode(cell.event.0));
            }
        }
        Ok(())
    }

    fn event_histogram(&mut self, cell: &HistogramCell) {
        self.view.fact("samples", cell.samples);
        self.view.fact("sum", Fact::Number(cell.sum));
        self.view.fact("min", Fact::Number(cell.min));
        self.view.fact("max", Fact::Number(cell.max));
        self.view.fact("buckets", cell.counts.len());
        let counts = cell.counts.iter().enumerate();
        self.lines(counts.map(|(bucket, count)| format!("bucket {bucket}: {count}")));
        if let Some(sketch) = &cell.sketch {
            let buckets = sketch.positive.len() + sketch.negative.len();
            self.view.fact("sketch_buckets", buckets);
            let accuracy = sketch.relative_accuracy;
            self.lines([format!(
                "sketch of accuracy {accuracy}: 0 × {}",
                sketch.zero
            )]);
            let sides = [
                ("positive", &sketch.positive),
                ("negative", &sketch.negative),
            ];
            for (side, counts) in sides {
                let line = |(index, count): &(i32, u64)| format!("sketch {side} {index}: {count}");
                self.lines(counts.iter().map(line));
            }
        }
        self.view.fact("exemplars", cell.exemplars.len());
        self.lines(cell.exemplars.iter().map(|exemplar| {
            let trace = exemplar.trace_id.map(hex::encode).unwrap_or_default();
            format!(
                "exemplar of bucket {}: {} at {} ns, event {}, trace {trace:?}",
                exemplar.bucket,
                exemplar.value,
                exemplar.at_ns,
                hex::encode(exemplar.event.0),
            )
        }));
    }
}

#[cfg(test)]
mod tests {
    use icecore_model::event::{
        CellExemplar, CellKey, CounterCell, DimensionHash, EventId, EventWindow, FlushMark,
        GaugeCell, IdentityKey, Reducer, SketchCounts, Week,
    };
    use icecore_records::{event_identity, flush_cursor, key};

    use super::super::{RecordView, describe};
    use super::*;

    const AT_S: i64 = 1_794_391_200;

    fn shown(cell: &Cell) -> RecordView {
        let key = CellKey {
            window: EventWindow::Minute,
            metric: 7,
            start_s: AT_S,
            dimensions: DimensionHash([1; 16]),
        };
        let key = key::event_cell(&key).unwrap();
        let view = describe(&key, &event_cell::encode(cell), true);
        assert_eq!(view.problem, None);
        assert!(view.name.starts_with("EventCell 1m 2026w46 metric 7"));
        view
    }

    fn fact<'v>(view: &'v RecordView, name: &str) -> &'v Fact {
        let found = view.facts.iter().find(|(fact, _)| *fact == name);
        &found.unwrap().1
    }

    #[test]
    fn cells_are_told_by_kind() {
        let counter = shown(&Cell::Counter(CounterCell {
            first_s: AT_S,
            count: -2,
            sum: 1.5,
        }));
        assert_eq!(*fact(&counter, "kind"), Fact::Text("counter".into()));
        assert_eq!(*fact(&counter, "count"), Fact::Text("-2".into()));
        assert_eq!(*fact(&counter, "first"), Fact::Time(AT_S * 1000));
        let gauge = shown(&Cell::Gauge(GaugeCell {
            first_s: AT_S,
            reducer: Reducer::Max,
            value: 4.5,
            observed_ns: AT_S * 1_000_000_000 + 7,
            event: EventId([0xab; 16]),
        }));
        assert_eq!(*fact(&gauge, "reducer"), Fact::Text("max".into()));
        assert_eq!(*fact(&gauge, "observed"), Fact::Time(AT_S * 1000));
        assert_eq!(*fact(&gauge, "event"), Fact::Text("ab".repeat(16)));
    }

    #[test]
    fn histograms_are_shown_in_full() {
        let exemplar = CellExemplar {
            bucket: 1,
            value: 0.5,
            at_ns: 9,
            event: EventId([0xab; 16]),
            trace_id: Some([0xcd; 16]),
        };
        let view = shown(&Cell::Histogram(HistogramCell {
            first_s: AT_S,
            counts: vec![1, 2],
            samples: 3,
            sum: 4.0,
            min: 0.5,
            max: 2.0,
            sketch: Some(SketchCounts {
                relative_accuracy: 0.01,
                zero: 1,
                positive: vec![(5, 2)],
                negative: Vec::new(),
            }),
            exemplars: vec![exemplar],
        }));
        assert_eq!(*fact(&view, "samples"), Fact::Count(3));
        assert_eq!(*fact(&view, "sketch_buckets"), Fact::Count(1));
        let text = view.details.join("\n");
        for line in [
            "bucket 1: 2",
            "sketch positive 5: 2",
            "exemplar of bucket 1",
        ] {
            assert!(text.contains(line), "{text}");
        }
    }

    #[test]
    fn marks_and_identities_have_their_sequences() {
        let mark = FlushMark {
            generation: 3,
            seq: 70,
            registry_version: 2,
        };
        let identity = IdentityKey {
            week: Week::of(AT_S),
            service: 1,
            event: EventId([2; 16]),
        };
        for (key, value) in [
            (key::event_mark(), flush_mark::encode(mark)),
            (key::events_sealed(), flush_cursor::encode(70)),
            (key::event_identity(&identity), event_identity::encode(70)),
        ] {
            let view = describe(&key, &value, true);
            assert_eq!(*fact(&view, "sequence"), Fact::Count(70), "{}", view.name);
            let cut = describe(&key, &value.slice(..1), true);
            assert!(cut.problem.is_some(), "{}", view.name);
        }
    }
}
