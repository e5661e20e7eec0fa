//! Variables of Grafana inside of queries: `$host`, `${host:pipe}`, `[[host]]`.
//!
//! They survive a translation because each is one character of its own while a query is read and
//! written: a character of Unicode's private use area, which no name has.

use super::refusal::Refusal;

/// References to variables in one query.
const REFERENCES_MAX: usize = 1024;

const FIRST: u32 = 0xE000;

/// The references that were taken out of texts.
#[derive(Clone, Debug, Default)]
pub(super) struct Variables(Vec<String>);

impl Variables {
    /// The text with a character in place of each reference.
    pub(super) fn hide(&mut self, text: &str) -> Result<String, Refusal> {
        if text.contains(is_placeholder) {
            let reason = "it has characters of Unicode's private use area";
            return Err(Refusal::new(reason));
        }
        let mut hidden = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(['$', '[']) {
            let (before, from) = rest.split_at(at);
            hidden.push_str(before);
            let length = reference_len(from);
            let (reference, behind) = from.split_at(length.unwrap_or(1));
            match length {
                None => hidden.push_str(reference),
                Some(_) => hidden.push(self.placeholder(reference)?),
            }
            rest = behind;
        }
        hidden.push_str(rest);
        Ok(hidden)
    }

    fn placeholder(&mut self, reference: &str) -> Result<char, Refusal> {
        let known = self.0.iter().position(|known| known == reference);
        let index = known.unwrap_or(self.0.len());
        if known.is_none() {
            if index == REFERENCES_MAX {
                let reason = format!("it has more than {REFERENCES_MAX} variables");
                return Err(Refusal::new(reason));
            }
            self.0.push(reference.to_owned());
        }
        let code = FIRST + index as u32;
        char::from_u32(code).ok_or_else(|| Refusal::new("it has too many variables"))
    }

    /// The text with its references again.
    pub(super) fn restore(&self, text: &str) -> String {
        let mut restored = String::new();
        for c in text.chars() {
            let index = (c as u32).checked_sub(FIRST);
            match index.and_then(|index| self.0.get(index as usize)) {
                Some(reference) => restored.push_str(reference),
                None => restored.push(c),
            }
        }
        restored
    }
}

/// Whether a text has references that were taken out.
pub(super) fn has_variables(text: &str) -> bool {
    text.contains(is_placeholder)
}

fn is_placeholder(c: char) -> bool {
    (FIRST..FIRST + REFERENCES_MAX as u32).contains(&(c as u32))
}

/// The length of the reference with which a text begins.
fn reference_len(text: &str) -> Option<usize> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let starts_word = |text: &str| text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    // A name, and perhaps a field or a format.
    let is_named =
        |inner: &str| starts_word(inner) && inner.chars().all(|c| is_word(c) || ".:-".contains(c));
    for (open, close) in [("[[", "]]"), ("${", "}")] {
        if let Some(inner) = text.strip_prefix(open) {
            let end = inner.find(close).filter(|end| is_named(&inner[..*end]))?;
            return Some(open.len() + end + close.len());
        }
    }
    let inner = text.strip_prefix('$').filter(|inner| starts_word(inner))?;
    let end = inner.find(|c| !is_word(c)).unwrap_or(inner.len());
    Some("$".len() + end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_come_back() {
        let text = "sum:m{host=$host|[[a]]-${b:pipe},x=$1,y=[z]$host}";
        let mut variables = Variables::default();
        let hidden = variables.hide(text).unwrap();
        assert_eq!(
            hidden,
            "sum:m{host=\u{e000}|\u{e001}-\u{e002},x=$1,y=[z]\u{e000}}"
        );
        assert_eq!(variables.restore(&hidden), text);
        assert!(has_variables(&hidden) && !has_variables("a$1"));
        assert!(variables.hide("\u{e000}").is_err());
        for text in ["$", "${", "[[", "[[a]", "${a", "$$", "a$"] {
            assert_eq!(variables.hide(text).unwrap(), text);
        }
    }

    #[test]
    fn there_is_a_limit() {
        let many: String = (0..=REFERENCES_MAX).map(|i| format!("$v{i} ")).collect();
        assert!(Variables::default().hide(&many).is_err());
    }
}
