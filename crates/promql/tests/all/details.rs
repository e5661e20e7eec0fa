//! Details of Prometheus that its own scripts do not cover; each was compared with 3.14 or
//! 3.15.

use icecore_promql::Engine;
use icecore_promql::script::run_file;

use crate::conformance::script_engine;

#[track_caller]
fn check(engine: &Engine, script: &str) {
    let report = run_file("details", script, engine);
    assert!(report.failures.is_empty(), "{}", report.render());
    assert!(report.evals > 0, "nothing was asked");
}

#[track_caller]
fn names_at_once(script: &str) {
    check(&Engine::default(), script);
}

/// Type and unit are removed with the name, so series that differ in nothing else become one.
#[test]
fn series_that_differ_by_their_type_meet() {
    names_at_once(
        r#"
load 1m
  speed{host="a"} 1 2 3 4 5 6
  speed{__type__="gauge", host="a"} _ _ _ _ 5 6
  speed{__type__="gauge", host="b"} 1 2 3 4 5 6
  bare 1 2 3 4
  bare{__type__="gauge"} 1 2 3 4
  other{__type__="gauge", host="a"} 1x5
  other{__unit__="m", host="b"} 1x5
  early{__type__="gauge", host="a"} 1 2 stale
  early{host="a"} _ _ 3 4

eval instant at 2m sum(rate(speed[2m]))
  {} 0.03333333333333333

eval instant at 5m sum(rate(speed[2m]))
  expect fail msg: vector cannot contain metrics with the same labelset

eval instant at 5m sum(abs(speed))
  expect fail msg: vector cannot contain metrics with the same labelset

eval instant at 5m topk(1, speed * 2)
  expect fail msg: vector cannot contain metrics with the same labelset

eval instant at 3m count(-bare)
  expect fail msg: vector cannot contain metrics with the same labelset

eval instant at 5m sum by (host) (speed)
  {host="a"} 12
  {host="b"} 6

eval instant at 5m sum by (host) (speed > 1)
  {host="a"} 12
  {host="b"} 6

eval instant at 5m count(abs(sum without (job) (speed)))
  expect fail msg: vector cannot contain metrics with the same labelset

eval instant at 3m sum(abs(sort(other)))
  {} 2

eval range from 0 to 3m step 1m sum(abs(early))
  {} 1 2 3 4

eval range from 0 to 3m step 1m sum(count_over_time(early[1m]))
  expect fail msg: vector cannot contain metrics with the same labelset
"#,
    );
}

/// Counter resets are detected when only counts and sums are read: from sample to sample, but not
/// across the gap between the windows of two steps. The storage gives no hint for the first ones.
#[test]
fn resets_are_looked_for_where_samples_are_read() {
    names_at_once(
        r#"
load 1m
  g {{count:1 sum:1 buckets:[1]}}+{{count:1 sum:1 buckets:[1]}}x6
  h {{count:5 sum:5 buckets:[5]}} {{count:6 sum:6 buckets:[6]}} {{count:1 sum:1 buckets:[1]}} {{count:2 sum:2 buckets:[2]}} {{count:3 sum:3 buckets:[3]}} {{count:1 sum:1 buckets:[1]}} {{count:2 sum:2 buckets:[2]}}

eval instant at 2m histogram_count(sum_over_time(h[2m]))
  expect warn msg: PromQL warning: conflicting counter resets during histogram aggregation (1:31)
  {} 7

eval instant at 3m histogram_count(sum_over_time(h[2m]))
  expect warn msg: PromQL warning: conflicting counter resets during histogram aggregation (1:31)
  {} 3

eval instant at 3m histogram_count(sum_over_time(h[119s]))
  expect no_warn
  {} 3

eval range from 3m to 6m step 3m histogram_count(sum_over_time(h[119s]))
  expect no_warn
  {} 3 3

eval range from 3m to 6m step 3m histogram_count(sum_over_time(h[3m]))
  expect warn msg: PromQL warning: conflicting counter resets during histogram aggregation (1:31)
  {} 9 6

eval instant at 2m histogram_count(sum({__name__=~"g|h"}))
  expect warn msg: PromQL warning: conflicting counter resets during histogram aggregation (1:21)
  {} 4

eval instant at 2m histogram_count(sum({__name__=~"g|h"} </ 100))
  expect no_warn
  {} 4
"#,
    );
}

/// A grid of one step is not a range, whatever it is part of.
#[test]
fn one_moment_is_no_range() {
    names_at_once(
        r#"
load 1m
  m 1 2 3

eval range from 1m to 1m step 1m vector(step())
  {} 0

eval range from 1m to 1m step 1m sort(m)
  expect no_warn
  m 2

eval range from 0 to 30s step 1m sort(m)
  expect warn msg: PromQL warning: sort is ineffective for range queries since results are always ordered by labels (1:1)
  m 1

eval range from 0 to 30s step 1m sort(m @ 60)
  expect no_warn
  m 2

eval range from 0 to 1m step 1m sort(timestamp(m @ 60))
  expect no_warn
  {} 60 60

eval instant at 90s count_over_time(sort(m)[1m:1m])
  expect warn msg: PromQL warning: sort is ineffective for range queries since results are always ordered by labels (1:17)
  {} 1
"#,
    );
}

/// Outer expressions are evaluated last, and an annotation has its last position.
#[test]
fn notes_of_parameters_come_after_those_inside() {
    names_at_once(
        r#"
load 1m
  m 1 2 3

eval instant at 1m quantile(1.5, quantile(1.5, m))
  expect warn msg: PromQL warning: quantile value should be between 0 and 1, got 1.5 (1:10)
  {} +Inf

eval instant at 1m quantile_over_time(1.5, quantile(1.5, m)[1m:1m])
  expect warn msg: PromQL warning: quantile value should be between 0 and 1, got 1.5 (1:20)
  {} +Inf
"#,
    );
}

/// Rows of info metrics are not enriched, even if the query only excludes some of them.
#[test]
fn info_of_info_metrics() {
    check(
        &script_engine(),
        r#"
load 1m
  metric{instance="a", job="1"} 1
  target_info{instance="a", job="1", data="x"} 1
  build_info{instance="a", job="1", branch="main"} 1
  metric{instance="b"} 2
  target_info{instance="b", data="y"} 1

eval instant at 0 info(build_info, {__name__!="other_info"})
  build_info{instance="a", job="1", branch="main"} 1

eval instant at 0 info(metric)
  metric{instance="a", job="1", data="x"} 1
  metric{instance="b", data="y"} 2

eval instant at 0 info(metric{instance="b"})
  metric{instance="b", data="y"} 2
"#,
    );
}
