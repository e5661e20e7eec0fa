import { describe, expect, test } from 'vitest';
import { align, lastValue } from '../../src/format/align';
import { crumbs, uidsOf } from '../../src/pages/opentsdb/branch-path';
import { nameOf, toLines, toNotes } from '../../src/pages/opentsdb/points';
import { formatDownsample, formatM, newSubQuery, parseDownsample, parseM, toJson } from '../../src/pages/opentsdb/sub-query';
import { parseTags } from '../../src/pages/opentsdb/tags';

describe('sub queries', () => {
  test.each([
    'sum:sys.cpu',
    'avg:1m-avg:sys.cpu{host=wildcard(*)}',
    'none:1h-max-zero:rate:sys.cpu{host=literal_or(a|b),dc=wildcard(l*)}{rack=regexp(a,b)}',
    'sum:rate{counter}:m',
    'sum:rate{dropcounter,1000,5}:explicit_tags:m{}{host=not_key()}',
    'sum:job:orders:rate5m',
    'sum:<img src=x onerror=alert(1)>',
  ])('%s is read and written', (m) => expect(formatM(parseM(m))).toBe(m));

  test('short filters', () => {
    expect(parseM('sum:m{host=*}{dc=a|b}').filters).toEqual([
      { tagk: 'host', type: 'wildcard', filter: '*', groupBy: true },
      { tagk: 'dc', type: 'literal_or', filter: 'a|b', groupBy: false },
    ]);
  });

  test('a document', () => {
    expect(toJson(parseM('sum:1m-avg:rate{counter,100}:m{host=*}'))).toEqual({
      aggregator: 'sum',
      metric: 'm',
      downsample: '1m-avg',
      rate: true,
      rateOptions: { counter: true, dropResets: false, counterMax: 100 },
      explicitTags: false,
      filters: [{ tagk: 'host', type: 'wildcard', filter: '*', groupBy: true }],
    });
    expect(toJson({ ...newSubQuery, metric: 'm', filters: [{ tagk: '', type: 'wildcard', filter: '*', groupBy: true }] })).toMatchObject({ rate: false, filters: [] });
  });

  test('downsamplers', () => {
    expect(parseDownsample('1m-avg-zero')).toEqual({ interval: '1m', aggregator: 'avg', fill: 'zero' });
    expect(formatDownsample({ interval: '1m', aggregator: '', fill: '' })).toBe('1m-avg');
    expect(formatDownsample({ interval: '', aggregator: 'avg', fill: 'zero' })).toBe('');
  });
});

describe('answers', () => {
  const series = { metric: 'm', tags: { b: '2', a: '1' }, aggregateTags: [], dps: [[1000_000_000_000, 1], [1000_000_060_000, 'NaN']] as [number, number | string][] };

  test('are lines in seconds with gaps', () => {
    expect(toLines([series, { ...series, dps: [] }])).toEqual([{ name: 'm a=1 b=2', points: [[1e9, 1], [1e9 + 60, null]] }]);
    expect(nameOf({ metric: 'm', tags: {} })).toBe('m');
  });

  test('have each annotation once', () => {
    const note = { tsuid: '', description: 'deployed', notes: '', startTime: 1_000_000_000, endTime: 0 };
    const answer = [series, series].map((one) => ({ ...one, globalAnnotations: [note] }));
    expect(toNotes(answer)).toEqual([note]);
  });
});

test('lines share an axis', () => {
  const { times, columns } = align([
    { name: 'a', points: [[1, 10], [3, null]] },
    { name: 'b', points: [[2, 5], [3, Infinity]] },
  ]);
  expect(times).toEqual([1, 2, 3]);
  expect(columns).toEqual([[10, undefined, null], [undefined, 5, null]]);
  expect(lastValue([[1, 4], [2, null]])).toBe(4);
  expect(lastValue([])).toBeNull();
});

test('the path to a branch', () => {
  expect(crumbs({ branchId: '00010001BECD000181A8', path: { '0': 'ROOT', '1': 'sys', '2': 'cpu' } })).toEqual([
    { id: '0001', name: 'ROOT' },
    { id: '00010001BECD', name: 'sys' },
    { id: '00010001BECD000181A8', name: 'cpu' },
  ]);
});

test('ids of series have names in them', () => {
  expect(uidsOf('000001000002000003').map(({ type, uid }) => `${type} ${uid}`)).toEqual(['metric 000001', 'tagk 000002', 'tagv 000003']);
});

test('tags', () => {
  expect(parseTags('host=a, dc  =b')).toEqual([
    { key: 'host', value: 'a' },
    { key: 'dc', value: '*' },
    { key: '*', value: 'b' },
  ]);
});
