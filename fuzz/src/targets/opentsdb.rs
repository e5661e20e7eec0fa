//! Targets for OpenTSDB's text formats.

use icecore_wire::opentsdb::cell_line::CellLine;
use icecore_wire::opentsdb::gateway::read_cells;
use icecore_wire::opentsdb::number::parse_number;
use icecore_wire::opentsdb::put_json::{parse_tags, read_points};
use icecore_wire::opentsdb::telnet::{self, PutLine, decode_line, split_command};

use crate::{MEMORY_BASE, Target};

const DOCUMENT: &[u8] = br#"[{"metric":"disk.used","timestamp":1700000040,"value":71,"tags":{"host":"db7","rack":"r\u00fc2"}},
 null,
 {"metric":"disk.used","timestamp":"1700000040250","value":"3.25e1","tags":{"host":"db8","n":5},"more":[{"x":[true,null]}]},
 {"metric":"m","timestamp":1.5e9,"value":NaN,"tags":null}]"#;

const LINE: &[u8] = b"put sys.cpu.user 1356998400.250 -42.5e-3 host=web01  cpu=0 host=web01 ";

const CELL: &[u8] = br#"{"table":"tsdb","row":"00000150e22700000001000001","family":"t","qualifier":"01e0","value":"2a","timestamp":1356998430000,"more":{"x":[1]}}"#;

const GATEWAY: &[u8] = br#"{"Row":[{"key":"AAABUOInAAAAAQAAAQ==","Cell":[{"column":"dDoB4A==","timestamp":1356998430000,"$":"Kg=="},{"column":"dDoC0Q==","$":"ASw="}]}]}"#;

pub fn targets() -> Vec<Target> {
    vec![
        Target {
            memory_base: MEMORY_BASE,
            name: "opentsdb_cell_line",
            seeds: || vec![CELL.to_vec()],
            run: |input| {
                let Ok(text) = std::str::from_utf8(input) else {
                    return;
                };
                if let Ok(cell) = CellLine::parse(text) {
                    let mut line = Vec::new();
                    cell.write(&mut line);
                    let line = String::from_utf8(line).expect("lines are text");
                    let again = CellLine::parse(&line).expect("what is written is read");
                    assert_eq!(again, cell);
                }
            },
        },
        Target {
            memory_base: MEMORY_BASE,
            name: "opentsdb_gateway",
            seeds: || vec![GATEWAY.to_vec()],
            run: |input| {
                if let Ok(text) = std::str::from_utf8(input) {
                    let _ = read_cells(text, "tsdb");
                }
            },
        },
        Target {
            memory_base: MEMORY_BASE,
            name: "opentsdb_put_json",
            seeds: || vec![DOCUMENT.to_vec()],
            run: |input| {
                let Ok(text) = std::str::from_utf8(input) else {
                    return;
                };
                let mut points = Vec::new();
                if read_points(text, &mut points).is_err() {
                    return;
                }
                for point in points.iter().flatten() {
                    let _ = point.value.as_deref().map(parse_number);
                    if let Some(tags) = point.tags {
                        parse_tags(tags).expect("tags of a point were checked");
                    }
                }
            },
        },
        Target {
            memory_base: MEMORY_BASE,
            name: "opentsdb_put_line",
            seeds: || vec![LINE.to_vec()],
            run: |input| {
                let line = decode_line(input);
                let (_, arguments) = split_command(&line);
                if let Ok(line) = PutLine::parse(arguments) {
                    let _ = parse_number(line.timestamp);
                    let _ = parse_number(line.value);
                    let _ = telnet::parse_tags(line.tags, &mut Vec::new());
                }
            },
        },
    ]
}
