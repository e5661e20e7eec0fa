//! How gnuplot writes the numbers of an axis: `%.2f`, `%g`, `%.1s%c`.

/// Most characters of a format.
const FORMAT_CHARS_MAX: usize = 64;

/// Most digits behind the point, and most characters that a number is filled up to.
const DIGITS_MAX: usize = 32;

/// Digits where a format names none.
const DIGITS: usize = 6;

/// Letters for powers of 1000, from 10^-24 on.
const PREFIXES: [&str; 17] = [
    "y", "z", "a", "f", "p", "n", "u", "m", "", "k", "M", "G", "T", "P", "E", "Z", "Y",
];

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NumberFormat(Vec<Piece>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Number(Conversion),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Conversion {
    kind: Kind,
    is_left: bool,
    has_zeros: bool,
    /// What stands before a number that is not negative.
    plus: &'static str,
    width: usize,
    digits: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Fixed,
    Scientific,
    Shortest,
    /// The number divided by a power of 1000.
    Mantissa,
    /// The exponent of that power of 1000.
    Power,
    /// The letter of that power of 1000.
    Prefix,
    /// The number divided by a power of 10.
    DecimalMantissa,
    /// The exponent of that power of 10.
    DecimalPower,
}

impl Default for NumberFormat {
    fn default() -> Self {
        Self::shortest(DIGITS)
    }
}

impl NumberFormat {
    /// As short as possible, with at most so many digits.
    pub(super) fn shortest(digits: usize) -> Self {
        let mut conversion = Conversion::new(Kind::Shortest);
        conversion.digits = Some(digits);
        Self(vec![Piece::Number(conversion)])
    }

    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if text.chars().count() > FORMAT_CHARS_MAX {
            return Err(format!("it has more than {FORMAT_CHARS_MAX} characters"));
        }
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some((before, behind)) = rest.split_once('%') {
            pieces.push(Piece::Text(before.to_owned()));
            rest = if let Some(behind) = behind.strip_prefix('%') {
                pieces.push(Piece::Text("%".into()));
                behind
            } else {
                let (conversion, behind) = Conversion::parse(behind)?;
                pieces.push(Piece::Number(conversion));
                behind
            };
        }
        pieces.push(Piece::Text(rest.to_owned()));
        Ok(Self(pieces))
    }

    /// A number, which is finite, as text.
    pub(super) fn text(&self, value: f64) -> String {
        let pieces = self.0.iter().map(|piece| match piece {
            Piece::Text(text) => text.clone(),
            Piece::Number(conversion) => conversion.text(value),
        });
        pieces.collect()
    }
}

impl Conversion {
    fn new(kind: Kind) -> Self {
        Self {
            kind,
            is_left: false,
            has_zeros: false,
            plus: "",
            width: 0,
            digits: None,
        }
    }

    /// What stands behind a percent sign, and the text behind that.
    fn parse(text: &str) -> Result<(Self, &str), String> {
        let mut found = Self::new(Kind::Fixed);
        let mut rest = text;
        while let Some(flag) = rest.chars().next().filter(|c| "-+ 0".contains(*c)) {
            match flag {
                '-' => found.is_left = true,
                '0' => found.has_zeros = true,
                '+' => found.plus = "+",
                _ => found.plus = " ",
            }
            rest = &rest[1..];
        }
        (found.width, rest) = number(rest)?;
        if let Some(behind) = rest.strip_prefix('.') {
            let (digits, behind) = number(behind)?;
            found.digits = Some(digits);
            rest = behind;
        }
        let mut chars = rest.chars();
        let letter = chars.next().ok_or("a letter must follow %")?;
        found.kind = match letter {
            'f' | 'F' => Kind::Fixed,
            'e' | 'E' => Kind::Scientific,
            'g' | 'G' => Kind::Shortest,
            's' => Kind::Mantissa,
            'S' => Kind::Power,
            'c' => Kind::Prefix,
            't' => Kind::DecimalMantissa,
            'T' => Kind::DecimalPower,
            other => {
                return Err(format!(
                    "%{other} is none of %f, %e, %g, %s, %S, %c, %t, %T"
                ));
            }
        };
        Ok((found, chars.as_str()))
    }

    fn text(&self, value: f64) -> String {
        let digits = self.digits.unwrap_or(DIGITS);
        let decimal = exponent(value);
        let thousands = decimal.div_euclid(3).clamp(-8, 8);
        let text = match self.kind {
            Kind::Fixed => format!("{value:.digits$}"),
            Kind::Scientific => scientific(value, digits),
            Kind::Shortest => shortest(value, digits.max(1)),
            Kind::Mantissa => format!("{:.digits$}", value / 10f64.powi(3 * thousands)),
            Kind::Power => (3 * thousands).to_string(),
            Kind::Prefix => PREFIXES[(thousands + 8) as usize].to_owned(),
            Kind::DecimalMantissa => format!("{:.digits$}", value / 10f64.powi(decimal)),
            Kind::DecimalPower => decimal.to_string(),
        };
        if self.kind == Kind::Prefix {
            return text;
        }
        self.filled(&text)
    }

    fn filled(&self, text: &str) -> String {
        let (sign, digits) = match text.strip_prefix('-') {
            Some(digits) => ("-", digits),
            None => (self.plus, text),
        };
        let missing = self.width.saturating_sub(sign.len() + digits.len());
        if self.is_left {
            format!("{sign}{digits}{}", " ".repeat(missing))
        } else if self.has_zeros {
            format!("{sign}{}{digits}", "0".repeat(missing))
        } else {
            format!("{}{sign}{digits}", " ".repeat(missing))
        }
    }
}

fn number(text: &str) -> Result<(usize, &str), String> {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    if digits.is_empty() {
        return Ok((0, rest));
    }
    match digits.parse() {
        Ok(number) if number <= DIGITS_MAX => Ok((number, rest)),
        _ => Err(format!("{digits} is more than {DIGITS_MAX}")),
    }
}

/// The power of ten of the first digit.
fn exponent(value: f64) -> i32 {
    let text = format!("{value:e}");
    let exponent = text.split_once('e').and_then(|(_, e)| e.parse().ok());
    exponent.unwrap_or(0)
}

/// As C's `%e`: the exponent has a sign and two digits at least.
fn scientific(value: f64, digits: usize) -> String {
    let text = format!("{value:.digits$e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, exponent) = match exponent.strip_prefix('-') {
        Some(exponent) => ('-', exponent),
        None => ('+', exponent),
    };
    format!("{mantissa}e{sign}{exponent:0>2}")
}

/// As C's `%g`: fixed or scientific, whichever is shorter, without zeros at the end.
fn shortest(value: f64, digits: usize) -> String {
    let rounded = format!("{value:.*e}", digits - 1);
    let power: i32 = match rounded.split_once('e') {
        Some((_, power)) => power.parse().unwrap_or(0),
        None => 0,
    };
    let trimmed = |text: &str| {
        let has_fraction = text.contains('.');
        let text = text.trim_end_matches(|c| has_fraction && c == '0');
        text.trim_end_matches('.').to_owned()
    };
    if (-4..digits as i32).contains(&power) {
        let behind = (digits as i32 - 1 - power).max(0) as usize;
        return trimmed(&format!("{value:.behind$}"));
    }
    let text = scientific(value, digits - 1);
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "+00"));
    format!("{}e{exponent}", trimmed(mantissa))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_c_does() {
        for (format, value, expected) in [
            ("%g", 0.0, "0"),
            ("%g", 100_000.0, "100000"),
            ("%g", 1_000_000.0, "1e+06"),
            ("%g", 0.0001, "0.0001"),
            ("%g", 0.000_012_5, "1.25e-05"),
            ("%g", -1234.5678, "-1234.57"),
            ("%.3g", 999_999.0, "1e+06"),
            ("%f", 1.5, "1.500000"),
            ("%.2f ms", 1.005, "1.00 ms"),
            ("%8.1f|", 2.25, "     2.2|"),
            ("%-8.1f|", 2.0, "2.0     |"),
            ("%+06.1f", 2.0, "+002.0"),
            ("%e", 12_345.0, "1.234500e+04"),
            ("%.0e", 1e100, "1e+100"),
            ("%.1s%cB", 1_500.0, "1.5kB"),
            ("%.1s%cB", 1_500_000_000.0, "1.5GB"),
            ("%.0s%cB", 0.002, "2mB"),
            ("%.0s%cB", 0.0, "0B"),
            ("%.0s%c", 1e30, "1000000Y"),
            ("%s", -25_000.0, "-25.000000"),
            ("%.1t*10^%T", 25_000.0, "2.5*10^4"),
            ("10^%S", 25_000.0, "10^3"),
            ("100%%", 1.0, "100%"),
            ("plain", 1.0, "plain"),
        ] {
            let parsed = NumberFormat::parse(format).unwrap();
            assert_eq!(parsed.text(value), expected, "{format}");
        }
    }

    #[test]
    fn other_formats_are_refused() {
        for format in ["%", "%x", "%P", "%33f", "%.33f", "%.f%", "%é", "a%-"] {
            assert!(NumberFormat::parse(format).is_err(), "{format}");
        }
        assert!(NumberFormat::parse(&"x".repeat(65)).is_err());
    }
}
