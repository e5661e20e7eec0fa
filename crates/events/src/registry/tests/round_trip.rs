//! What is rendered or stored reads back as the same.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use icecore_model::event::{EventWindow, Reducer};
use proptest::collection::{btree_map, btree_set, vec};
use proptest::option;
use proptest::prelude::*;

use super::*;
use crate::Scalar;

/// Names and values that YAML could misread.
fn any_text() -> impl Strategy<Value = String> {
    "\\PC{0,8}|[ -~]{0,8}|[\\[\\]{}:,#&*!|>'\"\n\t]{1,3}|null|~|-?[0-9]{1,3}|1e3|true|No|---"
}

fn any_name() -> impl Strategy<Value = String> {
    let name = "[a-z]{1,4}|[ -9;-~äß]{1,8}|null|true|[0-9]{1,3}|-|~";
    name.prop_map(|name| name.trim().to_owned())
        .prop_filter("names are not empty", |name| !name.is_empty())
}

fn any_duration() -> impl Strategy<Value = Duration> {
    (1_u64..200_000_000).prop_map(Duration::from_secs)
}

fn any_number() -> impl Strategy<Value = f64> {
    let doubles = any::<f64>().prop_filter("finite", |number| number.is_finite());
    prop_oneof![
        doubles,
        (-1000_i32..1000).prop_map(f64::from),
        Just(1e15),
        Just(9_007_199_254_740_993.0)
    ]
}

fn any_scalar() -> impl Strategy<Value = Scalar<'static>> {
    prop_oneof![
        any_text().prop_map(|text| Scalar::Text(text.into())),
        any::<i64>().prop_map(Scalar::Integer),
        any_number().prop_map(Scalar::Number),
        any::<bool>().prop_map(Scalar::Boolean),
    ]
}

prop_compose! {
    fn any_event()(
        names in (any_name(), any_name(), option::of(any_text())),
        labels in btree_map(any_name(), any_text(), 0..3),
        retention in any_duration(),
        paths in btree_map("[a-d](\\.[a-c]){0,2}", (0..10_usize, any::<bool>(), any::<bool>()), 0..8),
        empty_object in option::of(Just("e.f")),
        shift in 0..8_usize,
        masked in btree_map("m(\\.[a-c]){0,2}", any::<bool>(), 0..3),
    ) -> EventType {
        let types = [FieldType::String, FieldType::Integer, FieldType::Number,
            FieldType::Boolean, FieldType::Timestamp];
        let types: Vec<FieldType> = types.into_iter().flat_map(|t| [t, t.list()]).collect();
        let is_parent = |path: &str| paths.keys().any(|other| {
            other != path && lookup::is_within(other, path)
        });
        let leaves = paths.iter().filter(|(path, _)| !is_parent(path));
        let fields: Vec<Field> = leaves.map(|(path, (kind, required, indexed))| Field {
            path: path.clone(),
            kind: types[*kind],
            required: *required,
            indexed: *indexed,
        }).collect();
        let declared = fields.iter().map(|field| field.path.as_str()).chain(empty_object);
        let mut objects: BTreeSet<String> = empty_object.map(str::to_owned).into_iter().collect();
        for path in declared {
            let dots = path.match_indices('.');
            objects.extend(dots.map(|(at, _)| path[..at].to_owned()));
        }
        let dimensions = fields.iter().filter(|field| field.indexed && !field.kind.is_list());
        let mut dimensions: Vec<String> = dimensions.map(|field| field.path.clone()).collect();
        if !dimensions.is_empty() {
            let shift = shift % dimensions.len();
            dimensions.rotate_left(shift);
        }
        let masking = masked.into_iter().map(|(path, drop)| MaskRule {
            path,
            mask: if drop { Mask::Drop } else { Mask::Hash },
        });
        EventType {
            number: 0,
            service: names.0,
            name: names.1,
            display_name: names.2,
            labels,
            retention,
            fields,
            objects: objects.into_iter().collect(),
            dimensions,
            masking: masking.collect(),
            metrics: Vec::new(),
            retired: Vec::new(),
        }
    }
}

fn any_kind() -> impl Strategy<Value = MetricKind> {
    let path = || option::of(Just("u.value".to_owned()));
    let bounds = vec(any_number(), 1..6).prop_map(|mut bounds| {
        bounds.iter_mut().for_each(|bound| *bound += 0.0);
        bounds.sort_by(f64::total_cmp);
        bounds.dedup();
        Bounds::from(bounds)
    });
    let sketch = option::of(0.001..0.4_f64);
    let percentiles = vec(0.0..1.0_f64, 0..3);
    prop_oneof![
        path().prop_map(|sum_of| MetricKind::Counter { sum_of }),
        (path(), bounds, sketch, percentiles).prop_map(|(value, bounds, sketch, percentiles)| {
            MetricKind::Histogram {
                value,
                bounds,
                sketch: sketch.map(|relative_accuracy| Sketch { relative_accuracy }),
                percentiles,
            }
        }),
        (0..3_usize, path()).prop_map(|(reducer, observed_at)| MetricKind::Gauge {
            value: "u.value".into(),
            reducer: [Reducer::Latest, Reducer::Min, Reducer::Max][reducer],
            observed_at,
        }),
    ]
}

fn any_comparison() -> impl Strategy<Value = Comparison> {
    prop_oneof![
        any_scalar().prop_map(Comparison::Equal),
        any_scalar().prop_map(Comparison::NotEqual),
        any_number().prop_map(Comparison::Greater),
        any_number().prop_map(Comparison::GreaterOrEqual),
        any_number().prop_map(Comparison::Less),
        any_number().prop_map(Comparison::LessOrEqual),
        vec(any_scalar(), 1..4).prop_map(Comparison::In),
    ]
}

fn any_fold() -> impl Strategy<Value = Fold> {
    let rule = (option::of(-9..0_i32), option::of(0..9_i32), any_text());
    let rule = rule.prop_map(|(from, below, output)| FoldRule {
        from: from.map(f64::from),
        below: below.map(|below| f64::from(below) + 0.5),
        output,
    });
    vec(rule, 1..4).prop_map(|rules| Fold {
        source: "u.source".into(),
        target: "u.target".into(),
        rules,
    })
}

prop_compose! {
    fn any_metric()(
        name in any_name(),
        dimensions in btree_map("u\\.[a-e]", option::of("[x-z]{2}"), 0..4),
        skip in any::<bool>(),
        comparisons in vec(any_comparison(), 0..3),
        fold in option::of(any_fold()),
        fine in any::<bool>(),
        kept in proptest::array::uniform5(any_duration()),
        kind in any_kind(),
    ) -> Metric {
        let mut retention = WindowRetention::default();
        for (window, kept) in EventWindow::ALL.into_iter().zip(kept) {
            retention.set(window, kept);
        }
        let mut aliases = BTreeSet::new();
        let dimensions = dimensions.into_iter().map(|(path, alias)| {
            let alias = alias.filter(|alias| aliases.insert(alias.clone()));
            let label = alias.unwrap_or_else(|| label_of(&path));
            Dimension { path, label }
        });
        Metric {
            number: 0,
            series: series_of(&name),
            name,
            built_in: false,
            dimensions: dimensions.collect(),
            on_missing: if skip { OnMissing::Skip } else { OnMissing::Empty },
            filters: comparisons.into_iter().map(|comparison| Filter {
                path: "u.filter".into(),
                comparison,
            }).collect(),
            fold,
            base: if fine { EventWindow::FiveSeconds } else { EventWindow::Minute },
            retention,
            kind,
        }
    }
}

prop_compose! {
    fn any_extractors()(
        made in btree_map(any_name(), (btree_set("s\\.[a-e]", 1..3), 0..3_u8, vec(any_text(), 1..3)), 0..3),
    ) -> Vec<StateExtractor> {
        made.into_iter().map(|(name, (attributes, policy, states))| StateExtractor {
            event_type: name.clone(),
            object_type: name,
            object_id: "s.id".into(),
            attributes: attributes.into_iter().collect(),
            previous: match policy {
                0 => PreviousStates::Latest,
                1 => PreviousStates::Additional(states),
                _ => PreviousStates::Only(states),
            },
        }).collect()
    }
}

/// A registry with several services; some metrics are retired.
fn any_registry() -> impl Strategy<Value = Registry> {
    let service = (
        vec((any_event(), vec(any_metric(), 0..4)), 1..3),
        any_extractors(),
    );
    vec(service, 1..3).prop_map(|services| {
        let mut registry = Registry::default();
        let mut put = |document: serde_json::Value| {
            let text = document.to_string();
            let documents =
                Documents::parse_yaml(&text).unwrap_or_else(|f| panic!("{text}\n{f:?}"));
            let options = UpdateOptions {
                force: true,
                has_masking_key: true,
            };
            // Names that clash are refused, which is not what is tested here.
            if let Ok(changed) = registry.with(&documents, options) {
                registry = changed;
            }
        };
        for (events, extractors) in services {
            for (event, metrics) in events {
                put(render::event(&event));
                for metric in metrics {
                    put(render::metric(&event.service, &event.name, &metric));
                    let kind = MetricKind::Counter {
                        sum_of: Some("u.other".into()),
                    };
                    put(render::metric(
                        &event.service,
                        &event.name,
                        &Metric { kind, ..metric },
                    ));
                }
                let known = Service {
                    states: extractors.clone(),
                    state_metrics: Some(StateMetrics::new(1, 2, WindowRetention::all(days(1)))),
                    ..Service::default()
                };
                put(render::states(&event.service, &known).unwrap());
            }
        }
        registry
    })
}

/// The same without numbers, and without what only numbers are kept for.
fn without_numbers(registry: &Registry) -> BTreeMap<String, Service> {
    let plain = |metric: &Arc<Metric>| {
        Arc::new(Metric {
            number: 0,
            ..(**metric).clone()
        })
    };
    let services = registry.services.iter().map(|(name, service)| {
        let types = service.types.iter().map(|(name, event_type)| {
            let event_type = EventType {
                number: 0,
                metrics: event_type.metrics.iter().map(plain).collect(),
                retired: Vec::new(),
                ..(**event_type).clone()
            };
            (name.clone(), Arc::new(event_type))
        });
        let service = Service {
            number: 0,
            types: types.collect(),
            states: service.states.clone(),
            state_metrics: None,
        };
        (name.clone(), service)
    });
    services.collect()
}

fn stored(changes: Vec<icecore_model::CatalogChange>, before: &Registry) -> Registry {
    let mut records: BTreeMap<_, _> = before.records().into_iter().collect();
    for change in changes {
        match change.value {
            Some(value) => records.insert(change.key, value),
            None => records.remove(&change.key),
        };
    }
    Registry::from_records(records).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn documents_read_back(event in any_event(), metric in any_metric()) {
        let read = |text: &str| {
            let documents = Documents::parse_yaml(text).unwrap_or_else(|f| panic!("{text}\n{f:?}"));
            documents.items.into_iter().map(|item| item.body).collect::<Vec<_>>()
        };
        let documents = [render::event(&event), render::metric("s", "e", &metric)];
        let yaml = documents.each_ref().map(yaml_out::document).join("---\n");
        let json = documents.each_ref().map(ToString::to_string).join("\n---\n");
        for text in [yaml, json] {
            let bodies = read(&text);
            match &bodies[..] {
                [document::Body::Event(read_event), document::Body::Metric { metric: read, .. }] => {
                    prop_assert_eq!(read_event, &event, "{}", text);
                    prop_assert_eq!(read, &metric, "{}", text);
                }
                other => prop_assert!(false, "{other:?}"),
            }
        }
    }

    #[test]
    fn registries_read_back(registry in any_registry()) {
        let expected = without_numbers(&registry);
        let yaml = registry.to_yaml();
        prop_assert_eq!(without_numbers(&super::registry(&yaml)), expected.clone(), "{}", yaml);
        // Nothing changes, not even the version.
        prop_assert_eq!(&with(&registry, &yaml), &registry);
        let mut from_json = Registry::default();
        for service in registry.services.keys() {
            let json = registry.service_json(service).unwrap();
            from_json = with(&from_json, &json.to_string());
            from_json = with(&from_json, &serde_json::to_string_pretty(&json).unwrap());
        }
        prop_assert_eq!(without_numbers(&from_json), expected);
    }

    #[test]
    fn records_read_back(first in any_registry(), second in any_registry()) {
        let records = first.records();
        prop_assert!(records.is_sorted());
        let keys = registry_keys();
        prop_assert!(records.iter().all(|(key, _)| keys.contains(key)));
        let read = Registry::from_records(records.clone()).unwrap();
        prop_assert_eq!(&read, &first);
        prop_assert_eq!(read.records(), records);
        let options = UpdateOptions { force: true, has_masking_key: true };
        if let Ok(both) = first.with(&parse(&second.to_yaml()), options) {
            prop_assert_eq!(stored(both.changes_from(&first), &first), both);
        }
        // Every number is given once.
        let mut numbers: Vec<u32> = first.metrics().map(|metric| metric.number).collect();
        numbers.sort_unstable();
        let count = numbers.len();
        numbers.dedup();
        prop_assert_eq!(numbers.len(), count);
        prop_assert!(numbers.iter().all(|number| *number > 0 && *number < first.next.metric));
    }

    #[test]
    fn no_text_panics(text in "(kind|spec|metadata|Event|events|[a-c:\\-\\[\\]{},&*!|'\"\n ~]){0,40}") {
        let _ = Documents::parse_yaml(&text);
    }

    #[test]
    fn damaged_records_are_errors(registry in any_registry(), at in any::<prop::sample::Index>(),
                                  cut in any::<prop::sample::Index>()) {
        let mut records = registry.records();
        let at = at.index(records.len());
        let cut = cut.index(records[at].1.len());
        records[at].1.truncate(cut);
        prop_assert!(Registry::from_records(records).is_err());
    }
}
