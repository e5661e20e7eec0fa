// A matrix as the columns that the graph draws.
import type { Grid, Series } from '../../api/query';
import type { Labels } from '../../format/labels';
import { parseValue } from '../../format/number';

export type Column = (number | null)[];

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

export function timesOf({ start, end, step }: Grid): number[] {
  const count = Math.floor((end - start) / step + 1e-6) + 1;
  return Array.from({ length: count }, (_, i) => Math.round((start + i * step) * 1000) / 1000);
}

/** A value for each time of the grid. What cannot be drawn (NaN, infinities) is a gap. */
export function toLines(matrix: readonly Series[], grid: Grid): Lines {
  const times = timesOf(grid);
  const lines: Line[] = [];
  let histograms = 0;
  for (const { metric, values, histograms: own } of matrix) {
    if (own?.length) histograms += 1;
    if (!values?.length) continue;
    const column: Column = new Array<number | null>(times.length).fill(null);
    for (const [at, text] of values) {
      const i = Math.round((at - grid.start) / grid.step);
      const value = parseValue(text);
      if (i >= 0 && i < column.length && Number.isFinite(value)) column[i] = value;
    }
    lines.push({ labels: metric, values: column });
  }
  return { times, lines, histograms };
}

/** Each line on top of those before it; hidden ones take no room. A gap is zero, or areas above it would have none to stand on. */
export function stack(columns: readonly Column[], shown: (index: number) => boolean): Column[] {
  const sums: number[] = new Array<number>(columns[0]?.length ?? 0).fill(0);
  return columns.map((column, i) => {
    if (!shown(i)) return column;
    return column.map((value, at) => (sums[at] = (sums[at] ?? 0) + (value ?? 0)));
  });
}

/** Without what has no place on a logarithmic axis. */
export function positive(column: Column): Column {
  return column.map((value) => (value !== null && value > 0 ? value : null));
}

/** Points without a neighbor, which a line alone would not show. */
export function isolated(column: ArrayLike<number | null | undefined>, from: number, to: number): number[] {
  const found: number[] = [];
  for (let i = from; i <= to; i++) {
    if (column[i] != null && column[i - 1] == null && column[i + 1] == null) found.push(i);
  }
  return found;
}

/** The line nearest to a height at one time; -1 where none has a value. */
export function nearest(columns: readonly Column[], at: number, y: number, shown: (index: number) => boolean, position: (value: number) => number): number {
  let best = -1;
  let distance = Infinity;
  columns.forEach((column, i) => {
    const value = column[at];
    if (value == null || !shown(i)) return;
    const d = Math.abs(position(value) - y);
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
    if (value === null) continue;
    last = value;
    min = Math.min(min, value);
    max = Math.max(max, value);
    sum += value;
    count += 1;
  }
  return count === 0 ? { last: NaN, min: NaN, mean: NaN, max: NaN } : { last, min, mean: sum / count, max };
}
