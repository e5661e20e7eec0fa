//! Targets for the protocol decoders.

use crate::Target;

pub fn targets() -> Vec<Target> {
    Vec::new()
}
