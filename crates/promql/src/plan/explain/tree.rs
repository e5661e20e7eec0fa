//! A tree of lines.

/// A line with the lines below it.
pub(super) struct Tree {
    text: String,
    children: Vec<Tree>,
}

impl Tree {
    pub(super) fn new(text: String, children: Vec<Tree>) -> Self {
        Self { text, children }
    }

    pub(super) fn leaf(text: String) -> Self {
        Self::new(text, Vec::new())
    }

    /// With a note behind its line.
    pub(super) fn with_note(mut self, note: &str) -> Self {
        self.text.push_str(note);
        self
    }

    pub(super) fn render(&self, out: &mut String) {
        self.render_below("", true, out);
    }

    /// `above` is what lines of nodes further up draw before this one.
    fn render_below(&self, above: &str, is_last: bool, out: &mut String) {
        let (branch, rest) = if is_last {
            ("└─ ", "   ")
        } else {
            ("├─ ", "│  ")
        };
        for part in [above, branch, &self.text, "\n"] {
            out.push_str(part);
        }
        let above = format!("{above}{rest}");
        for (index, child) in self.children.iter().enumerate() {
            child.render_below(&above, index + 1 == self.children.len(), out);
        }
    }
}
