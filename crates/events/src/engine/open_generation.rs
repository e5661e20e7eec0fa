//! Folding into a generation without an engine around it, for benches.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use icecore_model::event::FlushMark;

use super::EventOptions;
use super::guard::DimensionGuard;
use super::memory::Memory;
use super::metrics::EventMetrics;
use super::prepared::Preparing;
use super::void_events::VoidEvents;
use crate::{Registry, StoredEvent};

/// What an engine has in memory after it was opened.
pub struct OpenGeneration {
    memory: Memory,
    preparing: Preparing,
    options: EventOptions,
    metrics: EventMetrics,
    blocks: u64,
}

impl OpenGeneration {
    pub fn new(registry: &Arc<Registry>) -> Self {
        let options = EventOptions::default();
        let guard = DimensionGuard::new(options.max_dimension_sets);
        let memory = Memory::new(
            registry.clone(),
            guard,
            VoidEvents::default(),
            FlushMark::default(),
        );
        Self {
            preparing: Preparing {
                registry_version: registry.version,
                plan: memory.plan.clone(),
                max_future_ns: options.max_future_ns(),
                day: 0,
            },
            memory,
            options,
            metrics: EventMetrics::default(),
            blocks: 0,
        }
    }

    /// Folds the events of a block and adds them.
    pub fn add(&mut self, block: Bytes, events: &[StoredEvent<'_>]) {
        let folded = self.preparing.fold(block, events, Vec::new());
        self.blocks += 1;
        self.memory.add(
            self.blocks,
            folded,
            &HashMap::new(),
            &self.options,
            &self.metrics,
        );
    }
}
