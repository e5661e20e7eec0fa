//! Traversal of plans.

use super::{
    Arg, Parameter, Plan, RangeInput, Root, Scalar, ScalarKind, ScanUse, Vector, VectorKind,
};

/// A node of a plan that may be changed.
pub(super) enum NodeMut<'p> {
    Vector(&'p mut Vector),
    Scalar(&'p mut Scalar),
    Scan(&'p mut ScanUse),
}

/// Calls `visit` with every node of a plan, inner nodes first.
pub(super) fn each_node(plan: &mut Plan, visit: &mut dyn FnMut(NodeMut<'_>)) {
    for shared in &mut plan.shared {
        vector(&mut shared.input, visit);
    }
    match &mut plan.root {
        Root::Scalar(node) => scalar(node, visit),
        Root::Text(_) => {}
        Root::Vector(node) => vector(node, visit),
        Root::Matrix(input, _) => range_input(input, visit),
    }
}

fn vector(node: &mut Vector, visit: &mut dyn FnMut(NodeMut<'_>)) {
    match &mut node.kind {
        VectorKind::Select { from, .. } => visit(NodeMut::Scan(from)),
        VectorKind::Window { args, input, .. } => {
            range_input(input, visit);
            arguments(args, visit);
        }
        VectorKind::Map { args, input, .. } | VectorKind::Rows { args, input, .. } => {
            vector(input, visit);
            arguments(args, visit);
        }
        VectorKind::Aggregate {
            parameter, input, ..
        } => {
            vector(input, visit);
            if let Some(Parameter::Scalar(parameter)) = parameter {
                scalar(parameter, visit);
            }
        }
        VectorKind::WithScalar {
            vector: input,
            scalar: other,
            ..
        } => {
            vector(input, visit);
            scalar(other, visit);
        }
        VectorKind::Join { lhs, rhs, .. } => {
            vector(lhs, visit);
            vector(rhs, visit);
        }
        VectorKind::Negate(input) | VectorKind::Repeat(input) => vector(input, visit),
        VectorKind::FromScalar(input) => scalar(input, visit),
        VectorKind::Info { input, .. } => vector(input, visit),
        VectorKind::Shared { .. } => {}
    }
    visit(NodeMut::Vector(node));
}

fn scalar(node: &mut Scalar, visit: &mut dyn FnMut(NodeMut<'_>)) {
    match &mut node.kind {
        ScalarKind::Constant(_) | ScalarKind::Time => {}
        ScalarKind::Negate(inner) => scalar(inner, visit),
        ScalarKind::Binary { lhs, rhs, .. } => {
            scalar(lhs, visit);
            scalar(rhs, visit);
        }
        ScalarKind::Extreme { of, .. } => of.iter_mut().for_each(|inner| scalar(inner, visit)),
        ScalarKind::FromVector(inner) => vector(inner, visit),
    }
    visit(NodeMut::Scalar(node));
}

fn arguments(args: &mut [Arg], visit: &mut dyn FnMut(NodeMut<'_>)) {
    for arg in args {
        if let Arg::Scalar(node) = arg {
            scalar(node, visit);
        }
    }
}

fn range_input(input: &mut RangeInput, visit: &mut dyn FnMut(NodeMut<'_>)) {
    match input {
        RangeInput::Scan(from) => visit(NodeMut::Scan(from)),
        RangeInput::Subquery(inner) => vector(inner, visit),
    }
}

/// Calls `visit` with every join of a plan, inner ones first.
pub(super) fn each_join<'p>(plan: &'p Plan, visit: &mut dyn FnMut(&'p Vector)) {
    for shared in &plan.shared {
        joins(&shared.input, visit);
    }
    match &plan.root {
        Root::Scalar(node) => joins_of_scalar(node, visit),
        Root::Text(_) => {}
        Root::Vector(node) => joins(node, visit),
        Root::Matrix(RangeInput::Subquery(inner), _) => joins(inner, visit),
        Root::Matrix(RangeInput::Scan(_), _) => {}
    }
}

fn joins<'p>(node: &'p Vector, visit: &mut dyn FnMut(&'p Vector)) {
    match &node.kind {
        VectorKind::Select { .. } | VectorKind::Shared { .. } => {}
        VectorKind::Window { args, input, .. } => {
            if let RangeInput::Subquery(inner) = input {
                joins(inner, visit);
            }
            joins_of_arguments(args, visit);
        }
        VectorKind::Map { args, input, .. } | VectorKind::Rows { args, input, .. } => {
            joins(input, visit);
            joins_of_arguments(args, visit);
        }
        VectorKind::Aggregate {
            parameter, input, ..
        } => {
            joins(input, visit);
            if let Some(Parameter::Scalar(parameter)) = parameter {
                joins_of_scalar(parameter, visit);
            }
        }
        VectorKind::WithScalar { vector, scalar, .. } => {
            joins(vector, visit);
            joins_of_scalar(scalar, visit);
        }
        VectorKind::Join { lhs, rhs, .. } => {
            joins(lhs, visit);
            joins(rhs, visit);
            visit(node);
        }
        VectorKind::Negate(input) | VectorKind::Repeat(input) => joins(input, visit),
        VectorKind::Info { input, .. } => joins(input, visit),
        VectorKind::FromScalar(input) => joins_of_scalar(input, visit),
    }
}

fn joins_of_scalar<'p>(node: &'p Scalar, visit: &mut dyn FnMut(&'p Vector)) {
    match &node.kind {
        ScalarKind::Constant(_) | ScalarKind::Time => {}
        ScalarKind::Negate(inner) => joins_of_scalar(inner, visit),
        ScalarKind::Binary { lhs, rhs, .. } => {
            joins_of_scalar(lhs, visit);
            joins_of_scalar(rhs, visit);
        }
        ScalarKind::Extreme { of, .. } => of.iter().for_each(|inner| joins_of_scalar(inner, visit)),
        ScalarKind::FromVector(inner) => joins(inner, visit),
    }
}

fn joins_of_arguments<'p>(args: &'p [Arg], visit: &mut dyn FnMut(&'p Vector)) {
    for arg in args {
        if let Arg::Scalar(node) = arg {
            joins_of_scalar(node, visit);
        }
    }
}
