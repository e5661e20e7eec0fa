//! A plan as text for people.

use std::fmt::{self, Write};

use icecore_model::Matcher;

use super::{
    Arg, Parameter, Picked, Plan, RangeInput, Root, Scalar, ScalarKind, ScanUse, Vector, VectorKind,
};
use crate::exec::Grid;
use crate::functions::window::{WindowMode, Windows};
use crate::parse::{Cardinality, VectorMatching, go_float};

/// The plan as a tree, then what is read and what is shared.
pub(crate) fn explain(plan: &Plan) -> String {
    let mut lines = Lines::default();
    let kind = if plan.is_range { "range" } else { "instant" };
    lines.add(0, format_args!("{kind} query, {}", GridText(plan.grid)));
    match &plan.root {
        Root::Scalar(node) => scalar(&mut lines, 1, node),
        Root::Text(text) => lines.add(1, format_args!("string {text:?}")),
        Root::Vector(node) => vector(&mut lines, 1, node),
        Root::Matrix(input, windows) => {
            lines.add(1, format_args!("samples{}", WindowText(windows)));
            range_input(&mut lines, 2, input);
        }
    }
    for (id, scan) in plan.scans.iter().enumerate() {
        let uses = match scan.consumers {
            1 => "once".to_string(),
            n => format!("{n} times"),
        };
        lines.add(
            0,
            format_args!(
                "scan #{id}: {} from {} to {}, used {uses}",
                Matchers(&scan.matchers),
                Seconds(scan.start_ms),
                Seconds(scan.end_ms)
            ),
        );
    }
    for (id, shared) in plan
        .shared
        .iter()
        .enumerate()
        .filter(|(_, s)| s.consumers > 1)
    {
        lines.add(
            0,
            format_args!("shared #{id}, used {} times:", shared.consumers),
        );
        vector(&mut lines, 1, &shared.input);
    }
    // Vectors that are written twice but needed on different grids stand where they are used.
    let single: Vec<_> = plan
        .shared
        .iter()
        .enumerate()
        .filter(|(_, s)| s.consumers == 1)
        .collect();
    for (id, shared) in single {
        lines.add(0, format_args!("vector #{id}:"));
        vector(&mut lines, 1, &shared.input);
    }
    lines.text
}

#[derive(Default)]
struct Lines {
    text: String,
}

impl Lines {
    fn add(&mut self, depth: usize, line: fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "{:1$}{line}", "", 2 * depth);
    }
}

fn vector(lines: &mut Lines, depth: usize, node: &Vector) {
    match &node.kind {
        VectorKind::Select {
            from,
            offset_ms,
            lookback_ms,
            what,
            ..
        } => {
            let what = match what {
                Picked::Value => "",
                Picked::Smoothed => " smoothed",
                Picked::Timestamp => " timestamps",
                Picked::StartTimestamp => " start timestamps",
            };
            lines.add(
                depth,
                format_args!(
                    "select{what} {}, look-back {}{}",
                    Use(from),
                    Seconds(*lookback_ms),
                    Offset(*offset_ms)
                ),
            );
        }
        VectorKind::Window {
            call,
            args,
            input,
            windows,
            ..
        } => {
            lines.add(
                depth,
                format_args!("{}{}", call.function.name, WindowText(windows)),
            );
            range_input(lines, depth + 1, input);
            arguments(lines, depth + 1, args);
        }
        VectorKind::Map {
            call, args, input, ..
        }
        | VectorKind::Rows {
            call, args, input, ..
        } => {
            lines.add(depth, format_args!("{}", call.function.name));
            vector(lines, depth + 1, input);
            arguments(lines, depth + 1, args);
        }
        VectorKind::Aggregate {
            op,
            grouping,
            parameter,
            input,
            fused,
            ..
        } => {
            let how = match grouping.without {
                true => "without",
                false => "by",
            };
            let labels = grouping.labels.join(", ");
            let fused = if *fused { ", dropping rows early" } else { "" };
            match grouping.labels.is_empty() && !grouping.without {
                true => lines.add(depth, format_args!("{}{fused}", op.name())),
                false => lines.add(depth, format_args!("{} {how} ({labels}){fused}", op.name())),
            }
            match parameter {
                Some(Parameter::Scalar(node)) => scalar(lines, depth + 1, node),
                Some(Parameter::Text(text)) => {
                    lines.add(depth + 1, format_args!("string {text:?}"))
                }
                None => {}
            }
            vector(lines, depth + 1, input);
        }
        VectorKind::WithScalar {
            op,
            return_bool,
            vector: input,
            scalar: other,
            scalar_is_left,
            ..
        } => {
            let side = if *scalar_is_left { "left" } else { "right" };
            let modifier = if *return_bool { " bool" } else { "" };
            lines.add(
                depth,
                format_args!("{}{modifier}, scalar on the {side}", op.symbol()),
            );
            vector(lines, depth + 1, input);
            scalar(lines, depth + 1, other);
        }
        VectorKind::Join {
            op,
            return_bool,
            matching,
            lhs,
            rhs,
            ..
        } => {
            let modifier = if *return_bool { " bool" } else { "" };
            lines.add(
                depth,
                format_args!("join {}{modifier}{}", op.symbol(), Match(matching)),
            );
            vector(lines, depth + 1, lhs);
            vector(lines, depth + 1, rhs);
        }
        VectorKind::Negate(input) => {
            lines.add(depth, format_args!("negate"));
            vector(lines, depth + 1, input);
        }
        VectorKind::FromScalar(input) => {
            lines.add(depth, format_args!("vector"));
            scalar(lines, depth + 1, input);
        }
        VectorKind::Repeat(input) => {
            lines.add(depth, format_args!("repeat at every step"));
            vector(lines, depth + 1, input);
        }
        VectorKind::Info {
            input, matchers, ..
        } => {
            lines.add(depth, format_args!("info {}", Matchers(matchers)));
            vector(lines, depth + 1, input);
        }
        VectorKind::Shared { id, .. } => lines.add(depth, format_args!("vector #{id}")),
    }
}

fn range_input(lines: &mut Lines, depth: usize, input: &RangeInput) {
    match input {
        RangeInput::Scan(from) => lines.add(depth, format_args!("read {}", Use(from))),
        RangeInput::Subquery(inner) => {
            lines.add(depth, format_args!("subquery, {}", GridText(inner.grid)));
            vector(lines, depth + 1, inner);
        }
    }
}

fn arguments(lines: &mut Lines, depth: usize, args: &[Arg]) {
    for arg in args {
        match arg {
            Arg::Series => {}
            Arg::Scalar(node) => scalar(lines, depth, node),
            Arg::Text(text) => lines.add(depth, format_args!("string {text:?}")),
        }
    }
}

fn scalar(lines: &mut Lines, depth: usize, node: &Scalar) {
    match &node.kind {
        ScalarKind::Constant(value) => {
            lines.add(depth, format_args!("number {}", go_float(*value)))
        }
        ScalarKind::Time => lines.add(depth, format_args!("time")),
        ScalarKind::Negate(inner) => {
            lines.add(depth, format_args!("negate scalar"));
            scalar(lines, depth + 1, inner);
        }
        ScalarKind::Binary { op, lhs, rhs } => {
            lines.add(depth, format_args!("{} of scalars", op.symbol()));
            scalar(lines, depth + 1, lhs);
            scalar(lines, depth + 1, rhs);
        }
        ScalarKind::Extreme { largest, of } => {
            let name = if *largest { "largest" } else { "smallest" };
            lines.add(depth, format_args!("{name} of scalars"));
            of.iter().for_each(|inner| scalar(lines, depth + 1, inner));
        }
        ScalarKind::FromVector(inner) => {
            lines.add(depth, format_args!("scalar"));
            vector(lines, depth + 1, inner);
        }
    }
}

struct GridText(Grid);

impl fmt::Display for GridText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let grid = self.0;
        match grid.steps {
            1 => write!(f, "one step at {}", Seconds(grid.start_ms)),
            steps => write!(
                f,
                "{steps} steps from {} every {}",
                Seconds(grid.start_ms),
                Seconds(grid.step_ms)
            ),
        }
    }
}

/// Milliseconds as seconds.
struct Seconds(i64);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}s", go_float(self.0 as f64 / 1000.0))
    }
}

struct Offset(i64);

impl fmt::Display for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => Ok(()),
            offset => write!(f, ", offset {}", Seconds(offset)),
        }
    }
}

struct WindowText<'p>(&'p Windows);

impl fmt::Display for WindowText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mode = match self.0.mode {
            WindowMode::Plain => "",
            WindowMode::Anchored => " anchored",
            WindowMode::Smoothed => " smoothed",
        };
        write!(
            f,
            " over {}{mode}{}",
            Seconds(self.0.range_ms),
            Offset(self.0.offset_ms)
        )
    }
}

struct Use<'p>(&'p ScanUse);

impl fmt::Display for Use<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "scan #{}", self.0.scan)?;
        match self.0.filter.is_empty() {
            true => Ok(()),
            false => write!(f, " where {}", Matchers(&self.0.filter)),
        }
    }
}

struct Matchers<'p>(&'p [Matcher]);

impl fmt::Display for Matchers<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('{')?;
        for (index, matcher) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{matcher}")?;
        }
        f.write_char('}')
    }
}

struct Match<'p>(&'p VectorMatching);

impl fmt::Display for Match<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let matching = self.0;
        if matching.on || !matching.labels.is_empty() {
            let how = if matching.on { "on" } else { "ignoring" };
            write!(f, " {how} ({})", matching.labels.join(", "))?;
        }
        match matching.cardinality {
            Cardinality::ManyToOne => write!(f, " group_left ({})", matching.include.join(", "))?,
            Cardinality::OneToMany => write!(f, " group_right ({})", matching.include.join(", "))?,
            Cardinality::OneToOne | Cardinality::ManyToMany => {}
        }
        if let Some(value) = matching.fill_left {
            write!(f, " fill_left ({})", go_float(value))?;
        }
        match matching.fill_right {
            Some(value) => write!(f, " fill_right ({})", go_float(value)),
            None => Ok(()),
        }
    }
}
