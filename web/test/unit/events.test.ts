import { describe, expect, test } from 'vitest';
import type { Attribute, Counted } from '../../src/api/events';
import { decodeCondition, encodeCondition, flatten, shown, toBody, type Condition } from '../../src/pages/events/conditions';
import { countLines, countPromql, intervalFor } from '../../src/pages/events/counts';
import { dimensionsOf, metricsOf } from '../../src/pages/events/metrics';
import { examples } from '../../src/pages/events/sql-examples';

const hostile = '<img src=x onerror=alert(1)>';
const attribute = (path: string, type: string, indexed: boolean): Attribute => ({ path, type, indexed, required: false });
const attributes = [attribute('order.channel', 'string', true), attribute('order.items', 'integer', true), attribute('order.total', 'number', false)];

describe('conditions', () => {
  test('indexed attributes are matched, others filtered', () => {
    const conditions: Condition[] = [
      { name: 'order.channel', op: '=', value: '42' },
      { name: 'order.items', op: '>=', value: '3' },
      { name: 'order.total', op: '>', value: '40.5' },
      { name: 'outcome', op: '!=', value: 'SUCCESS' },
      { name: 'free', op: 'exists', value: '' },
      { name: '', op: '=', value: 'left out' },
    ];
    expect(toBody(conditions, false, attributes)).toEqual({
      match: {
        and: [
          { attribute: 'order.channel', op: '=', value: '42' },
          { attribute: 'order.items', op: '>=', value: 3 },
        ],
      },
      filter: {
        and: [
          { path: 'attributes.order.total', op: '>', value: 40.5 },
          { path: 'outcome', op: '!=', value: 'SUCCESS' },
          { path: 'attributes.free', op: 'exists' },
        ],
      },
    });
    expect(toBody([], false, attributes)).toEqual({});
  });

  test('with one of them enough, all are one filter', () => {
    const conditions: Condition[] = [
      { name: 'order.channel', op: 'in', value: 'web, app' },
      { name: 'free', op: '=', value: '"42"' },
      { name: 'flag', op: '=', value: 'true' },
    ];
    expect(toBody(conditions, true, attributes)).toEqual({
      filter: {
        or: [
          { path: 'attributes.order.channel', op: 'in', value: ['web', 'app'] },
          { path: 'attributes.free', op: '=', value: '42' },
          { path: 'attributes.flag', op: '=', value: true },
        ],
      },
    });
  });

  test('survive the address', () => {
    const condition: Condition = { name: hostile, op: '=', value: 'a b&c' };
    expect(decodeCondition(encodeCondition(condition))).toEqual(condition);
    for (const broken of ['', '{}', '[1]', '["a","drop","b"]']) expect(decodeCondition(broken)).toBeNull();
  });

  test('nested attributes are paths', () => {
    expect(flatten({ a: { b: 1, c: { d: [2] } }, e: null })).toEqual([['a.b', 1], ['a.c.d', [2]], ['e', null]]);
    expect(shown({ a: 1 })).toBe('{"a":1}');
  });
});

test('metrics are found by their series', () => {
  const names = ['orders_total', 'orders:5s', 'orders:1m', 'lat_bucket', 'lat_sum', 'lat_count', 'lat_bucket:5s', 'lat_sum:5s', 'lat_count:5s', 'stock', 'stock:1h', 'events_stored_total', 'page_count', 'page_count:7d'];
  expect(metricsOf(names).map(({ kind, name }) => `${kind} ${name}`)).toEqual(['histogram lat', 'counter orders', 'gauge page_count', 'gauge stock']);
  expect(dimensionsOf(['__name__', 'service', 'order_channel', 'other'], ['order.channel'])).toEqual(['order.channel', 'other']);
});

describe('counters', () => {
  test('intervals suit the range', () => {
    expect(intervalFor(300)).toBe('5s');
    expect(intervalFor(3600)).toBe('30s');
    expect(intervalFor(7 * 86400)).toBe('1h');
    expect(intervalFor(100 * 365 * 86400)).toBe('7d');
  });

  test('groups are lines', () => {
    const data = { from: ['2026-11-09T10:00:00Z', '2026-11-09T10:00:00Z'], channel: ['web', null], count: [2, 3] };
    const answer: Counted = { window: '1m', total: 1, count: 1, data: { intervals: { schema: { fields: [] }, data } } };
    const at = Date.UTC(2026, 10, 9, 10) / 1000;
    expect(countLines(answer, ['channel'], 'orders')).toEqual([
      { name: 'channel=web', points: [[at, 2]] },
      { name: 'channel=', points: [[at, 3]] },
    ]);
  });

  test('PromQL', () => {
    expect(countPromql('orders', 'shop', 'a"b', ['order.channel'], '1m')).toBe('sum by (order_channel) (increase(orders_total{service="shop", event_type="a\\"b"}[1m]))');
  });
});

test('examples of SQL quote names', () => {
  const [, , own] = examples([{ service: 'a"b', name: 'c', retentionSeconds: 1, attributes: [attribute('x', 'string', true)], dimensions: [] }]);
  expect(own!.sql).toContain('FROM "a""b"."c"');
  expect(examples([])).toHaveLength(2);
});
