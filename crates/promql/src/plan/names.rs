//! Which metric names rows can have, where names are removed at once.
//!
//! A function takes the metric name away, and series that differed by nothing else become one series,
//! which is an error if two of them have a value at the same step. To notice it all rows have to be
//! there at once. Most selectors name one metric, so that hardly anything can meet and rows just pass:
//! the plan says where that is so. Type and unit go with the name, and series of one metric may differ
//! by nothing else.

use icecore_model::{METRIC_NAME, MatchOp};

use super::{Arg, Grouping, Parameter, Picked, Plan, RangeInput, ScanUse, Vector, VectorKind};
use crate::parse::{AggregateOp, BinaryOp, Call, Cardinality, VectorMatching};

/// What a node takes away from the labels of its rows, and what may come of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Removal {
    pub(crate) labels: RemovedLabels,
    pub(crate) meeting: Meeting,
    pub(crate) collisions: Collisions,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RemovedLabels {
    /// Name, type and unit.
    Metric,
    /// The name alone, as functions of a native histogram do in Prometheus.
    Name,
}

/// Which rows can be equal afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meeting {
    Never,
    /// Rows of one metric that come in the order of their labels, where they have other types or units.
    OfTypes,
    OfAny,
}

/// When rows that are equal afterwards are an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Collisions {
    /// Where they have a value at the same step.
    AtSameStep,
    /// Always.
    Anywhere,
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
    /// What a node takes away; `None` where labels stay as they are or are new ones.
    pub(crate) fn removal(&self, node: &Vector) -> Option<Removal> {
        let mut labels = RemovedLabels::Metric;
        let mut collisions = Collisions::AtSameStep;
        let (names, types) = match &node.kind {
            VectorKind::Select { from, what, .. } => match what {
                Picked::Timestamp | Picked::StartTimestamp => {
                    (self.names_of_scan(from), Types::InOrder)
                }
                Picked::Value | Picked::Smoothed => return None,
            },
            // It only asks whether there is anything.
            VectorKind::Window { call, .. } if call.function.name == "absent_over_time" => {
                return None;
            }
            VectorKind::Window {
                function, input, ..
            } => {
                collisions = Collisions::Anywhere;
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
        let meeting = match (names, types) {
            (Names::Any, _) | (_, Types::InAnyOrder) => Meeting::OfAny,
            (_, Types::InOrder) => Meeting::OfTypes,
            (_, Types::None) => Meeting::Never,
        };
        Some(Removal {
            labels,
            meeting,
            collisions,
        })
    }

    /// Whether a node reads, itself, series of one metric only.
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
            VectorKind::Select { from, what, .. } => match what {
                Picked::Timestamp | Picked::StartTimestamp => Names::None,
                Picked::Value | Picked::Smoothed => self.names_of_scan(from),
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
        if op.chooses() || by_name {
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
            VectorKind::Select { what, .. } => match what {
                Picked::Timestamp | Picked::StartTimestamp => Types::None,
                Picked::Value | Picked::Smoothed => Types::InOrder,
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
                    _ if op.chooses() || grouping.without || listed => {
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

/// Whether what an operator yields is another metric.
fn removes_names(op: BinaryOp, return_bool: bool) -> bool {
    return_bool || op.is_arithmetic()
}

/// Functions that make one row of several.
fn gathers_buckets(call: &Call) -> bool {
    call.function.name.starts_with("histogram_")
}

/// Whether an aggregation makes the same of rows with and without name, type and unit.
pub(crate) fn is_blind_to_names(op: AggregateOp, grouping: &Grouping) -> bool {
    let metric_labels = [METRIC_NAME, "__type__", "__unit__"];
    let mut labels = grouping.labels.iter();
    !op.chooses()
        && op != AggregateOp::CountValues
        && !grouping.without
        && !labels.any(|label| metric_labels.contains(&label.as_str()))
}
