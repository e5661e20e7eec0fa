//! One event by its id.

use std::sync::Arc;

use icecore_model::event::{EventId, Week};

use super::answer::push_row;
use super::collect::{unreadable, weeks};
use super::source::{EventRows, RowFile};
use super::time_zone::Zone;
use super::{fields, on_thread};
use crate::{FileScan, Problem, StoredEvent, parse_event_id};

/// Answers `GET /api/events/{service}/{eventId}`.
pub async fn find_event(
    rows: Arc<dyn EventRows>,
    service: &str,
    event_id: &str,
) -> Result<String, Problem> {
    let id = parse_event_id(event_id);
    let id = id.ok_or_else(|| fields::invalid("eventId", "must be a UUID"))?;
    let (tail_rows, of) = (rows.clone(), service.to_owned());
    let mut found = on_thread(move || in_tail(&*tail_rows, &of, id)).await??;
    if found.is_none() {
        found = in_files(&*rows, service, id).await?;
    }
    let is_kept =
        |event: &StoredEvent<'_>| event.started_ns >= rows.kept_from_ns(service, &event.event_type);
    let event = found.filter(is_kept).ok_or_else(|| {
        let detail = format!("{service} has no event {event_id}");
        Problem::new(404, "query.unknown-event", detail)
    })?;
    let mut out = String::new();
    push_row(&mut out, &event, &Zone::default());
    Ok(out)
}

fn in_tail(
    rows: &dyn EventRows,
    service: &str,
    id: EventId,
) -> Result<Option<StoredEvent<'static>>, Problem> {
    for part in rows.tail_parts(Some(service), None) {
        let mut events = rows.tail_events(&part)?.into_iter();
        let found = events.find(|event| event.id == id && *event.service == *service);
        if let Some(event) = found {
            return Ok(Some(event.into_owned()));
        }
    }
    Ok(None)
}

/// The identity of an event names the block that it came in, and so its file.
async fn in_files(
    rows: &dyn EventRows,
    service: &str,
    id: EventId,
) -> Result<Option<StoredEvent<'static>>, Problem> {
    let Some(service) = rows.registry().service(service) else {
        return Ok(None);
    };
    let all_time = i64::MIN..i64::MAX;
    let files = rows.files(service.number, weeks(&all_time), None).await?;
    let mut weeks: Vec<Week> = files.iter().map(|file| file.week).collect();
    weeks.sort_unstable_by(|a, b| b.cmp(a));
    weeks.dedup();
    let blocks = rows.blocks_of(service.number, &weeks, id).await?;
    for (week, block) in weeks.into_iter().zip(blocks) {
        let Some(seq) = block else {
            continue;
        };
        let has =
            |file: &&RowFile| file.week == week && file.first_seq <= seq && seq <= file.last_seq;
        for file in files.iter().filter(has) {
            let scan = FileScan {
                started_ns: all_time.clone(),
                newest_first: true,
                event: Some(id),
                condition: None,
            };
            let opened = rows.format().open(file.bytes.clone(), scan).await;
            let mut opened = opened.map_err(unreadable)?;
            while let Some(events) = opened.next_batch().await.map_err(unreadable)? {
                if let Some(event) = events.into_iter().find(|event| event.id == id) {
                    return Ok(Some(event));
                }
            }
        }
    }
    Ok(None)
}
