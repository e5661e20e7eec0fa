import { describe, expect, test } from 'vitest';
import { formatBytes } from '../../src/format/bytes';
import { formatAgo, formatDuration, formatElapsed, parseDuration } from '../../src/format/duration';
import { labelName, metricSelector, quote, seriesName } from '../../src/format/labels';
import { formatCount, formatExact, formatShort, parseValue } from '../../src/format/number';
import { formatClock, formatDay, formatTime, parseTime, zoneName } from '../../src/format/time';

describe('numbers', () => {
  test.each([
    [0, '0'],
    [1, '1'],
    [0.5, '0.5'],
    [1234, '1.23k'],
    [999_999, '1M'],
    [1_500_000, '1.5M'],
    [-2_000_000_000, '-2G'],
    [0.000012, '1.2e-5'],
    [1e18, '1e18'],
    [NaN, 'NaN'],
    [Infinity, '+Inf'],
    [-Infinity, '-Inf'],
  ])('%d is short %s', (n, text) => expect(formatShort(n)).toBe(text));

  test('values of PromQL survive', () => {
    for (const text of ['+Inf', '-Inf', 'NaN', '0.1', '-0', '1e-09', '1e+21', '1.5e-300']) expect(formatExact(parseValue(text))).toBe(text);
  });

  test('counts have groups', () => expect(formatCount(1234567)).toBe('1\u202f234\u202f567'));
});

test.each([
  [0, '0 B'],
  [999, '999 B'],
  [1000, '0.98 KiB'],
  [1536, '1.50 KiB'],
  [1024 * 1024, '1.00 MiB'],
  [150 * 1024 ** 3, '150 GiB'],
])('%d bytes are %s', (n, text) => expect(formatBytes(n)).toBe(text));

describe('durations', () => {
  test.each([
    ['1h30m', 5400],
    ['500ms', 0.5],
    ['1w', 604800],
    ['15', 15],
    ['1d', 86400],
  ])('%s is %d s', (text, seconds) => expect(parseDuration(text)).toBe(seconds));

  test.each(['', 'x', '1h1d', '-5m', '1.5h'])('%s is none', (text) => expect(parseDuration(text)).toBeNull());

  test.each([0, 0.25, 1, 90, 3600, 5400, 86400, 10 * 86400, 604800, 365 * 86400])('%d s and back', (seconds) =>
    expect(parseDuration(formatDuration(seconds))).toBe(seconds),
  );

  test.each([
    [0.00000012, '120 ns'],
    [0.00123, '1.23 ms'],
    [59.96, '60 s'],
    [125, '2m 5s'],
    [7200, '2h'],
    [3 * 86400 + 3600, '3d 1h'],
  ])('%d s took %s', (seconds, text) => expect(formatElapsed(seconds)).toBe(text));

  test('ago', () => {
    expect(formatAgo(100, 112)).toBe('12 s ago');
    expect(formatAgo(100, 100.2)).toBe('just now');
    expect(formatAgo(160, 100)).toBe('in 1m');
  });
});

describe('times', () => {
  const at = Date.UTC(2024, 4, 1, 13, 45, 0) / 1000;

  test('UTC', () => {
    expect(formatTime(at, 'utc')).toBe('2024-05-01 13:45:00');
    expect(formatTime(at + 0.25, 'utc')).toBe('2024-05-01 13:45:00.250');
    expect(formatDay(at, 'utc')).toBe('2024-05-01');
    expect(formatClock(at, 'utc')).toBe('13:45');
    expect(formatClock(at + 5, 'utc')).toBe('13:45:05');
    expect(zoneName(at, 'utc')).toBe('UTC');
  });

  test.each(['2024-05-01 13:45', '2024-05-01T13:45:00Z', '2024-05-01 15:45+02:00', String(at), String(at * 1000)])('%s is understood', (text) =>
    expect(parseTime(text, 'utc', 0)).toBe(at),
  );

  test('what is written is read, in both zones', () => {
    for (const zone of ['utc', 'local'] as const) expect(parseTime(formatTime(at + 0.5, zone), zone, 0)).toBe(at + 0.5);
  });

  test.each([
    ['now', 1000],
    ['now-1m', 940],
    ['-1m', 940],
    ['now + 1m', 1060],
  ])('%s is relative', (text, seconds) => expect(parseTime(text, 'utc', 1000)).toBe(seconds));

  test.each(['', 'yesterday', '2024-13-01', '2024-05-01 25:00', 'now-x'])('%s is none', (text) => expect(parseTime(text, 'utc', 0)).toBeNull());
});

describe('labels', () => {
  test('series', () => {
    expect(seriesName({ __name__: 'up', job: 'a', instance: 'b"c' })).toBe('up{instance="b\\"c", job="a"}');
    expect(seriesName({ __name__: 'up' })).toBe('up');
    expect(seriesName({})).toBe('{}');
    expect(seriesName({ __name__: 'http.status', 'a.b': 'x\n' })).toBe('{"http.status", "a.b"="x\\n"}');
  });

  test('parts', () => {
    expect(quote('a\\b')).toBe('"a\\\\b"');
    expect(labelName('job')).toBe('job');
    expect(labelName('a.b')).toBe('"a.b"');
    expect(metricSelector('up')).toBe('up');
    expect(metricSelector('a b')).toBe('{"a b"}');
  });
});
