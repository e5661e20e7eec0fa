use proptest::prelude::*;

use super::*;
use crate::prometheus::message::{put_bytes, put_message, put_number};

fn matcher(out: &mut Vec<u8>, number: u64, name: &str, value: &str) {
    put_message(out, 3, |out| {
        put_number(out, 1, number);
        put_bytes(out, 2, name.as_bytes());
        put_bytes(out, 3, value.as_bytes());
    });
}

fn query(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    put_message(&mut out, 1, |out| {
        put_number(out, 1, 1000);
        put_number(out, 2, 5000);
        write(out);
    });
    out
}

fn range(request: &[u8]) -> (i64, i64, bool) {
    let request = decode_read_request(request).unwrap();
    let [query] = &request.queries[..] else {
        panic!("one query was sent");
    };
    (query.start_ms, query.end_ms, query.labels_only)
}

#[test]
fn every_matcher_is_understood() {
    let message = query(|out| {
        matcher(out, 0, "__name__", "up");
        matcher(out, 1, "job", "");
        matcher(out, 2, "instance", "a.*");
        matcher(out, 3, "größe", "x|y");
    });
    let request = decode_read_request(&message).unwrap();
    assert_eq!(request.response_type, ResponseType::Samples);
    let matchers = request.queries[0].matchers.iter();
    let shown: Vec<String> = matchers.map(ToString::to_string).collect();
    assert_eq!(
        shown.join(","),
        "__name__=\"up\",job!=\"\",instance=~\"a.*\",\"größe\"!~\"x|y\""
    );
}

#[test]
fn hints_narrow_the_range() {
    let with_hints = |function: &str, start: u64, end: u64| {
        query(|out| {
            put_message(out, 4, |out| {
                put_number(out, 1, 15_000);
                put_bytes(out, 2, function.as_bytes());
                put_number(out, 3, start);
                put_number(out, 4, end);
                put_bytes(out, 5, b"job");
                put_number(out, 6, 1);
                put_number(out, 7, 300_000);
            });
        })
    };
    assert_eq!(range(&query(|_| ())), (1000, 5000, false));
    let narrowed = with_hints("rate", 2000, 3000);
    assert_eq!(range(&narrowed), (2000, 3000, false));
    assert_eq!(range(&with_hints("series", 1, 9000)), (1000, 5000, true));
    assert_eq!(range(&with_hints("", 0, 0)), (1000, 5000, false));
    // The hint lies beside the range: nothing is read.
    assert_eq!(range(&with_hints("", 6000, 7000)), (6000, 5000, false));
}

#[test]
fn the_first_known_response_type_is_taken() {
    let accepting = |types: &[u64], packed: bool| {
        let mut out = query(|_| ());
        if packed {
            let bytes: Vec<u8> = types.iter().map(|t| *t as u8).collect();
            put_bytes(&mut out, 2, &bytes);
        } else {
            for number in types {
                out.extend([0x10, *number as u8]);
            }
        }
        decode_read_request(&out).map(|request| request.response_type)
    };
    for packed in [true, false] {
        let streamed = Ok(ResponseType::StreamedChunks);
        assert_eq!(accepting(&[1, 0], packed), streamed);
        assert_eq!(accepting(&[7, 1], packed), streamed);
        assert_eq!(accepting(&[0, 1], packed), Ok(ResponseType::Samples));
        let unknown = Err(ReadRequestError::ResponseType(vec![7, 8]));
        assert_eq!(accepting(&[7, 8], packed), unknown);
    }
    assert_eq!(accepting(&[], false), Ok(ResponseType::Samples));
}

#[test]
fn what_is_too_much_or_wrong_is_named() {
    let error = |message: &[u8]| decode_read_request(message).unwrap_err();
    let many = query(|_| ()).repeat(READ_QUERIES_MAX + 1);
    assert_eq!(error(&many), ReadRequestError::TooManyQueries);
    let many = query(|out| (0..1025).for_each(|_| matcher(out, 0, "a", "b")));
    assert_eq!(error(&many), ReadRequestError::TooManyMatchers);
    let wrong = query(|out| matcher(out, 4, "a", "b"));
    assert_eq!(error(&wrong), ReadRequestError::MatcherType(4));
    let wrong = error(&query(|out| matcher(out, 2, "a", "(")));
    assert!(
        wrong.to_string().contains("matcher of label \"a\""),
        "{wrong}"
    );
    let many = query(|out| {
        (0..100).for_each(|number| matcher(out, 2, "a", &format!(r"\pL{{20}}{number}")));
    });
    let too_large = error(&many).to_string();
    let reason = "the regular expressions of the request";
    assert!(too_large.contains(reason), "{too_large}");
    let not_text = query(|out| {
        put_message(out, 3, |out| put_bytes(out, 2, &[0xff]));
    });
    assert_eq!(error(&not_text), ReadRequestError::NotText);
    let mut cut = query(|_| ());
    let place = cut.len();
    cut.extend([0x0a, 5, 1]);
    let expected = ReadRequestError::Protobuf {
        offset: place,
        error: ProtobufError::Truncated,
    };
    assert_eq!(error(&cut), expected);
}

proptest! {
    #[test]
    fn any_bytes_give_a_request_or_an_error(bytes: Vec<u8>) {
        let _ = decode_read_request(&bytes);
    }
}
