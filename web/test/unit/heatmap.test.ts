import { describe, expect, test } from 'vitest';
import type { Bucket, Series } from '../../src/api/query';
import { toHeatmap as ofAnswer } from '../../src/pages/query/heatmap-bins';

const grid = { start: 0, end: 10, step: 10 };
const toHeatmap = (result: Series[], of: typeof grid) => ofAnswer({ resultType: 'matrix', result }, of);

describe('classic buckets', () => {
  const le = (bound: string, ...values: string[]): Series => ({ metric: { le: bound }, values: values.map((value, i) => [i * 10, value]) });

  test('are taken apart', () => {
    const map = toHeatmap([le('+Inf', '10', '20'), le('1', '3', '4'), le('5', '7', '7')], grid)!;
    expect(map.edges).toEqual([0, 1, 5, Infinity]);
    expect(map.cells).toEqual([
      [3, 4],
      [4, 3],
      [3, 13],
    ]);
    expect(map.max).toBe(13);
  });

  test('of several instances are added', () => expect(toHeatmap([le('1', '1'), le('1', '2'), le('+Inf', '4')], grid)!.cells).toEqual([[3, 0], [1, 0]]));

  test('that are not monotonic have no negative cells', () => expect(toHeatmap([le('1', '5'), le('2', '4'), le('3', '6')], grid)!.cells).toEqual([[5, 0], [0, 0], [1, 0]]));

  test('below zero', () => expect(toHeatmap([le('-1', '5'), le('1', '6')], grid)!.edges).toEqual([-Infinity, -1, 1]));
});

describe('native buckets', () => {
  const native = (...points: Bucket[][]): Series => ({
    metric: {},
    histograms: points.map((buckets, i) => [i * 10, { count: '0', sum: '0', buckets }]),
  });

  test('keep their bounds', () => {
    const map = toHeatmap([native([[0, '1', '2', '5']], [[0, '2', '4', '7']])], grid)!;
    expect(map.edges).toEqual([1, 2, 4]);
    expect(map.cells).toEqual([
      [5, 0],
      [0, 7],
    ]);
  });

  test('of another resolution are spread', () => {
    const map = toHeatmap([native([[0, '1', '2', '1'], [0, '2', '4', '2']], [[0, '1', '4', '6']])], grid)!;
    expect(map.cells).toEqual([
      [1, 3],
      [2, 3],
    ]);
  });

  test('are not more rows than can be told apart, and none is lost', () => {
    const buckets = Array.from({ length: 500 }, (_, i): Bucket => [0, String(i), String(i + 1), '1']);
    const map = toHeatmap([native(buckets)], grid)!;
    expect(map.cells.length).toBeLessThanOrEqual(120);
    expect(map.cells.reduce((sum, row) => sum + row[0]!, 0)).toBeCloseTo(500);
    expect(map.edges.at(-1)).toBe(500);
  });
});

test('columns are classic buckets', () => {
  const le = (bound: string, ...values: number[]) => ({ metric: { le: bound }, values: Float64Array.from(values) });
  const map = ofAnswer({ resultType: 'columns', start: 0, step: 10, count: 2, result: [le('1', 3, NaN), le('+Inf', 10, 20)] }, grid)!;
  expect(map.cells).toEqual([[3, 0], [7, 20]]);
});

test('without buckets there is none', () => expect(toHeatmap([{ metric: { a: 'b' }, values: [[0, '1']] }], grid)).toBeNull());
