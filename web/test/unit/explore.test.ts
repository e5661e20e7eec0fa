import { expect, test } from 'vitest';
import { drawn, kindOf, selectorOf, suggestions } from '../../src/pages/explore/expression';
import { readView, sortParams } from '../../src/pages/explore/view';
import { readWithin, since } from '../../src/pages/explore/within';
import { extentOf, linePath, type Point } from '../../src/format/sparkline';

const first = (name: string, type: string | null) => suggestions(name, type)[0]!.expr;

test('the query that a metric is most likely wanted for', () => {
  expect(first('up', 'gauge')).toBe('up');
  expect(first('requests', 'counter')).toBe('rate(requests[5m])');
  expect(first('latency_bucket', 'histogram')).toBe('histogram_quantile(0.9, sum by (le) (rate(latency_bucket[5m])))');
  expect(first('latency', 'histogram')).toBe('histogram_quantile(0.9, sum(rate(latency[5m])))');
  expect(first('latency_sum', 'histogram')).toBe('sum(rate(latency_sum[5m])) / sum(rate(latency_count[5m]))');
  expect(first('latency_count', 'summary')).toBe('rate(latency_count[5m])');
  expect(first('latency', 'summary')).toBe('latency');
});

test('without a type the name tells', () => {
  expect(kindOf('requests_total', null)).toBe('counter');
  expect(kindOf('latency_bucket', 'unknown')).toBe('buckets');
  expect(kindOf('temperature', null)).toBe('gauge');
  // A gauge may be called like a counter, if somebody said that it is one.
  expect(kindOf('queue_count', 'gauge')).toBe('gauge');
});

test('names and labels with other characters are quoted', () => {
  expect(first('http.requests', 'counter')).toBe('rate({"http.requests"}[5m])');
  expect(selectorOf('up', 'job', 'a"b')).toBe('up{job="a\\"b"}');
  expect(selectorOf('http.requests', 'http.status', '200')).toBe('{"http.requests", "http.status"="200"}');
});

test('few series are drawn one by one, many as one line', () => {
  expect(drawn('up', 'gauge', 3).expr).toBe('up');
  expect(drawn('up', 'gauge', 300).expr).toBe('avg(up)');
  expect(drawn('requests', 'counter', 300).expr).toBe('sum(rate(requests[5m]))');
});

test('the view of the list', () => {
  expect(readView(new URLSearchParams())).toEqual({ search: '', type: '', unread: false, sort: 'name', down: false, page: 0 });
  expect(readView(new URLSearchParams('search=a&type=gauge&read=never&sort=queries&order=desc&page=3'))).toEqual({ search: 'a', type: 'gauge', unread: true, sort: 'queries', down: true, page: 2 });
  expect(readView(new URLSearchParams('type=x&sort=x&page=-4'))).toMatchObject({ type: '', sort: 'name', page: 0 });
  expect(sortParams({ column: 'name', down: false })).toEqual({ sort: null, order: null, page: null });
  expect(sortParams({ column: 'series', down: true })).toEqual({ sort: 'series', order: 'desc', page: null });
});

test('of which time labels are counted', () => {
  expect(since(readWithin(null), 10_000.5)).toBe(6400);
  expect(since(readWithin('all'), 10_000)).toBeNull();
});

test('a line with a gap', () => {
  const line: Point[] = [[0, 1], [1, NaN], [2, 3], [3, 2], [10, 1]];
  const extent = extentOf([line], 0, 10)!;
  expect(extent).toEqual({ start: 0, end: 10, low: 1, high: 3 });
  expect(linePath(line, extent, 100, 50, 1.5)).toBe('M0 50M20 0L30 25M100 50');
  expect(linePath([[0, 7], [10, 7]], extentOf([[[0, 7]]], 0, 10)!, 100, 50, 20)).toBe('M0 25L100 25');
  expect(extentOf([[[0, NaN]]], 0, 10)).toBeNull();
});
