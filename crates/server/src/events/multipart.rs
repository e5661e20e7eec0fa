//! One field of a form with files (`multipart/form-data`), as RFC 7578 has it.

use std::ops::Range;

/// Where in a body the content of the first field with this name lies.
pub(super) fn field(content_type: &str, body: &[u8], name: &str) -> Result<Range<usize>, String> {
    let boundary = boundary(content_type).ok_or("the content type names no boundary")?;
    let delimiter = [b"--", boundary.as_bytes()].concat();
    let mut at = find(body, &delimiter, 0).ok_or("the body has no part")?;
    loop {
        at += delimiter.len();
        if body[at..].starts_with(b"--") {
            return Err(format!("the form has no field {name:?}"));
        }
        let head_end = find(body, b"\r\n\r\n", at).ok_or("a part has no end of its head")?;
        let content = head_end + 4;
        let next = [b"\r\n", &delimiter[..]].concat();
        let end = find(body, &next, content).ok_or("a part has no end")?;
        let head = String::from_utf8_lossy(&body[at..head_end]);
        if has_name(&head, name) {
            return Ok(content..end);
        }
        at = end + 2;
    }
}

/// The parameter `boundary`.
fn boundary(content_type: &str) -> Option<&str> {
    let parameters = content_type.split(';').skip(1);
    let mut values = parameters.filter_map(|parameter| {
        let (name, value) = parameter.trim().split_once('=')?;
        name.eq_ignore_ascii_case("boundary").then_some(value)
    });
    let value = values.next()?.trim_matches('"');
    // As RFC 2046 limits it.
    (1..=70).contains(&value.len()).then_some(value)
}

/// Whether the head of a part says that it is the field of this name.
fn has_name(head: &str, name: &str) -> bool {
    let quoted = format!("name=\"{name}\"");
    let plain = format!("name={name}");
    let is_disposition = |line: &&str| {
        let start = line.get(..20).unwrap_or_default();
        start.eq_ignore_ascii_case("content-disposition:")
    };
    let mut parameters = head
        .lines()
        .filter(is_disposition)
        .flat_map(|line| line.split(';').map(str::trim));
    parameters.any(|parameter| parameter == quoted || parameter == plain)
}

fn find(body: &[u8], wanted: &[u8], from: usize) -> Option<usize> {
    let rest = body.get(from..)?;
    let at = rest
        .windows(wanted.len())
        .position(|window| window == wanted)?;
    Some(from + at)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TYPE: &str = "multipart/form-data; boundary=\"x1\"";

    #[test]
    fn the_field_is_found() {
        let body = b"--x1\r\nContent-Disposition: form-data; name=\"mode\"\r\n\r\nupsert\r\n\
            --x1\r\ncontent-disposition: form-data; name=\"file\"; filename=\"a.tar\"\r\n\
            Content-Type: application/x-tar\r\n\r\nab\r\n--x\r\ncd\r\n--x1--\r\n";
        let range = field(TYPE, body, "file").unwrap();
        assert_eq!(&body[range], b"ab\r\n--x\r\ncd");
        let range = field(TYPE, body, "mode").unwrap();
        assert_eq!(&body[range], b"upsert");
        assert!(field(TYPE, body, "other").is_err());
    }

    #[test]
    fn what_is_no_form_is_an_error() {
        for (content_type, body) in [
            ("multipart/form-data", &b"--x1--"[..]),
            ("multipart/form-data; boundary=", b"--"),
            (TYPE, b""),
            (TYPE, b"--x1"),
            (TYPE, b"--x1\r\n\r\n"),
            (
                TYPE,
                b"--x1\r\nContent-Disposition: form-data; name=file\r\n\r\nab",
            ),
        ] {
            assert!(field(content_type, body, "file").is_err());
        }
    }
}
