import { describe, expect, test } from 'vitest';
import { decodeColumns, isAbsent, type ColumnMatrix } from '../../src/api/columns';
import type { Matrix, Sample, Series } from '../../src/api/query';
import type { Labels } from '../../src/format/labels';
import { heatColor, seriesColor } from '../../src/format/colors';
import { toCsv, toJson } from '../../src/pages/query/csv';
import { autoStep, gridOf, stepOf } from '../../src/pages/query/grid';
import { added, searchHistory } from '../../src/pages/query/history';
import { commonLabels, differingLabels, shortName } from '../../src/pages/query/naming';
import { placeOf, withoutPlace } from '../../src/pages/query/position';
import { extent, nearest, stack, summary, timesOf, toLines } from '../../src/pages/query/series';
import { yRange } from '../../src/pages/query/y-range';

const grid = { start: 100, end: 130, step: 10 };

describe('the grid', () => {
  test('has a round step and not too many points', () => {
    expect(autoStep(3600)).toBe(10);
    expect(autoStep(86400)).toBe(300);
    expect(autoStep(365 * 86400)).toBe(86400);
    for (const range of [1, 60, 3600, 86400, 1e7, 1e9]) expect(range / autoStep(range)).toBeLessThanOrEqual(480);
  });

  test('is never finer than the server allows', () => expect(86400 / stepOf('1s', 86400)).toBeLessThanOrEqual(11_000));

  test('ends now; while it is refreshed, at a multiple of the step', () => {
    const span = { range: 3600, end: null };
    expect(gridOf(span, '', 100_000.2, false)).toEqual({ start: 96_401, end: 100_001, step: 10 });
    expect(gridOf(span, '', 100_001, true)).toEqual({ start: 96_400, end: 100_000, step: 10 });
    expect(gridOf(span, '', 100_001, true)).toEqual(gridOf(span, '', 100_009, true));
  });

  test('ends at the time that was asked for', () => expect(gridOf({ range: 60, end: 1003.5 }, '15s', 0, true)).toEqual({ start: 943.5, end: 1003.5, step: 15 }));

  test('times', () => {
    expect(timesOf(grid)).toEqual([100, 110, 120, 130]);
    expect(timesOf({ start: 0.1, end: 0.7, step: 0.2 })).toEqual([0.1, 0.3, 0.5, 0.7]);
  });
});

describe('names of series', () => {
  const all: Labels[] = [
    { __name__: 'up', job: 'a', instance: '1' },
    { __name__: 'up', job: 'a', instance: '2', zone: 'x' },
  ];

  test('leave out what all have', () => {
    expect(commonLabels(all)).toEqual({ __name__: 'up', job: 'a' });
    expect(differingLabels(all)).toEqual(['instance', 'zone']);
    expect(shortName(all[1]!, commonLabels(all))).toBe('{instance="2", zone="x"}');
  });

  test('are whole where nothing differs', () => {
    expect(shortName(all[0]!, commonLabels([all[0]!]))).toBe('up{instance="1", job="a"}');
    expect(shortName({}, {})).toBe('{}');
  });

  test('the metric comes first', () => expect(differingLabels([{ a: '1', __name__: 'x' }, { a: '2', __name__: 'y' }])).toEqual(['__name__', 'a']));
});

describe('lines', () => {
  const matrix: Matrix = {
    resultType: 'matrix',
    result: [
      { metric: { a: '1' }, values: [[90, '7'], [100, '1'], [120, 'NaN'], [130, '+Inf'], [140, '7']] },
      { metric: { a: '2' }, values: [[110, '2'], [120, '3']] },
      { metric: { a: '3' }, histograms: [[100, { count: '1', sum: '1' }]] },
    ],
  };
  const column = (...values: number[]) => Float64Array.from(values);

  test('have a value or a gap at every time', () => {
    const { lines, histograms } = toLines(matrix, grid);
    expect(lines.map(({ values }) => [...values])).toEqual([
      [1, NaN, NaN, Infinity],
      [NaN, 2, 3, NaN],
    ]);
    expect(histograms).toBe(1);
  });

  test('stand on each other, hidden ones take no room', () => {
    const columns = [column(1, 1), column(10, NaN), column(100, 100)];
    expect(stack(columns, () => true)).toEqual([column(1, 1), column(11, 1), column(111, 101)]);
    expect(stack(columns, (i) => i !== 1)[2]).toEqual(column(101, 101));
  });

  test('what the axis shows of one', () => {
    const odd = column(NaN, -3, 0, 5, Infinity, -Infinity);
    expect(extent(odd, false)).toEqual([-3, 5]);
    expect(extent(odd, true)).toEqual([5, 5]);
    expect(extent(column(-1, 0), true)).toBeNull();
    expect(extent(column(NaN), false)).toBeNull();
  });

  test('their values in short', () => {
    expect(summary(column(NaN, 1, 3, Infinity))).toEqual({ last: 3, min: 1, mean: 2, max: 3 });
    expect(summary(column(NaN)).last).toBeNaN();
  });

  test('the nearest one', () => {
    const columns = [column(1), column(5), column(NaN)];
    expect(nearest(columns, 0, 4, () => true, (v) => v)).toBe(1);
    expect(nearest(columns, 0, 4, (i) => i !== 1, (v) => v)).toBe(0);
    expect(nearest(columns, 0, 4, () => false, (v) => v)).toBe(-1);
  });
});

describe('columns', () => {
  const absent = [2, 0x7ff0_0000];
  const bits = (value: number) => [...new Uint32Array(Float64Array.of(value).buffer)];

  /** Two series over three steps from 100 s on, 10 s apart. */
  function body(json: string, words = [bits(1.5), absent, bits(NaN), absent, absent, bits(-0)]): ArrayBuffer {
    const text = new TextEncoder().encode(json);
    const head = new DataView(new ArrayBuffer(32));
    new Uint8Array(head.buffer).set(new TextEncoder().encode('ICEMTRX1'));
    head.setBigInt64(8, 100_000n, true);
    head.setBigInt64(16, 10_000n, true);
    head.setUint32(24, 3, true);
    head.setUint32(28, 2, true);
    const all = [new Uint8Array(head.buffer), new Uint8Array(Uint32Array.from(words.flat()).buffer), text];
    return Uint8Array.from(all.flatMap((part) => [...part])).buffer;
  }
  const json = '{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"a":"1"}},{"metric":{"a":"2"}}],"explain":"p"},"warnings":["w"]}';

  test('are read where they lie', () => {
    const bytes = body(json);
    const { data, warnings, infos } = decodeColumns(bytes);
    const matrix = data as ColumnMatrix;
    expect([warnings, infos, data.explain]).toEqual([['w'], [], 'p']);
    expect(timesOf(matrix)).toEqual([100, 110, 120]);
    expect(matrix.result.map(({ metric }) => metric)).toEqual([{ a: '1' }, { a: '2' }]);
    expect(matrix.result.every(({ values }) => values.buffer === bytes)).toBe(true);
    const [first] = toLines(matrix, grid).lines;
    expect([...first!.values]).toEqual([1.5, NaN, NaN]);
    expect([0, 1, 2].map((i) => isAbsent(first!.values, i))).toEqual([false, true, false]);
  });

  test('become the files that JSON becomes', () => {
    const data = decodeColumns(body(json)).data as ColumnMatrix;
    expect(toCsv(data)).toBe('time,"{a=""1""}","{a=""2""}"\r\n1970-01-01T00:01:40.000Z,1.5,\r\n1970-01-01T00:02:00.000Z,NaN,-0\r\n');
    expect(JSON.parse(toJson(data))).toEqual({
      resultType: 'matrix',
      result: [
        { metric: { a: '1' }, values: [[100, '1.5'], [120, 'NaN']] },
        { metric: { a: '2' }, values: [[120, '-0']] },
      ],
    });
  });

  test('that are cut off are no answer', () => {
    expect(() => decodeColumns(new ArrayBuffer(8))).toThrow('not an answer');
    expect(() => decodeColumns(new ArrayBuffer(64))).toThrow('not an answer');
    expect(() => decodeColumns(body(json).slice(0, 60))).toThrow('end early');
    expect(() => decodeColumns(body(json).slice(0, 90))).toThrow();
  });
});

describe('the y axis', () => {
  test.each([
    [10, 100, false, [0, 104.5]],
    [90, 100, false, [89.5, 100.5]],
    [-5, 5, false, [-5.5, 5.5]],
    [0, 0, false, [-1, 1]],
    [4, 4, false, [2, 6]],
    [-100, -10, false, [-104.5, 0]],
    [null, null, false, [0, 1]],
    [3, 4000, true, [2, 5000]],
    [30, 115, true, [20, 200]],
    [0, 100, true, [0.0001, 100]],
    [10, 10, true, [1, 100]],
    [1, 10, true, [1, 10]],
    [-5, -1, true, [0.1, 1]],
  ] as const)('%s to %s, log %s', (min, max, log, range) => {
    const [low, high] = yRange(min, max, log);
    expect(low).toBeCloseTo(range[0], 9);
    expect(high).toBeCloseTo(range[1], 9);
  });
});

test('colors of the first forty series differ', () => {
  for (const dark of [true, false]) expect(new Set(Array.from({ length: 40 }, (_, i) => seriesColor(i, dark))).size).toBe(40);
  expect(heatColor(0, false)).not.toBe(heatColor(0.001, false));
  expect(heatColor(2, true)).toBe(heatColor(1, true));
});

describe('CSV', () => {
  test('of a vector', () => {
    const result: Sample[] = [
      { metric: { a: 'x,"y"', b: '1' }, value: [0, '1.5'] },
      { metric: { a: '2' }, histogram: [0, { count: '3', sum: '4' }] },
    ];
    expect(toCsv({ resultType: 'vector', result })).toBe(
      'a,b,time,value,count,sum\r\n"x,""y""",1,1970-01-01T00:00:00.000Z,1.5,,\r\n2,,1970-01-01T00:00:00.000Z,,3,4\r\n',
    );
  });

  test('of a range', () => {
    const result: Series[] = [
      { metric: { a: '1' }, values: [[1, '5']] },
      { metric: { a: '2' }, values: [[0, 'NaN'], [1, '6']] },
    ];
    expect(toCsv({ resultType: 'matrix', result })).toBe(
      'time,"{a=""1""}","{a=""2""}"\r\n1970-01-01T00:00:00.000Z,,NaN\r\n1970-01-01T00:00:01.000Z,5,6\r\n',
    );
  });

  test('of a scalar', () => expect(toCsv({ resultType: 'scalar', result: [0, '+Inf'] })).toBe('time,value\r\n1970-01-01T00:00:00.000Z,+Inf\r\n'));
});

describe('positions', () => {
  test('of errors', () => {
    expect(placeOf('invalid parameter "query": 1:7: parse error: unexpected <by>', 'sum(a by b)')).toEqual({ from: 6, to: 8 });
    expect(placeOf('1:4: parse error: x', 'ab\nc')).toEqual({ from: 2, to: 3 });
    expect(placeOf('2:1: parse error: x', 'ab\nword')).toEqual({ from: 3, to: 7 });
  });

  test('count bytes', () => expect(placeOf('1:7: parse error: x', '"ü" + )')).toEqual({ from: 5, to: 6 }));

  test('of warnings', () => expect(placeOf('PromQL info: metric might not be a counter (1:6)', 'rate(a[5m])')).toEqual({ from: 5, to: 6 }));

  test('at the end, beyond it, and none', () => {
    expect(placeOf('1:5: parse error: unexpected end of input', 'sum(')).toEqual({ from: 4, to: 4 });
    expect(placeOf('9:9: parse error: x', 'a')).toBeNull();
    expect(placeOf('too many samples', 'a')).toBeNull();
  });

  test('are left out where a mark shows them', () => {
    expect(withoutPlace('invalid parameter "query": 1:7: parse error: bad')).toBe('bad');
    expect(withoutPlace('PromQL info: odd (1:6)')).toBe('PromQL info: odd');
  });
});

test('history has everything once, the latest first, and an end', () => {
  expect(added(['b', 'a'], ' a ')).toEqual(['a', 'b']);
  expect(added(['a'], '  ')).toEqual(['a']);
  expect(added(Array.from({ length: 200 }, (_, i) => String(i)), 'new')).toHaveLength(200);
  expect(searchHistory(['sum(rate(a[5m]))', 'up'], 'rate sum')).toEqual(['sum(rate(a[5m]))']);
});
