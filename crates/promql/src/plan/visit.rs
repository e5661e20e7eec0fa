//! Walking a plan.

use super::{
    Arg, Parameter, Plan, RangeInput, Root, Scalar, ScalarKind, ScanUse, Vector, VectorKind,
};

/// A place in a plan that may be changed.
pub(super) enum Place<'p> {
    Vector(&'p mut Vector),
    Scalar(&'p mut Scalar),
    Scan(&'p mut ScanUse),
}

/// Shows every node of a plan to `see`, inner nodes first.
pub(super) fn each_place(plan: &mut Plan, see: &mut dyn FnMut(Place<'_>)) {
    for shared in &mut plan.shared {
        vector(&mut shared.input, see);
    }
    match &mut plan.root {
        Root::Scalar(node) => scalar(node, see),
        Root::Text(_) => {}
        Root::Vector(node) => vector(node, see),
        Root::Matrix(input, _) => range_input(input, see),
    }
}

fn vector(node: &mut Vector, see: &mut dyn FnMut(Place<'_>)) {
    match &mut node.kind {
        VectorKind::Select { from, .. } => see(Place::Scan(from)),
        VectorKind::Window { args, input, .. } => {
            range_input(input, see);
            arguments(args, see);
        }
        VectorKind::Map { args, input, .. } | VectorKind::Rows { args, input, .. } => {
            vector(input, see);
            arguments(args, see);
        }
        VectorKind::Aggregate {
            parameter, input, ..
        } => {
            vector(input, see);
            if let Some(Parameter::Scalar(parameter)) = parameter {
                scalar(parameter, see);
            }
        }
        VectorKind::WithScalar {
            vector: input,
            scalar: other,
            ..
        } => {
            vector(input, see);
            scalar(other, see);
        }
        VectorKind::Join { lhs, rhs, .. } => {
            vector(lhs, see);
            vector(rhs, see);
        }
        VectorKind::Negate(input) | VectorKind::Repeat(input) => vector(input, see),
        VectorKind::FromScalar(input) => scalar(input, see),
        VectorKind::Info { input, .. } => vector(input, see),
        VectorKind::Shared { .. } => {}
    }
    see(Place::Vector(node));
}

fn scalar(node: &mut Scalar, see: &mut dyn FnMut(Place<'_>)) {
    match &mut node.kind {
        ScalarKind::Constant(_) | ScalarKind::Time => {}
        ScalarKind::Negate(inner) => scalar(inner, see),
        ScalarKind::Binary { lhs, rhs, .. } => {
            scalar(lhs, see);
            scalar(rhs, see);
        }
        ScalarKind::Extreme { of, .. } => of.iter_mut().for_each(|inner| scalar(inner, see)),
        ScalarKind::FromVector(inner) => vector(inner, see),
    }
    see(Place::Scalar(node));
}

fn arguments(args: &mut [Arg], see: &mut dyn FnMut(Place<'_>)) {
    for arg in args {
        if let Arg::Scalar(node) = arg {
            scalar(node, see);
        }
    }
}

fn range_input(input: &mut RangeInput, see: &mut dyn FnMut(Place<'_>)) {
    match input {
        RangeInput::Scan(from) => see(Place::Scan(from)),
        RangeInput::Subquery(inner) => vector(inner, see),
    }
}

/// Shows every join of a plan to `see`, inner ones first.
pub(super) fn each_join<'p>(plan: &'p Plan, see: &mut dyn FnMut(&'p Vector)) {
    for shared in &plan.shared {
        joins(&shared.input, see);
    }
    match &plan.root {
        Root::Scalar(node) => joins_of_scalar(node, see),
        Root::Text(_) => {}
        Root::Vector(node) => joins(node, see),
        Root::Matrix(RangeInput::Subquery(inner), _) => joins(inner, see),
        Root::Matrix(RangeInput::Scan(_), _) => {}
    }
}

fn joins<'p>(node: &'p Vector, see: &mut dyn FnMut(&'p Vector)) {
    match &node.kind {
        VectorKind::Select { .. } | VectorKind::Shared { .. } => {}
        VectorKind::Window { args, input, .. } => {
            if let RangeInput::Subquery(inner) = input {
                joins(inner, see);
            }
            joins_of_arguments(args, see);
        }
        VectorKind::Map { args, input, .. } | VectorKind::Rows { args, input, .. } => {
            joins(input, see);
            joins_of_arguments(args, see);
        }
        VectorKind::Aggregate {
            parameter, input, ..
        } => {
            joins(input, see);
            if let Some(Parameter::Scalar(parameter)) = parameter {
                joins_of_scalar(parameter, see);
            }
        }
        VectorKind::WithScalar { vector, scalar, .. } => {
            joins(vector, see);
            joins_of_scalar(scalar, see);
        }
        VectorKind::Join { lhs, rhs, .. } => {
            joins(lhs, see);
            joins(rhs, see);
            see(node);
        }
        VectorKind::Negate(input) | VectorKind::Repeat(input) => joins(input, see),
        VectorKind::Info { input, .. } => joins(input, see),
        VectorKind::FromScalar(input) => joins_of_scalar(input, see),
    }
}

fn joins_of_scalar<'p>(node: &'p Scalar, see: &mut dyn FnMut(&'p Vector)) {
    match &node.kind {
        ScalarKind::Constant(_) | ScalarKind::Time => {}
        ScalarKind::Negate(inner) => joins_of_scalar(inner, see),
        ScalarKind::Binary { lhs, rhs, .. } => {
            joins_of_scalar(lhs, see);
            joins_of_scalar(rhs, see);
        }
        ScalarKind::Extreme { of, .. } => of.iter().for_each(|inner| joins_of_scalar(inner, see)),
        ScalarKind::FromVector(inner) => joins(inner, see),
    }
}

fn joins_of_arguments<'p>(args: &'p [Arg], see: &mut dyn FnMut(&'p Vector)) {
    for arg in args {
        if let Arg::Scalar(node) = arg {
            joins_of_scalar(node, see);
        }
    }
}
