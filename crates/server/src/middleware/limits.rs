//! How many requests are served at once. Each limit has a name and a defined answer.
//!
//! | limit | at the limit |
//! | --- | --- |
//! | `server.concurrent_writes_max`, of writes whose body has arrived | 503 at once: a sender waits better than we do |
//! | bytes of write bodies in memory ([`Limits::write_bytes_max`]) | 503 at once |
//! | imports under way ([`IMPORTS_MAX`]) | 503 at once, and slow ones end |
//! | requests that wait for a run of maintenance ([`MAINTENANCE_CALLERS_MAX`]) | 503 at once |
//! | requests of one route under way ([`ROUTE_REQUESTS_MAX`], [`ADMIN_REQUESTS_MAX`]) | 503 at once |
//! | `server.concurrent_reads_max` | waits, at most for `server.request_timeout` |
//! | `server.write_body_bytes_max`, [`FORM_BYTES_MAX`] | 413 |

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, HttpBody as _};
use icecore_access::Role;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::route::Route;
use crate::config::ServerOptions;
use crate::middleware::error::ApiError;

/// A form with selectors of more than this is a mistake. Ten times what Prometheus' own UI sends.
pub(crate) const FORM_BYTES_MAX: usize = 1 << 20;

/// Paths that look after the size of their bodies themselves, in the words of their protocol, as
/// all that write do.
const OWN_LIMITS: &[&str] = &[
    "/api/v1/import/opentsdb/cells",
    "/api/v1/read",
    "/opentsdb",
    "/opentsdb/{*path}",
];

fn has_own_limit(route: &Route) -> bool {
    route.role == Role::Write || route.is_of_configuration() || OWN_LIMITS.contains(&route.path)
}

/// Requests of the largest size that may be in memory together. One is what it takes for any
/// request to succeed, two keep a second sender going meanwhile.
const LARGEST_WRITES_AT_ONCE: usize = 2;

/// Imports that may be under way. Each has a thread of its own, and more of them do not make the
/// store faster.
pub(crate) const IMPORTS_MAX: usize = 8;

/// Requests that may wait for a run of maintenance. They share it, and each holds but a connection;
/// people and scripts that ask are few.
const MAINTENANCE_CALLERS_MAX: usize = 64;

/// Requests of one route under way, those that wait for a place included: a few per connection that
/// clients commonly open, and a bound for those that HTTP/2 makes cheap.
pub(crate) const ROUTE_REQUESTS_MAX: usize = 1024;

/// The same for administrators, whose requests take long and are few.
pub(crate) const ADMIN_REQUESTS_MAX: usize = 64;

pub(crate) struct Limits {
    /// By path. Health checks have none: they must answer when nothing else does.
    routes: HashMap<&'static str, Arc<Semaphore>>,
    writes: Arc<Semaphore>,
    write_bytes: Arc<Semaphore>,
    write_bytes_max: usize,
    reads: Arc<Semaphore>,
    maintenance: Arc<Semaphore>,
    imports: Arc<Semaphore>,
    /// When an import last found no place.
    import_refused: Mutex<Option<Instant>>,
}

impl Limits {
    pub(crate) fn new(options: &ServerOptions, routes: &[Route]) -> Self {
        let largest = options
            .write_body_bytes_max
            .saturating_add(options.write_decompressed_bytes_max);
        let write_bytes_max = largest
            .saturating_mul(LARGEST_WRITES_AT_ONCE)
            .min(Semaphore::MAX_PERMITS);
        let permits = |count: usize| Arc::new(Semaphore::new(count.min(Semaphore::MAX_PERMITS)));
        let routes = routes
            .iter()
            .filter(|route| !route.is_health_check())
            .map(|route| (route.path, permits(requests_max(route))));
        Self {
            routes: routes.collect(),
            writes: permits(options.concurrent_writes_max),
            write_bytes: permits(write_bytes_max),
            write_bytes_max,
            reads: permits(options.concurrent_reads_max),
            maintenance: permits(MAINTENANCE_CALLERS_MAX),
            imports: permits(IMPORTS_MAX),
            import_refused: Mutex::new(None),
        }
    }

    /// A place for a request of this route, which is held until it is answered. A body that says it
    /// is longer than the route takes is refused before anybody reads it; what is written has
    /// limits of its own, and protocols with their own words for them.
    pub(crate) fn admit(
        &self,
        route: Option<&Route>,
        body: &Body,
    ) -> Result<Option<OwnedSemaphorePermit>, ApiError> {
        let Some(route) = route else {
            return Ok(None);
        };
        let longest = u64::try_from(FORM_BYTES_MAX).unwrap_or(u64::MAX);
        if !has_own_limit(route) && body.size_hint().lower() > longest {
            return Err(ApiError::too_large(format!(
                "the body is longer than {FORM_BYTES_MAX} bytes"
            )));
        }
        let Some(places) = self.routes.get(route.path) else {
            return Ok(None);
        };
        match Arc::clone(places).try_acquire_owned() {
            Ok(place) => Ok(Some(place)),
            Err(_) => Err(ApiError::unavailable(format!(
                "{} requests of {} are under way: try again",
                requests_max(route),
                route.path
            ))),
        }
    }

    /// A place for one write whose body has arrived, held until it is answered.
    pub(crate) fn write_slot(&self) -> Result<OwnedSemaphorePermit, ApiError> {
        Arc::clone(&self.writes).try_acquire_owned().map_err(|_| {
            ApiError::unavailable(
                "as many writes as server.concurrent_writes_max allows are under way: try again",
            )
        })
    }

    /// A place for one read, held until its last byte is handed over.
    pub(crate) async fn read_slot(&self) -> Result<OwnedSemaphorePermit, ApiError> {
        let slot = Arc::clone(&self.reads).acquire_owned().await;
        slot.map_err(|_| ApiError::internal("the limit of reads is closed"))
    }

    /// A place for one request that waits for a run of maintenance.
    pub(crate) fn maintenance_slot(&self) -> Result<OwnedSemaphorePermit, ApiError> {
        let slot = Arc::clone(&self.maintenance).try_acquire_owned();
        slot.map_err(|_| {
            ApiError::unavailable(format!(
                "{MAINTENANCE_CALLERS_MAX} requests wait for a run of maintenance: try again"
            ))
        })
    }

    /// A place for one import, held until it is answered.
    pub(crate) fn import_slot(&self) -> Result<OwnedSemaphorePermit, ApiError> {
        let slot = Arc::clone(&self.imports).try_acquire_owned();
        slot.map_err(|_| {
            *self.import_refused.lock() = Some(Instant::now());
            ApiError::unavailable(format!("{IMPORTS_MAX} imports are under way: try again"))
        })
    }

    /// Returns `true` if an import found no place within this time before now.
    pub(crate) fn imports_were_wanted(&self, within: Duration) -> bool {
        let refused = *self.import_refused.lock();
        refused.is_some_and(|at| at.elapsed() <= within)
    }

    /// An empty reservation of memory for one write.
    pub(crate) fn write_memory(&self) -> WriteMemory {
        WriteMemory {
            budget: Arc::clone(&self.write_bytes),
            held: None,
        }
    }

    /// Bytes that all write bodies may take together, compressed and decompressed.
    pub(crate) fn write_bytes_max(&self) -> usize {
        self.write_bytes_max
    }

    /// Bytes that write bodies take now.
    pub(crate) fn write_bytes(&self) -> usize {
        self.write_bytes_max - self.write_bytes.available_permits()
    }
}

/// Requests of this route that may be under way.
pub(crate) fn requests_max(route: &Route) -> usize {
    match route.role {
        Role::Admin => ADMIN_REQUESTS_MAX,
        Role::Open | Role::Read | Role::Write => ROUTE_REQUESTS_MAX,
    }
}

/// Memory reserved for the body of one write: it grows as the body arrives and goes back when it is
/// dropped.
pub(crate) struct WriteMemory {
    budget: Arc<Semaphore>,
    held: Option<OwnedSemaphorePermit>,
}

impl WriteMemory {
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), ApiError> {
        let exhausted = || {
            ApiError::unavailable("write bodies take all the memory that is set apart: try again")
        };
        let permits = u32::try_from(bytes).map_err(|_| exhausted())?;
        let more = Arc::clone(&self.budget)
            .try_acquire_many_owned(permits)
            .map_err(|_| exhausted())?;
        match &mut self.held {
            Some(held) => held.merge(more),
            None => self.held = Some(more),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routes::ROUTES;

    fn limits() -> Limits {
        let options = ServerOptions {
            write_body_bytes_max: 40,
            write_decompressed_bytes_max: 60,
            concurrent_writes_max: 1,
            ..ServerOptions::default()
        };
        Limits::new(&options, &ROUTES)
    }

    #[test]
    fn memory_goes_back_when_a_write_is_done() {
        let limits = limits();
        assert_eq!(limits.write_bytes_max(), 200);
        let mut first = limits.write_memory();
        first.grow(40).unwrap();
        first.grow(60).unwrap();
        let mut second = limits.write_memory();
        assert!(second.grow(101).is_err());
        second.grow(100).unwrap();
        assert_eq!(limits.write_bytes(), 200);
        drop(first);
        assert_eq!(limits.write_bytes(), 100);
        drop(second);
        assert_eq!(limits.write_bytes(), 0);
    }

    #[test]
    fn requests_of_each_route_are_bounded() {
        let limits = limits();
        let empty = Body::empty();
        for route in &ROUTES {
            let mut places = Vec::new();
            for _ in 0..requests_max(route) {
                places.push(limits.admit(Some(route), &empty).unwrap());
            }
            let more = limits.admit(Some(route), &empty);
            assert_eq!(more.is_ok(), route.is_health_check(), "{}", route.path);
            drop(places);
            assert!(limits.admit(Some(route), &empty).is_ok());
        }
    }

    #[test]
    fn bodies_that_nobody_takes_are_refused_unread() {
        let limits = limits();
        let long = Body::from(vec![0; FORM_BYTES_MAX + 1]);
        for route in &ROUTES {
            let admitted = limits.admit(Some(route), &long).is_ok();
            assert_eq!(admitted, has_own_limit(route), "{}", route.path);
            assert!(admitted || route.role != Role::Write, "{}", route.path);
        }
    }

    #[test]
    fn callers_of_maintenance_are_limited() {
        let limits = limits();
        let slots: Result<Vec<_>, _> = (0..MAINTENANCE_CALLERS_MAX)
            .map(|_| limits.maintenance_slot())
            .collect();
        assert!(limits.maintenance_slot().is_err());
        drop(slots.unwrap());
        assert!(limits.maintenance_slot().is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn imports_that_find_no_place_are_remembered_for_a_while() {
        let limits = limits();
        let within = Duration::from_secs(20);
        let slots: Result<Vec<_>, _> = (0..IMPORTS_MAX).map(|_| limits.import_slot()).collect();
        assert!(!limits.imports_were_wanted(within));
        assert!(limits.import_slot().is_err());
        assert!(limits.imports_were_wanted(within));
        tokio::time::advance(within + Duration::from_secs(1)).await;
        assert!(!limits.imports_were_wanted(within));
        drop(slots.unwrap());
        assert!(limits.import_slot().is_ok());
        assert!(!limits.imports_were_wanted(within));
    }

    #[test]
    fn one_write_at_a_time() {
        let limits = limits();
        let slot = limits.write_slot().unwrap();
        assert!(limits.write_slot().is_err());
        drop(slot);
        assert!(limits.write_slot().is_ok());
    }
}
