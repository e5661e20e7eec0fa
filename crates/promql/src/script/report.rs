//! Reports of script runs.

use std::fmt::Write;

use super::ScriptError;

/// The outcome of a script.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The name of the script; may be empty.
    pub name: String,
    /// Number of evaluations.
    pub evals: usize,
    /// Evaluations with the expected outcome.
    pub passed: usize,
    /// Failed evaluations and loads.
    pub failures: Vec<Failure>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Counted from 1.
    pub line: usize,
    /// The query; empty for other commands.
    pub query: String,
    /// The first difference between the expected and the actual answer.
    pub difference: String,
}

impl Report {
    pub(crate) fn of_bad_script(name: &str, error: ScriptError) -> Self {
        Self {
            name: name.to_owned(),
            failures: vec![Failure {
                line: error.line,
                query: String::new(),
                difference: error.message,
            }],
            ..Self::default()
        }
    }

    pub fn is_success(&self) -> bool {
        self.failures.is_empty()
    }

    /// The report as text: a line for the script, and two for each failure.
    pub fn render(&self) -> String {
        let failed = self.evals - self.passed.min(self.evals);
        let mut text = format!("{}: {} passed, {failed} failed\n", self.name, self.passed);
        for failure in &self.failures {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "  {}:{}: {}", self.name, failure.line, failure.query);
            let _ = writeln!(text, "    {}", failure.difference);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn for_people() {
        let mut report = Report {
            name: "a.test".to_owned(),
            evals: 3,
            passed: 3,
            failures: Vec::new(),
        };
        assert!(report.is_success());
        assert_eq!(report.render(), "a.test: 3 passed, 0 failed\n");
        report.passed = 2;
        report.failures.push(Failure {
            line: 7,
            query: "sum(m)".to_owned(),
            difference: "expected {} 1, but got 2".to_owned(),
        });
        assert_eq!(
            report.render(),
            "a.test: 2 passed, 1 failed\n  a.test:7: sum(m)\n    expected {} 1, but got 2\n"
        );
    }
}
