//! Joins stored values of one key for SlateDB, by the laws of `records::merge`.
//!
//! SlateDB calls this at write, flush, compaction and read, so it must be associative and must
//! never panic: a panic in a background task closes the database.
//!
//! Holds always:
//! - One operand without a base is returned as it is: that is most calls by far.
//! - A value that cannot be decoded does not stop a flush or compaction: `records::merge` keeps it
//!   beside what could be merged. Should it fail all the same, the key is logged and SlateDB keeps
//!   every operand where it lies.

use bytes::Bytes;
use slatedb::{MergeOperator, MergeOperatorError};
use tracing::error;

/// The one merge operator of the database.
#[derive(Debug)]
pub(crate) struct RecordMergeOperator;

impl MergeOperator for RecordMergeOperator {
    fn merge(
        &self,
        key: &Bytes,
        existing_value: Option<Bytes>,
        value: Bytes,
    ) -> Result<Bytes, MergeOperatorError> {
        self.merge_batch(key, existing_value, &[value])
    }

    fn merge_batch(
        &self,
        key: &Bytes,
        existing_value: Option<Bytes>,
        operands: &[Bytes],
    ) -> Result<Bytes, MergeOperatorError> {
        match (&existing_value, operands) {
            (None, []) => return Err(MergeOperatorError::EmptyBatch),
            (None, [only]) => return Ok(only.clone()),
            (Some(base), []) => return Ok(base.clone()),
            _ => {}
        }
        icecore_records::merge(key, existing_value.as_ref(), operands).map_err(|cause| {
            error!(key = hex::encode(key), %cause, "stored values of one key cannot be merged");
            MergeOperatorError::Callback {
                message: format!(
                    "values of key {} cannot be merged: {cause}",
                    hex::encode(key)
                ),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_operand_is_returned_as_it_is() {
        let key = Bytes::from_static(b"\x01\x51\0\0\0\x01\0\0\0\x02");
        let operand = Bytes::from(vec![0xde, 0xad]);
        let merged = RecordMergeOperator
            .merge(&key, None, operand.clone())
            .unwrap();
        // The same allocation, not a copy of it.
        assert_eq!(merged.as_ptr(), operand.as_ptr());
        let base = RecordMergeOperator
            .merge_batch(&key, Some(operand.clone()), &[])
            .unwrap();
        assert_eq!(base, operand);
    }

    #[test]
    fn nothing_to_merge_is_an_error_and_not_a_panic() {
        let merged = RecordMergeOperator.merge_batch(&Bytes::from_static(b"k"), None, &[]);
        assert!(merged.is_err());
    }
}
