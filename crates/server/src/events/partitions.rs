//! Services and weeks of stored events.

use std::collections::{BTreeMap, HashMap};

use icecore_events::time_text::time_text;
use icecore_events::{EventsView, Problem};
use icecore_model::event::Week;
use serde_json::{Value, json};

#[derive(Default)]
struct Partition {
    events: u64,
    bytes: u64,
}

/// All partitions, or those of a service: events in files and those that are in none yet.
pub(super) async fn list_partitions(
    view: &EventsView,
    service: Option<&str>,
) -> Result<String, Problem> {
    let registry = view.registry();
    let names: HashMap<u32, &str> = registry
        .services
        .iter()
        .map(|(name, service)| (service.number, name.as_str()))
        .collect();
    let mut partitions: BTreeMap<(String, Week), Partition> = BTreeMap::new();
    for file in view.all_files().await? {
        let Some(name) = names.get(&file.service) else {
            continue;
        };
        let partition = partitions.entry(((*name).into(), file.week)).or_default();
        partition.events += file.events;
        partition.bytes += file.bytes;
    }
    for event in view.tail_events(service, None, &(i64::MIN..i64::MAX))? {
        let week = Week::of(event.started_ns.div_euclid(1_000_000_000));
        let key = (event.service.into_owned(), week);
        partitions.entry(key).or_default().events += 1;
    }
    let wanted = partitions
        .iter()
        .filter(|((name, _), _)| service.is_none_or(|service| service == name));
    let items: Vec<Value> = wanted
        .map(|((name, week), partition)| shown(name, *week, partition))
        .collect();
    Ok(json!({"items": items, "nextCursor": null}).to_string())
}

fn shown(service: &str, week: Week, partition: &Partition) -> Value {
    let time = |seconds: i64| time_text(seconds.saturating_mul(1_000_000_000));
    json!({
        "partition": format!("events_raw_srv_{service}_{week}"),
        "service": service,
        "week": week.to_string(),
        "from": time(week.start_s()),
        "to": time(week.next().start_s()),
        "events": partition.events,
        "bytes": partition.bytes,
    })
}
