//! A matrix as columns, where it has that form.

use icecore_promql::{MatrixSeries, QueryTime};
use icecore_wire::prometheus::query_columns::{
    ColumnGrid, write_column, write_column_labels, write_columns_start,
};

use super::{ClientGone, Flow};

/// The steps that all series have floats at; `None` where one has histograms, or samples at times
/// of their own.
pub(super) fn grid_of(series: &[MatrixSeries], time: QueryTime) -> Option<ColumnGrid> {
    let QueryTime::Range {
        start_ms,
        end_ms,
        step_ms,
    } = time
    else {
        return None;
    };
    let between = end_ms
        .abs_diff(start_ms)
        .checked_div(step_ms.unsigned_abs())?;
    let steps = u32::try_from(between).ok()?.checked_add(1)?;
    u32::try_from(series.len()).ok()?;
    let is_column = |floats: &[f64]| floats.len() == steps as usize;
    let are_columns = series.iter().all(|one| one.column().is_some_and(is_column));
    are_columns.then_some(ColumnGrid {
        start_ms,
        step_ms,
        steps,
    })
}

pub(super) fn write_columns(
    out: &mut Vec<u8>,
    series: &[MatrixSeries],
    grid: ColumnGrid,
    flow: &mut Flow<'_>,
) -> Result<(), ClientGone> {
    write_columns_start(out, grid, series.len() as u32);
    for column in series.iter().filter_map(MatrixSeries::column) {
        write_column(out, column, &mut *flow)?;
    }
    Ok(())
}

/// Writes the labels of the columns, in their order.
pub(super) fn write_all_labels(
    out: &mut Vec<u8>,
    series: &[MatrixSeries],
    flow: &mut Flow<'_>,
) -> Result<(), ClientGone> {
    out.push(b'[');
    for (i, one) in series.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        write_column_labels(out, &one.labels);
        flow(out)?;
    }
    out.push(b']');
    Ok(())
}
