import { expect, test } from 'vitest';
import type { Bucket, Policy } from '../../src/api/storage';
import { parseExposition, sumOf } from '../../src/format/exposition';
import { kindText, resultText } from '../../src/pages/storage/jobs';
import { churn, compare } from '../../src/pages/storage/compare';
import { dayBounds, isDay, shiftDay } from '../../src/pages/storage/day';
import { expiries, goingWithin } from '../../src/pages/storage/expiry';
import { boxAt, layOut, ticks, totalsOf } from '../../src/pages/storage/lanes';
import { rateOf, requestRows } from '../../src/pages/storage/rates';

const bucket = (start: number, hours: number, more: Partial<Bucket> = {}): Bucket => ({
  start,
  hours,
  resolution: 'raw',
  state: 'live',
  series: 1,
  samples: 100,
  bytes: 200,
  ...more,
});

test('what a run has done', () => {
  const nothing = { coarsened: 0, retired: 0, folded: 0, repaired: 0, rolledUp: 0, merged: 0, remnants: 0, culled: 0, bytesRead: 0, bytesWritten: 0, seconds: 0.5, quarantined: [], skipped: [] };
  expect(resultText(nothing)).toBe('There was nothing to do (500 ms, 0 B read and 0 B written).');
  expect(resultText({ ...nothing, coarsened: 1, retired: 6 })).toMatch(/^Buckets: 1 built, 6 replaced \(/);
  expect(kindText('coarsen')).toBe('Building a larger bucket');
  // A job of a newer server.
  expect(kindText('polish')).toBe('polish');
});

test('days of the calendar', () => {
  expect(shiftDay('2024-02-28', 1)).toBe('2024-02-29');
  expect(shiftDay('2024-01-01', -1)).toBe('2023-12-31');
  expect(dayBounds('1970-01-02', 'utc')).toEqual({ start: 86400, end: 172799.999 });
  expect([isDay('2024-05-01'), isDay('2024-15-01'), isDay('x'), isDay(null)]).toEqual([true, false, false, false]);
});

test('rankings of two days', () => {
  const day = [{ name: 'a', value: 10 }, { name: 'b', value: 5 }];
  const before = [{ name: 'a', value: 8 }, { name: 'c', value: 3 }];
  const both = [{ name: 'a', value: 12 }, { name: 'b', value: 5 }, { name: 'c', value: 3 }];
  expect(compare(day, before, both, 10)).toEqual([
    { name: 'a', value: 10, before: 8, added: 4 },
    { name: 'b', value: 5, before: 0, added: 5 },
    { name: 'c', value: 0, before: 3, added: 0 },
  ]);
  // Rankings that are cut say nothing of what they do not name.
  expect(compare(day, before, null, 2)).toEqual([
    { name: 'a', value: 10, before: 8, added: null },
    { name: 'b', value: 5, before: null, added: null },
  ]);
});

test('churn out of three counts', () => {
  expect(churn(10, 8, 12)).toEqual({ added: 4, gone: 2 });
});

test('a lane per resolution, areas are sizes', () => {
  const lanes = layOut([bucket(3600, 1, { resolution: '1h', bytes: null }), bucket(0, 1, { bytes: 400 }), bucket(3600, 4, { bytes: 400 })], 0, 7200);
  expect(lanes.map((lane) => lane.resolution)).toEqual(['raw', '1h']);
  expect(lanes[0]!.boxes.map(({ x, width }) => [x, width])).toEqual([[0, 0.5], [0.5, 0.5]]);
  expect(lanes[0]!.boxes[0]!.height).toBe(1);
  expect(lanes[0]!.boxes[1]!.height).toBeCloseTo(0.12 + 0.88 / 4);
  expect(lanes[1]!.boxes[0]!.height).toBeCloseTo(0.12);
  expect(lanes[1]!.total).toMatchObject({ buckets: 1, bytesPerSample: null });
});

test('only known sizes tell how large a sample is', () => {
  expect(totalsOf([bucket(0, 1), bucket(0, 1, { bytes: null }), bucket(0, 1, { samples: null })]).bytesPerSample).toBe(2);
});

test('pointing at boxes', () => {
  const { boxes } = layOut([bucket(0, 4), bucket(3600, 1), bucket(5 * 3600, 1)], 0, 10 * 3600)[0]!;
  expect(boxAt(boxes, 0.15, 0.01)?.bucket.start).toBe(3600);
  expect(boxAt(boxes, 0.05, 0.01)?.bucket.start).toBe(0);
  expect(boxAt(boxes, 0.495, 0.01)?.bucket.start).toBe(5 * 3600);
  expect(boxAt(boxes, 0.9, 0.01)).toBeNull();
});

test('marks at round times', () => {
  expect(ticks(1800, 6 * 3600, 'utc', 6).map((tick) => tick.text)).toEqual(['01:00', '02:00', '03:00', '04:00', '05:00']);
  expect(ticks(0, 4 * 86400, 'utc', 6).map((tick) => tick.text)).toEqual(['1970-01-01', '1970-01-02', '1970-01-03', '1970-01-04']);
});

test('what goes when', () => {
  const policy: Policy = {
    levels: [
      { resolution: 'raw', retain: '1h', retainMs: 3_600_000 },
      { resolution: '1h', retain: 'inf', retainMs: null },
    ],
    overrides: [],
    rollupDelay: '2h',
    lateData: 'reject',
  };
  const list = expiries([bucket(7200, 1), bucket(0, 1), bucket(0, 1, { resolution: '1h' })], policy);
  expect(list.map(({ bucket, at }) => [bucket.start, at])).toEqual([[0, 7200], [7200, 14400]]);
  expect(expiries([bucket(0, 1)], null)).toEqual([]);
  expect(goingWithin(list, 7000, [300, 86400])).toEqual([{ within: 300, buckets: 1, bytes: 200 }, { within: 86400, buckets: 2, bytes: 400 }]);
});

const page = (puts: number, gets: number) =>
  parseExposition(`# TYPE slatedb_object_store_request_count_total counter
slatedb_object_store_request_count_total{api="put",op="put",component="db",store_type="main"} ${puts}
slatedb_object_store_request_count_total{api="put",op="put",component="db",store_type="wal"} 4
slatedb_object_store_request_count_total{api="get",op="get",component="gc",store_type="main"} ${gets}
slatedb_object_store_request_duration_seconds_sum{api="put",component="db"} ${puts * 0.5}
slatedb_object_store_request_duration_seconds_count{api="put",component="db"} ${puts}
other{text="a\\"b\\\\c\\nd{}"} +Inf
`);

test('the text format', () => {
  expect(page(1, 0).at(-1)).toEqual({ name: 'other', labels: { text: 'a"b\\c\nd{}' }, value: Infinity });
  expect(sumOf(page(6, 0), 'slatedb_object_store_request_count_total', { api: 'put' })).toBe(10);
  expect(sumOf([], 'missing')).toBeUndefined();
});

test('rates from two reads', () => {
  const now = { at: 110, samples: page(26, 0) };
  const before = { at: 100, samples: page(6, 0) };
  expect(requestRows(now, before)).toEqual([{ api: 'put', component: 'db', total: 30, errors: 0, rate: 2, seconds: 0.5 }]);
  expect(requestRows(now, null)[0]).toMatchObject({ rate: null, seconds: 0.5 });
  // After a restart counters are smaller than before.
  expect(rateOf(before, { at: 90, samples: page(26, 0) }, 'slatedb_object_store_request_count_total')).toBeNull();
});
