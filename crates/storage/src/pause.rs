//! Named places where a test holds one database still while something else happens to it.
//!
//! A crash test ends the process at a fail point; a test of an interleaving needs a step to wait
//! there until another one has come in between. Without the feature `testing` a place is nothing at
//! all.

#[cfg(feature = "testing")]
use std::{collections::HashMap, sync::Arc};

#[cfg(feature = "testing")]
use parking_lot::Mutex;
#[cfg(feature = "testing")]
use tokio::sync::watch;

/// The places of one database at which somebody wants to be waited for.
#[derive(Default)]
pub(crate) struct Pauses {
    #[cfg(feature = "testing")]
    armed: Mutex<HashMap<&'static str, Arc<watch::Sender<State>>>>,
}

#[cfg(feature = "testing")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Armed,
    Reached,
    Over,
}

impl Pauses {
    /// Waits here if a test wants it, once.
    #[inline]
    pub(crate) async fn pass(&self, name: &'static str) {
        #[cfg(feature = "testing")]
        {
            let armed = self.armed.lock().remove(name);
            let Some(state) = armed else { return };
            state.send_if_modified(|state| {
                let waits = *state == State::Armed;
                if waits {
                    *state = State::Reached;
                }
                waits
            });
            // The sender lives here, so this ends only when it is true.
            let _ = state.subscribe().wait_for(|s| *s == State::Over).await;
        }
        #[cfg(not(feature = "testing"))]
        let _ = name;
    }

    /// [`Pauses::pass`] for what does not wait otherwise.
    #[inline]
    pub(crate) fn pass_blocking(&self, name: &'static str) {
        #[cfg(feature = "testing")]
        futures::executor::block_on(self.pass(name));
        #[cfg(not(feature = "testing"))]
        let _ = name;
    }

    /// The next one who comes to this place waits there.
    #[cfg(feature = "testing")]
    pub(crate) fn arm(&self, name: &'static str) -> Pause {
        let state = Arc::new(watch::channel(State::Armed).0);
        self.armed.lock().insert(name, Arc::clone(&state));
        Pause(state)
    }
}

/// Whoever comes to the place waits there until this is dropped.
#[cfg(feature = "testing")]
pub struct Pause(Arc<watch::Sender<State>>);

#[cfg(feature = "testing")]
impl Pause {
    /// Waits until somebody is there.
    pub async fn reached(&self) {
        // The sender lives as long as `self`, so this ends only when it is true.
        let _ = self
            .0
            .subscribe()
            .wait_for(|state| *state == State::Reached)
            .await;
    }
}

#[cfg(feature = "testing")]
impl Drop for Pause {
    fn drop(&mut self) {
        self.0.send_replace(State::Over);
    }
}
