//! Which metric names rows can have, for immediate removal of names.
//!
//! When a function drops the metric name, series that differed in nothing else become duplicates,
//! which is an error if two of them have a value at the same step. Detecting that needs all rows at
//! once. Most selectors name one metric, so duplicates are impossible and rows can pass batch by
//! batch; this module tells when. Type and unit are removed with the name, and series of one metric
//! may differ in nothing else.

use icecore_model::{METRIC_NAME, MatchOp};

use super::{
    Arg, Grouping, Parameter, Plan, RangeInput, ScanUse, SelectorOutput, Vector, VectorKind,
};
use crate::parse::{AggregateOp, BinaryOp, Call, Cardinality, VectorMatching};

/// The labels that a node removes from its rows, and whether that can make rows equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Removal {
    pub(crate) labels: RemovedLabels,
    pub(crate) duplicates: Duplicates,
    pub(crate) check: DuplicateCheck,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RemovedLabels {
    /// Name, type and unit.
    Metric,
    /// Only the name, as functions of native histograms do in Prometheus.
    Name,
}

/// Which rows can have equal labels afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Duplicates {
    Never,
    /// Rows of one metric with different types or units; rows come in the order of their labels.
    AcrossTypes,
    /// Any rows.
    Possible,
}

/// When rows with equal labels are an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DuplicateCheck {
    /// If they have a value at the same step.
    AtSameStep,
    /// Always.
    Always,
}

/// The metric names of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Names {
    None,
    /// The same for all.
    One,
    Any,
}

/// Whether rows can have labels for type and unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Types {
    None,
    /// Rows come in the order of their labels.
    InOrder,
    InAnyOrder,
}

impl Types {
    fn reordered(self) -> Self {
        match self {
            Self::None => Self::None,
            Self::InOrder | Self::InAnyOrder => Self::InAnyOrder,
        }
    }
}

impl Plan {
    /// The labels that a node removes; `None` if labels stay as they are or are new ones.
    pub(crate) fn removal(&self, node: &Vector) -> Option<Removal> {
        let mut labels = RemovedLabels::Metric;
        let mut check = DuplicateCheck::AtSameStep;
        let (names, types) = match &node.kind {
            VectorKind::Select { from, output, .. } => match output {
                SelectorOutput::Timestamp | SelectorOutput::StartTimestamp => {
                    (self.names_of_scan(from), Types::InOrder)
                }
                SelectorOutput::Value | SelectorOutput::Smoothed => return None,
            },
            // Its result has labels of its own.
            VectorKind::Window { call, .. } if call.function.name == "absent_over_time" => {
                return None;
            }
            VectorKind::Window {
                function, input, ..
            } => {
                check = DuplicateCheck::Always;
                if function.keeps_name {
                    (Names::None, Types::None)
                } else {
                    (self.names_of_range(input), self.types_of_range(input))
                }
            }
            VectorKind::Map { call, input, .. } => {
                let mut types = self.types(input);
                if call.function.name.starts_with("histogram_") {
                    (labels, types) = (RemovedLabels::Name, Types::None);
                }
                (self.names(input), types)
            }
            VectorKind::Rows { call, input, .. } if gathers_buckets(call) => {
                (self.names(input), self.types(input).reordered())
            }
            VectorKind::WithScalar {
                op,
                return_bool,
                vector,
                ..
            } if removes_names(*op, *return_bool) => (self.names(vector), self.types(vector)),
            VectorKind::Negate(input) => (self.names(input), self.types(input)),
            _ => return None,
        };
        let duplicates = match (names, types) {
            (Names::Any, _) | (_, Types::InAnyOrder) => Duplicates::Possible,
            (_, Types::InOrder) => Duplicates::AcrossTypes,
            (_, Types::None) => Duplicates::Never,
        };
        Some(Removal {
            labels,
            duplicates,
            check,
        })
    }

    /// Whether a node directly reads series of one metric only.
    pub(super) fn has_one_name(&self, node: &Vector) -> bool {
        match &node.kind {
            VectorKind::Select { from, .. }
            | VectorKind::Window {
                input: RangeInput::Scan(from),
                ..
            } => self.names_of_scan(from) == Names::One,
            _ => false,
        }
    }

    /// The names of the rows of a node.
    fn names(&self, node: &Vector) -> Names {
        match &node.kind {
            VectorKind::Select { from, output, .. } => match output {
                SelectorOutput::Timestamp | SelectorOutput::StartTimestamp => Names::None,
                SelectorOutput::Value | SelectorOutput::Smoothed => self.names_of_scan(from),
            },
            VectorKind::Window {
                function, input, ..
            } => {
                if function.keeps_name {
                    self.names_of_range(input)
                } else {
                    Names::None
                }
            }
            VectorKind::Map { .. } | VectorKind::Negate(_) | VectorKind::FromScalar(_) => {
                Names::None
            }
            VectorKind::Rows {
                call, args, input, ..
            } => self.names_of_call(call, args, input),
            VectorKind::Aggregate {
                op,
                grouping,
                parameter,
                input,
                ..
            } => self.names_of_groups(*op, grouping, parameter.as_ref(), input),
            VectorKind::WithScalar {
                op,
                return_bool,
                vector,
                ..
            } => {
                if removes_names(*op, *return_bool) {
                    Names::None
                } else {
                    self.names(vector)
                }
            }
            VectorKind::Join {
                op,
                return_bool,
                matching,
                lhs,
                rhs,
                ..
            } => self.names_of_join(*op, *return_bool, matching, lhs, rhs),
            VectorKind::Repeat(input) | VectorKind::Info { input, .. } => self.names(input),
            VectorKind::Shared { id, .. } => match self.shared.get(*id) {
                Some(shared) => self.names(&shared.input),
                None => Names::Any,
            },
        }
    }

    fn names_of_scan(&self, from: &ScanUse) -> Names {
        let scanned = self.scans.get(from.scan).map(|scan| scan.matchers.iter());
        let mut matchers = scanned.into_iter().flatten().chain(&from.filter);
        if matchers.any(|m| m.name() == METRIC_NAME && m.op() == MatchOp::Equal) {
            Names::One
        } else {
            Names::Any
        }
    }

    fn names_of_range(&self, input: &RangeInput) -> Names {
        match input {
            RangeInput::Scan(from) => self.names_of_scan(from),
            RangeInput::Subquery(inner) => self.names(inner),
        }
    }

    fn names_of_call(&self, call: &Call, args: &[Arg], input: &Vector) -> Names {
        let writes_name = args
            .iter()
            .any(|arg| matches!(arg, Arg::Text(text) if text == METRIC_NAME));
        match call.function.name {
            _ if writes_name => Names::Any,
            "absent" | "absent_over_time" => Names::None,
            _ if gathers_buckets(call) => Names::None,
            _ => self.names(input),
        }
    }

    fn names_of_groups(
        &self,
        op: AggregateOp,
        grouping: &Grouping,
        parameter: Option<&Parameter>,
        input: &Vector,
    ) -> Names {
        if matches!(parameter, Some(Parameter::Text(label)) if label == METRIC_NAME) {
            return Names::Any;
        }
        let by_name = !grouping.without && grouping.labels.iter().any(|l| l == METRIC_NAME);
        if op.selects_rows() || by_name {
            self.names(input)
        } else {
            Names::None
        }
    }

    fn names_of_join(
        &self,
        op: BinaryOp,
        return_bool: bool,
        matching: &VectorMatching,
        lhs: &Vector,
        rhs: &Vector,
    ) -> Names {
        let includes_name = matching.include.iter().any(|label| label == METRIC_NAME);
        match op {
            BinaryOp::And | BinaryOp::Unless => self.names(lhs),
            BinaryOp::Or => match (self.names(lhs), self.names(rhs)) {
                (Names::None, Names::None) => Names::None,
                _ => Names::Any,
            },
            _ if includes_name => Names::Any,
            _ if removes_names(op, return_bool) => Names::None,
            _ => match matching.cardinality {
                Cardinality::OneToMany => self.names(rhs),
                _ => self.names(lhs),
            },
        }
    }
}

impl Plan {
    /// Whether the rows of a node can have labels for type and unit.
    fn types(&self, node: &Vector) -> Types {
        match &node.kind {
            VectorKind::Select { output, .. } => match output {
                SelectorOutput::Timestamp | SelectorOutput::StartTimestamp => Types::None,
                SelectorOutput::Value | SelectorOutput::Smoothed => Types::InOrder,
            },
            VectorKind::Window {
                function, input, ..
            } => {
                if function.keeps_name {
                    self.types_of_range(input)
                } else {
                    Types::None
                }
            }
            VectorKind::Map { call, input, .. } => {
                if call.function.name.starts_with("histogram_") {
                    self.types(input)
                } else {
                    Types::None
                }
            }
            VectorKind::Negate(_) | VectorKind::FromScalar(_) => Types::None,
            VectorKind::Rows {
                call, args, input, ..
            } => {
                let writes = |arg: &Arg| matches!(arg, Arg::Text(text) if is_type_label(text));
                match call.function.name {
                    _ if args.iter().any(writes) => Types::InAnyOrder,
                    _ if gathers_buckets(call) => Types::None,
                    _ => self.types(input).reordered(),
                }
            }
            VectorKind::Aggregate {
                op,
                grouping,
                parameter,
                input,
                ..
            } => {
                let mut listed = grouping.labels.iter();
                let listed = listed.any(|label| is_type_label(label));
                match parameter {
                    Some(Parameter::Text(label)) if is_type_label(label) => Types::InAnyOrder,
                    _ if op.selects_rows() || grouping.without || listed => {
                        self.types(input).reordered()
                    }
                    _ => Types::None,
                }
            }
            VectorKind::WithScalar {
                op,
                return_bool,
                vector,
                ..
            } => {
                if removes_names(*op, *return_bool) {
                    Types::None
                } else {
                    self.types(vector)
                }
            }
            VectorKind::Join {
                op,
                return_bool,
                matching,
                lhs,
                rhs,
                ..
            } => self.types_of_join(*op, *return_bool, matching, lhs, rhs),
            VectorKind::Repeat(input) => self.types(input),
            // The labels of info metrics may be of any kind.
            VectorKind::Info { .. } => Types::InAnyOrder,
            VectorKind::Shared { id, .. } => match self.shared.get(*id) {
                Some(shared) => self.types(&shared.input),
                None => Types::InAnyOrder,
            },
        }
    }

    fn types_of_range(&self, input: &RangeInput) -> Types {
        match input {
            RangeInput::Scan(_) => Types::InOrder,
            RangeInput::Subquery(inner) => self.types(inner),
        }
    }

    fn types_of_join(
        &self,
        op: BinaryOp,
        return_bool: bool,
        matching: &VectorMatching,
        lhs: &Vector,
        rhs: &Vector,
    ) -> Types {
        let mut included = matching.include.iter();
        match op {
            BinaryOp::And | BinaryOp::Unless => self.types(lhs),
            _ if included.any(|label| is_type_label(label)) => Types::InAnyOrder,
            _ if !op.is_set() && removes_names(op, return_bool) => Types::None,
            _ => match (self.types(lhs), self.types(rhs)) {
                (Types::None, Types::None) => Types::None,
                _ => Types::InAnyOrder,
            },
        }
    }
}

fn is_type_label(name: &str) -> bool {
    matches!(name, "__type__" | "__unit__")
}

/// Whether the result of an operator is another metric.
fn removes_names(op: BinaryOp, return_bool: bool) -> bool {
    return_bool || op.is_arithmetic()
}

/// Functions that group several rows into one.
fn gathers_buckets(call: &Call) -> bool {
    call.function.name.starts_with("histogram_")
}

/// Whether an aggregation gives the same result for rows with and without name, type and unit.
pub(crate) fn is_blind_to_names(op: AggregateOp, grouping: &Grouping) -> bool {
    let metric_labels = [METRIC_NAME, "__type__", "__unit__"];
    let mut labels = grouping.labels.iter();
    !op.selects_rows()
        && op != AggregateOp::CountValues
        && !grouping.without
        && !labels.any(|label| metric_labels.contains(&label.as_str()))
}
