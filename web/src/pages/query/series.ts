// A matrix as the columns that the graph draws.
import type { ColumnMatrix } from '../../api/columns';
import type { Grid, Matrix } from '../../api/query';
import type { Labels } from '../../format/labels';
import { parseValue } from '../../format/number';

/** A value for each time. What is not finite is a gap. */
export type Column = Float64Array;

/** The two forms of an answer over a range. */
export type Ranged = Matrix | ColumnMatrix;

export interface Line {
  labels: Labels;
  values: Column;
}

export interface Lines {
  times: number[];
  lines: Line[];
  /** Native histograms have no line; the heatmap shows them. */
  histograms: number;
}

export function timesOf(grid: Grid | { start: number; step: number; count: number }): number[] {
  const { start, step } = grid;
  const count = 'count' in grid ? grid.count : Math.floor((grid.end - start) / step + 1e-6) + 1;
  return Array.from({ length: count }, (_, i) => Math.round((start + i * step) * 1000) / 1000);
}

export function toLines(data: Ranged, grid: Grid): Lines {
  if (data.resultType === 'matrix') return fromPairs(data, grid);
  const lines = data.result.map(({ metric, values }) => ({ labels: metric, values }));
  return { times: timesOf(data), lines, histograms: 0 };
}

function fromPairs({ result }: Matrix, grid: Grid): Lines {
  const times = timesOf(grid);
  const lines: Line[] = [];
  let histograms = 0;
  for (const { metric, values, histograms: own } of result) {
    if (own?.length) histograms += 1;
    if (!values?.length) continue;
    const column = new Float64Array(times.length).fill(NaN);
    for (const [at, text] of values) column[Math.round((at - grid.start) / grid.step)] = parseValue(text);
    lines.push({ labels: metric, values: column });
  }
  return { times, lines, histograms };
}

/** Each line on top of those before it; hidden ones take no room. A gap is zero, or areas above it would have none to stand on. */
export function stack(columns: readonly Column[], shown: (index: number) => boolean): Column[] {
  const sums = new Float64Array(columns[0]?.length ?? 0);
  return columns.map((column, i) => {
    if (!shown(i)) return column;
    column.forEach((value, at) => {
      if (Number.isFinite(value)) sums[at]! += value;
    });
    return sums.slice();
  });
}

/** The least and the largest of what can be drawn; null where nothing can. */
export function extent(column: Column, log: boolean): [number, number] | null {
  let min = Infinity;
  let max = -Infinity;
  for (const value of column) {
    // Comparisons leave NaN out by themselves.
    if (value < min && value > (log ? 0 : -Infinity)) min = value;
    if (value > max && value < Infinity) max = value;
  }
  return min <= max ? [min, max] : null;
}

/** The line nearest to a height at one time; -1 where none has a value. */
export function nearest(columns: readonly Column[], at: number, y: number, shown: (index: number) => boolean, position: (value: number) => number): number {
  let best = -1;
  let distance = Infinity;
  columns.forEach((column, i) => {
    // Gaps have no position, which is near to nothing.
    const d = shown(i) ? Math.abs(position(column[at] ?? NaN) - y) : NaN;
    if (d < distance) [best, distance] = [i, d];
  });
  return best;
}

export interface Summary {
  last: number;
  min: number;
  mean: number;
  max: number;
}

/** NaN where there is no value at all. */
export function summary(column: Column): Summary {
  let last = NaN;
  let min = Infinity;
  let max = -Infinity;
  let sum = 0;
  let count = 0;
  for (const value of column) {
    if (!Number.isFinite(value)) continue;
    last = value;
    if (value < min) min = value;
    if (value > max) max = value;
    sum += value;
    count += 1;
  }
  return count === 0 ? { last: NaN, min: NaN, mean: NaN, max: NaN } : { last, min, mean: sum / count, max };
}
