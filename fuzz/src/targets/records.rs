//! Targets for the stored keys and values.

use crate::Target;

pub fn targets() -> Vec<Target> {
    Vec::new()
}
