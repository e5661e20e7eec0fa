//! Tests of the whole front end.

mod conformance;
