use std::convert::Infallible;

use icecore_model::STALE_NAN_BITS;
use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::prometheus::query_json::{QueryEnd, ResultType, write_query_end, write_query_start};

const ABSENT: f64 = f64::from_bits(STALE_NAN_BITS);

/// An answer with these columns, of series `{i="0"}` and so on.
fn written(grid: ColumnGrid, columns: &[Vec<f64>], warnings: &[String]) -> Vec<u8> {
    let mut out = Vec::new();
    write_columns_start(&mut out, grid, columns.len() as u32);
    for column in columns {
        let flow = |_: &mut Vec<u8>| Ok::<_, Infallible>(());
        write_column(&mut out, column, flow).unwrap();
    }
    write_query_start(&mut out, ResultType::Matrix);
    out.push(b'[');
    for i in 0..columns.len() {
        if i > 0 {
            out.push(b',');
        }
        write_column_labels(&mut out, &Labels::from_pairs([("i", i.to_string())]));
    }
    out.push(b']');
    let end = QueryEnd {
        warnings,
        ..QueryEnd::default()
    };
    write_query_end(&mut out, &end);
    out
}

/// Reads an answer as the documentation says.
fn read(bytes: &[u8]) -> (ColumnGrid, Vec<Vec<u64>>, Value) {
    let (magic, rest) = bytes.split_at(8);
    assert_eq!(magic, MAGIC);
    let long = |at: usize| i64::from_le_bytes(rest[at..at + 8].try_into().unwrap());
    let short = |at: usize| u32::from_le_bytes(rest[at..at + 4].try_into().unwrap());
    let grid = ColumnGrid {
        start_ms: long(0),
        step_ms: long(8),
        steps: short(16),
    };
    let series = short(20) as usize;
    let floats = series * grid.steps as usize;
    let (columns, json) = rest[24..].split_at(floats * 8);
    let columns: Vec<u64> = columns
        .chunks(8)
        .map(|bytes| u64::from_le_bytes(bytes.try_into().unwrap()))
        .collect();
    let columns = match grid.steps {
        0 => vec![Vec::new(); series],
        steps => columns
            .chunks(steps as usize)
            .map(<[u64]>::to_vec)
            .collect(),
    };
    (grid, columns, serde_json::from_slice(json).unwrap())
}

#[test]
fn golden_bytes() {
    let grid = ColumnGrid {
        start_ms: 1_700_000_000_000,
        step_ms: 15_000,
        steps: 2,
    };
    let bytes = written(grid, &[vec![1.5, ABSENT], vec![f64::NAN, -0.0]], &[]);
    let (head, json) = bytes.split_at(64);
    assert_eq!(
        head,
        [
            b"ICEMTRX1".as_slice(),
            &[0x00, 0x68, 0xe5, 0xcf, 0x8b, 0x01, 0, 0],
            &[0x98, 0x3a, 0, 0, 0, 0, 0, 0],
            &[2, 0, 0, 0, 2, 0, 0, 0],
            &[0, 0, 0, 0, 0, 0, 0xf8, 0x3f],
            &[2, 0, 0, 0, 0, 0, 0xf0, 0x7f],
            &[0, 0, 0, 0, 0, 0, 0xf8, 0x7f],
            &[0, 0, 0, 0, 0, 0, 0, 0x80],
        ]
        .concat()
    );
    assert_eq!(
        std::str::from_utf8(json).unwrap(),
        concat!(
            r#"{"status":"success","data":{"resultType":"matrix","result":["#,
            r#"{"metric":{"i":"0"}},{"metric":{"i":"1"}}]}}"#
        )
    );
}

#[test]
fn long_columns_come_in_pieces() {
    let column: Vec<f64> = (0..5 * FLOATS_PER_PIECE).map(|i| i as f64).collect();
    let mut sent = Vec::new();
    let mut out = Vec::new();
    let mut pieces = 0;
    write_column(&mut out, &column, |out| {
        pieces += 1;
        assert!(out.len() <= FLOATS_PER_PIECE * 8);
        sent.append(out);
        Ok::<_, Infallible>(())
    })
    .unwrap();
    assert_eq!((pieces, out.len()), (5, 0));
    assert_eq!(sent.len(), column.len() * 8);
    let stopped = write_column(&mut out, &column, |_| Err(()));
    assert_eq!((stopped, out.len()), (Err(()), FLOATS_PER_PIECE * 8));
}

#[test]
fn clients_that_want_columns_say_so() {
    for (accept, wanted) in [
        (&[][..], false),
        (&["*/*"], false),
        (&["application/*"], false),
        (&["application/json"], false),
        (&["application/vnd.icecore.matrix"], true),
        (&["application/json, Application/Vnd.Icecore.Matrix"], true),
        (
            &["application/json", "application/vnd.icecore.matrix"],
            true,
        ),
        (&["application/vnd.icecore.matrix, */*;q=0.1"], true),
        (
            &["application/json, application/vnd.icecore.matrix;q=0.5"],
            false,
        ),
        (
            &["application/json;q=0.5, application/vnd.icecore.matrix; v=1; q=0.5"],
            true,
        ),
        (&["application/vnd.icecore.matrix;q=0"], false),
        (&["application/vnd.icecore.matrix2"], false),
    ] {
        assert_eq!(
            prefers_columns(accept.iter().copied()),
            wanted,
            "{accept:?}"
        );
    }
}

proptest! {
    #[test]
    fn what_is_written_reads_back(
        start_ms: i64,
        step_ms in 1..i64::MAX,
        steps in 0..40usize,
        series in 0..5usize,
        bits in proptest::collection::vec(
            prop_oneof![any::<u64>(), Just(STALE_NAN_BITS)],
            200,
        ),
        warning: String,
    ) {
        let columns: Vec<Vec<u64>> = (0..series)
            .map(|i| bits[i * steps..(i + 1) * steps].to_vec())
            .collect();
        let floats: Vec<Vec<f64>> = columns
            .iter()
            .map(|column| column.iter().map(|bits| f64::from_bits(*bits)).collect())
            .collect();
        let grid = ColumnGrid { start_ms, step_ms, steps: steps as u32 };
        let bytes = written(grid, &floats, std::slice::from_ref(&warning));
        let (read_grid, read_columns, json) = read(&bytes);
        prop_assert_eq!(read_grid, grid);
        prop_assert_eq!(read_columns, columns);
        prop_assert_eq!(&json["warnings"][0], &Value::from(warning));
        let result = json["data"]["result"].as_array().unwrap();
        prop_assert_eq!(result.len(), series);
        for (i, element) in result.iter().enumerate() {
            prop_assert_eq!(&element["metric"]["i"], &Value::from(i.to_string()));
        }
    }
}
