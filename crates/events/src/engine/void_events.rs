//! Events in the journal that do not count.
//!
//! A commit may fail although the block becomes durable. Its request is refused then, and a client
//! that publishes the events again must find them stored once. So a block whose commit has failed
//! is void: neither replayed nor sealed. A crash forgets which commits have failed. An event is
//! sent again only after its commit has failed, so the last block that has it counts, and the event
//! and what is nested in it are void in the blocks before.
//!
//! What is void is written with the mark of each flush, so that every later replay leaves out the
//! same events.

use std::collections::BTreeMap;

use icecore_model::CatalogChange;
use icecore_model::varint::{push_varint, take_varint};

use crate::catalog_key;

const VERSION: u8 = 1;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct VoidEvents {
    blocks: BTreeMap<u64, VoidBlock>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum VoidBlock {
    All,
    /// Events at these positions, sorted.
    Some(Vec<u32>),
}

impl VoidEvents {
    pub(crate) fn add(&mut self, seq: u64, block: VoidBlock) {
        self.blocks.insert(seq, block);
    }

    pub(crate) fn of(&self, seq: u64) -> Option<&VoidBlock> {
        self.blocks.get(&seq)
    }

    /// Those of blocks up to this one. A number after it may yet be given to another block, if it
    /// never became durable.
    pub(crate) fn up_to(&self, seq: u64) -> Self {
        let blocks = self.blocks.range(..=seq);
        Self {
            blocks: blocks.map(|(seq, block)| (*seq, block.clone())).collect(),
        }
    }

    /// Sealed blocks are not replayed again.
    pub(crate) fn forget(&mut self, sealed: u64) {
        self.blocks.retain(|seq, _| *seq > sealed);
    }

    pub(crate) fn record(&self) -> CatalogChange {
        let mut value = vec![VERSION];
        for (seq, block) in &self.blocks {
            push_varint(&mut value, *seq);
            let positions: &[u32] = match block {
                VoidBlock::All => &[],
                VoidBlock::Some(positions) => positions,
            };
            push_varint(&mut value, positions.len() as u64);
            for position in positions {
                push_varint(&mut value, u64::from(*position));
            }
        }
        CatalogChange {
            key: catalog_key::void_events(),
            value: (!self.blocks.is_empty()).then_some(value),
        }
    }

    pub(crate) fn decode(value: &[u8]) -> Option<Self> {
        let (version, mut rest) = value.split_first()?;
        if *version != VERSION {
            return None;
        }
        let mut void = Self::default();
        while !rest.is_empty() {
            let seq = take_varint(&mut rest).ok()?;
            let count = take_varint(&mut rest).ok()?;
            let positions: Option<Vec<u32>> = (0..count)
                .map(|_| u32::try_from(take_varint(&mut rest).ok()?).ok())
                .collect();
            void.add(
                seq,
                match positions? {
                    positions if positions.is_empty() => VoidBlock::All,
                    positions => VoidBlock::Some(positions),
                },
            );
        }
        Some(void)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_void_is_read_back() {
        let mut void = VoidEvents::default();
        assert_eq!(void.record().value, None);
        void.add(5, VoidBlock::All);
        void.add(700, VoidBlock::Some(vec![0, 300]));
        let value = void.record().value.unwrap();
        assert_eq!(VoidEvents::decode(&value), Some(void.clone()));
        assert_eq!(VoidEvents::decode(&value[..value.len() - 1]), None);
        assert_eq!(void.up_to(4), VoidEvents::default());
        assert_eq!(void.up_to(700), void);
        assert_eq!(void.up_to(699).of(700), None);
        void.forget(5);
        assert_eq!(void.of(5), None);
        assert_eq!(void.of(700), Some(&VoidBlock::Some(vec![0, 300])));
    }
}
