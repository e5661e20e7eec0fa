//! Finds the events of a page: the first of the order among all that satisfy the request.
//!
//! ```text
//! parts of the tail ─┐  newest first: what can have no event of the page is not read,
//! files ─────────────┴► and reading a file ends where the page's last event is passed
//! ```
//!
//! The page is kept in a heap whose top is its last event, so that neither ties nor overlapping
//! files need an order of their own. Where events are skipped, their places alone are collected
//! first: the page follows the last of them, as it would follow a cursor.
//!
//! Holds always: whole events are held for one page, and no more than [`PAGE_BYTES_MAX`] of them.

use std::collections::BinaryHeap;
use std::ops::Range;
use std::sync::Arc;

use icecore_model::event::Week;

use super::cursor::{Order, OrderBy, Place};
use super::on_thread;
use super::request::SearchRequest;
use super::source::{EventRows, RowFile};
use crate::{FileScan, Problem, StoredEvent};

/// Bytes of the events of a page, about: beyond it the search is refused. A page of a thousand
/// events has half a megabyte.
const PAGE_BYTES_MAX: usize = 64 << 20;

/// The events of a page.
pub(super) struct Found {
    pub(super) events: Vec<StoredEvent<'static>>,
    /// Whether others follow.
    pub(super) has_more: bool,
    pub(super) total: Option<u64>,
}

pub(super) async fn collect(
    rows: Arc<dyn EventRows>,
    request: &SearchRequest,
) -> Result<Found, Problem> {
    let mut request = request.clone();
    if request.skipped() > 0 {
        let skipped = read(&rows, &request, Page::of_places(&request)).await?;
        request.after = skipped.last_place();
    }
    let page = read(&rows, &request, Page::of_events(&request)).await?;
    Ok(page.finish())
}

/// Reads tail and files into a page.
async fn read(
    rows: &Arc<dyn EventRows>,
    request: &SearchRequest,
    page: Page,
) -> Result<Page, Problem> {
    let (tail_rows, of) = (rows.clone(), request.clone());
    let mut page = on_thread(move || page.take_tail(&*tail_rows, &of)).await??;
    for file in files(&**rows, request).await? {
        page.take_file(&**rows, request, &file).await?;
    }
    Ok(page)
}

/// Files that may have events of the request, those first whose events come first.
async fn files(rows: &dyn EventRows, request: &SearchRequest) -> Result<Vec<RowFile>, Problem> {
    let Some(service) = rows.registry().service(&request.service) else {
        return Ok(Vec::new());
    };
    let event_type = request
        .event
        .as_ref()
        .and_then(|event| service.types.get(event));
    let event_type = event_type.map(|event_type| event_type.number);
    let weeks = weeks(&request.started_ns);
    let mut files = rows.files(service.number, weeks, event_type).await?;
    let range = &request.started_ns;
    files.retain(|file| file.min_started_ns < range.end && file.max_started_ns >= range.start);
    if request.order.newest_first {
        files.sort_by_key(|file| std::cmp::Reverse(file.max_started_ns));
    } else {
        files.sort_by_key(|file| file.min_started_ns);
    }
    Ok(files)
}

/// The weeks that a range of starts lies in.
pub(super) fn weeks(started_ns: &Range<i64>) -> Range<Week> {
    let week = |at_ns: i64| Week::of(at_ns.div_euclid(1_000_000_000));
    week(started_ns.start)..week(started_ns.end.saturating_sub(1)).next()
}

/// A place, and the event that is there unless it is skipped. Compared by the place alone.
struct Placed {
    place: Place,
    event: Option<StoredEvent<'static>>,
}

impl Placed {
    /// About what is held of it.
    fn bytes(&self) -> usize {
        self.event.as_ref().map_or(0, StoredEvent::heap_bytes)
    }
}

impl PartialEq for Placed {
    fn eq(&self, other: &Self) -> bool {
        self.place == other.place
    }
}

impl Eq for Placed {}

impl PartialOrd for Placed {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Placed {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.place.cmp(&other.place)
    }
}

struct Page {
    /// The first events so far, no more than `room`; the last of them is on top.
    first: BinaryHeap<Placed>,
    /// The page and one more that says whether others follow, or what is skipped.
    room: usize,
    /// Whether events are kept, or their places alone.
    keeps_events: bool,
    /// Of the events that are kept.
    bytes: usize,
    order: Order,
    total: Option<u64>,
}

impl Page {
    /// The places of events that are skipped.
    fn of_places(request: &SearchRequest) -> Self {
        Self {
            first: BinaryHeap::new(),
            room: request.skipped(),
            keeps_events: false,
            bytes: 0,
            order: request.order,
            total: None,
        }
    }

    fn of_events(request: &SearchRequest) -> Self {
        Self {
            room: request.limit + 1,
            keeps_events: true,
            total: request.include_total.then_some(0),
            ..Self::of_places(request)
        }
    }

    /// Takes an event that satisfies the request.
    fn take(&mut self, after: Option<Place>, event: StoredEvent<'_>) -> Result<(), Problem> {
        if let Some(total) = &mut self.total {
            *total += 1;
        }
        let place = self.order.place(&event);
        if after.is_some_and(|after| place <= after) || !self.has_room_at(place) {
            return Ok(());
        }
        let placed = Placed {
            place,
            event: self.keeps_events.then(|| event.into_owned()),
        };
        self.bytes += placed.bytes();
        self.first.push(placed);
        if self.first.len() > self.room
            && let Some(last) = self.first.pop()
        {
            self.bytes -= last.bytes();
        }
        if self.bytes > PAGE_BYTES_MAX {
            let detail = format!("the events of a page have more than {PAGE_BYTES_MAX} bytes");
            let problem = Problem::new(422, "query.limit", detail);
            return Err(problem.with_hint("ask for fewer events: a smaller limit"));
        }
        Ok(())
    }

    fn has_room_at(&self, place: Place) -> bool {
        self.first.len() < self.room || self.first.peek().is_some_and(|last| place < last.place)
    }

    /// Whether no event that began in a range can get into the page any more.
    fn is_beyond(&self, min_started_ns: i64, max_started_ns: i64) -> bool {
        let nearest_ns = if self.order.newest_first {
            max_started_ns
        } else {
            min_started_ns
        };
        self.order.by == OrderBy::Started && !self.has_room_at(self.order.first_place(nearest_ns))
    }

    fn take_tail(mut self, rows: &dyn EventRows, request: &SearchRequest) -> Result<Self, Problem> {
        let mut parts = rows.tail_parts(Some(&request.service), request.event.as_deref());
        let range = &request.started_ns;
        parts.retain(|part| part.min_started_ns < range.end && part.max_started_ns >= range.start);
        if request.order.newest_first {
            parts.sort_by_key(|part| std::cmp::Reverse(part.max_started_ns));
        } else {
            parts.sort_by_key(|part| part.min_started_ns);
        }
        for part in &parts {
            if self.total.is_none() && self.is_beyond(part.min_started_ns, part.max_started_ns) {
                break;
            }
            for event in rows.tail_events(part)? {
                if is_wanted(rows, request, &event) {
                    self.take(request.after, event)?;
                }
            }
        }
        Ok(self)
    }

    async fn take_file(
        &mut self,
        rows: &dyn EventRows,
        request: &SearchRequest,
        file: &RowFile,
    ) -> Result<(), Problem> {
        let mut is_beyond = self.is_beyond(file.min_started_ns, file.max_started_ns);
        let Some(started_ns) = kept_range(rows, request, file) else {
            return Ok(());
        };
        if is_beyond {
            match &mut self.total {
                None => return Ok(()),
                // All of its events count: none has to be read for that.
                Some(total) if request.condition.is_none() && has_all(&started_ns, file) => {
                    *total += file.events;
                    return Ok(());
                }
                Some(_) => {}
            }
        }
        let scan = FileScan {
            started_ns,
            newest_first: request.order.newest_first,
            event: None,
            condition: request.condition.clone(),
        };
        let file_rows = rows.format().open(file.bytes.clone(), scan).await;
        let mut file_rows = file_rows.map_err(unreadable)?;
        while let Some(events) = file_rows.next_batch().await.map_err(unreadable)? {
            for event in events {
                // Further events of the file are further away.
                is_beyond = is_beyond || self.is_beyond(event.started_ns, event.started_ns);
                if is_beyond && self.total.is_none() {
                    return Ok(());
                }
                if is_wanted(rows, request, &event) {
                    self.take(request.after, event)?;
                }
            }
        }
        Ok(())
    }

    fn last_place(&self) -> Option<Place> {
        self.first.peek().map(|last| last.place)
    }

    fn finish(self) -> Found {
        let mut events: Vec<_> = self.first.into_sorted_vec();
        let has_more = events.len() == self.room;
        if has_more {
            events.pop();
        }
        Found {
            events: events
                .into_iter()
                .filter_map(|placed| placed.event)
                .collect(),
            has_more,
            total: self.total,
        }
    }
}

/// The part of the period in which events of a file are kept; `None` if there is none.
fn kept_range(rows: &dyn EventRows, request: &SearchRequest, file: &RowFile) -> Option<Range<i64>> {
    let service = rows.registry().service(&request.service);
    let mut types = service.iter().flat_map(|service| &service.types);
    let event_type = types.find(|(_, event_type)| event_type.number == file.event_type);
    let kept_ns = event_type.map_or(i64::MIN, |(name, _)| {
        rows.kept_from_ns(&request.service, name)
    });
    let range = request.started_ns.start.max(kept_ns)..request.started_ns.end;
    (!range.is_empty() && file.max_started_ns >= range.start).then_some(range)
}

fn has_all(range: &Range<i64>, file: &RowFile) -> bool {
    range.contains(&file.min_started_ns) && range.contains(&file.max_started_ns)
}

fn is_wanted(rows: &dyn EventRows, request: &SearchRequest, event: &StoredEvent<'_>) -> bool {
    request.started_ns.contains(&event.started_ns)
        && *event.service == request.service
        && request
            .event
            .as_ref()
            .is_none_or(|wanted| *event.event_type == **wanted)
        && event.started_ns >= rows.kept_from_ns(&event.service, &event.event_type)
        && request
            .condition
            .as_ref()
            .is_none_or(|condition| condition.holds(event))
}

pub(super) fn unreadable(error: icecore_model::StoreError) -> Problem {
    Problem::new(500, "query.unreadable", error.to_string())
}
