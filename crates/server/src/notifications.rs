//! Notices about the state of the process for people who look at it: that it starts, stops, or runs
//! with an older configuration than its file has.
//!
//! ```text
//! process, reload ─► Notifications ─┬─► list ─► /api/v1/notifications
//!                                   └─► subscribers ─► /api/v1/notifications/live
//! ```
//!
//! Holds always:
//! - A notice is listed once, as long as it holds. There are as many as [`Notice`] has.
//! - At most [`SUBSCRIBERS_MAX`] clients listen. One that does not read loses what does not fit
//!   into its queue, and holds up nothing.

use std::sync::Arc;

use icecore_model::Clock;
use parking_lot::Mutex;
use tokio::sync::mpsc;

/// Clients that may listen at once: the default of Prometheus'
/// `--web.max-notifications-subscribers`.
pub(crate) const SUBSCRIBERS_MAX: usize = 16;

/// Notices that wait for a client, as in Prometheus.
const QUEUE: usize = 10;

/// The state that a notice is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    Starting,
    ReloadFailed,
    Stopping,
}

impl Notice {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Starting => "Icecore is starting and replaying the journal.",
            // Prometheus' words, by which its clients may know it.
            Self::ReloadFailed => "Configuration reload has failed.",
            Self::Stopping => "Icecore is shutting down and finishing all operations.",
        }
    }
}

/// A notice, with the time of its last change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Notification {
    pub(crate) notice: Notice,
    pub(crate) at_ms: i64,
    /// Unset in the last message about a notice: it holds no more.
    pub(crate) is_active: bool,
}

/// The notices that hold, and the clients that listen.
pub(crate) struct Notifications {
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    active: Vec<Notification>,
    subscribers: Vec<mpsc::Sender<Notification>>,
    is_closed: bool,
}

impl State {
    fn tell(&mut self, notification: Notification) {
        // A full queue loses a notice; its client sees the next one, and the list.
        self.subscribers.retain(|subscriber| {
            !matches!(
                subscriber.try_send(notification),
                Err(mpsc::error::TrySendError::Closed(_))
            )
        });
    }
}

impl Notifications {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            state: Mutex::default(),
        }
    }

    /// Lists a notice from now on. One that is listed gets the time of now.
    pub(crate) fn add(&self, notice: Notice) {
        let notification = Notification {
            notice,
            at_ms: self.clock.now_ms(),
            is_active: true,
        };
        let mut state = self.state.lock();
        let listed = state.active.iter_mut().find(|it| it.notice == notice);
        match listed {
            Some(listed) => *listed = notification,
            None => state.active.push(notification),
        }
        state.tell(notification);
    }

    /// Takes a notice off the list.
    pub(crate) fn remove(&self, notice: Notice) {
        let mut state = self.state.lock();
        let listed = state.active.iter().position(|it| it.notice == notice);
        if let Some(listed) = listed {
            let notification = Notification {
                is_active: false,
                ..state.active.remove(listed)
            };
            state.tell(notification);
        }
    }

    /// The notices that hold.
    pub(crate) fn list(&self) -> Vec<Notification> {
        self.state.lock().active.clone()
    }

    /// A queue that receives the notices that hold, and then every change. `None` if too many
    /// clients listen, or none may any more.
    pub(crate) fn subscribe(&self) -> Option<mpsc::Receiver<Notification>> {
        let mut state = self.state.lock();
        state
            .subscribers
            .retain(|subscriber| !subscriber.is_closed());
        if state.is_closed || state.subscribers.len() >= SUBSCRIBERS_MAX {
            return None;
        }
        let (subscriber, receiver) = mpsc::channel(QUEUE);
        for notification in &state.active {
            // The queue is longer than the list.
            let _ = subscriber.try_send(*notification);
        }
        state.subscribers.push(subscriber);
        Some(receiver)
    }

    /// Ends all queues when what they hold is read, so that no client holds up a stop.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        state.is_closed = true;
        state.subscribers.clear();
    }
}

#[cfg(test)]
mod tests {
    use icecore_storage::SystemClock;

    use super::*;

    fn notifications() -> Notifications {
        Notifications::new(Arc::new(SystemClock))
    }

    fn told(receiver: &mut mpsc::Receiver<Notification>) -> Vec<(Notice, bool)> {
        let received = std::iter::from_fn(|| receiver.try_recv().ok());
        received.map(|it| (it.notice, it.is_active)).collect()
    }

    #[test]
    fn subscribers_hear_what_holds_and_what_changes() {
        let notifications = notifications();
        notifications.add(Notice::Starting);
        let mut receiver = notifications.subscribe().unwrap();
        notifications.remove(Notice::Starting);
        notifications.remove(Notice::Starting);
        notifications.add(Notice::ReloadFailed);
        notifications.add(Notice::ReloadFailed);
        let expected = [
            (Notice::Starting, true),
            (Notice::Starting, false),
            (Notice::ReloadFailed, true),
            (Notice::ReloadFailed, true),
        ];
        assert_eq!(told(&mut receiver), expected);
        assert_eq!(notifications.list().len(), 1);
        notifications.close();
        assert_eq!(receiver.blocking_recv(), None);
        assert!(notifications.subscribe().is_none());
    }

    #[test]
    fn subscribers_are_limited_and_leave() {
        let notifications = notifications();
        let mut receivers: Vec<_> = (0..SUBSCRIBERS_MAX)
            .map(|_| notifications.subscribe().unwrap())
            .collect();
        assert!(notifications.subscribe().is_none());
        receivers.pop();
        assert!(notifications.subscribe().is_some());
    }

    #[test]
    fn a_client_that_does_not_read_loses_notices_alone() {
        let notifications = notifications();
        let mut slow = notifications.subscribe().unwrap();
        for _ in 0..3 * QUEUE {
            notifications.add(Notice::ReloadFailed);
        }
        assert_eq!(told(&mut slow).len(), QUEUE);
        notifications.remove(Notice::ReloadFailed);
        assert_eq!(told(&mut slow), [(Notice::ReloadFailed, false)]);
    }
}
