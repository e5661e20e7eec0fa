// Buckets over time as a grid of cells, from classic histograms (`le`) and from native ones.
import type { Grid, Series } from '../../api/query';
import { parseValue } from '../../format/number';
import { toLines, type Lines, type Ranged } from './series';

export interface Heatmap {
  times: number[];
  /** Edges of the rows from below, one more than rows. The outer ones may be infinite. */
  edges: number[];
  /** `cells[row][time]`: observations. */
  cells: number[][];
  max: number;
}

const rowsMax = 120;

/** Null where the series have no buckets. */
export function toHeatmap(data: Ranged, grid: Grid): Heatmap | null {
  const lines = toLines(data, grid);
  const at = (time: number) => Math.round((time - grid.start) / grid.step);
  return (data.resultType === 'matrix' ? native(data.result, lines.times, at) : null) ?? classic(lines);
}

function classic({ times, lines }: Lines): Heatmap | null {
  // Series of the same bucket, of several instances for example, are added up.
  const byBound = new Map<number, number[]>();
  for (const { labels, values } of lines) {
    const bound = labels['le'] === undefined ? NaN : parseValue(labels['le']);
    if (Number.isNaN(bound)) continue;
    const sums = byBound.get(bound) ?? new Array<number>(times.length).fill(NaN);
    byBound.set(bound, sums);
    values.forEach((value, i) => {
      if (Number.isFinite(value)) sums[i] = (Number.isNaN(sums[i]) ? 0 : sums[i]!) + value;
    });
  }
  if (byBound.size === 0) return null;
  const bounds = [...byBound.keys()].sort((a, b) => a - b);
  const cells: number[][] = [];
  let below: number[] = new Array<number>(times.length).fill(0);
  for (const bound of bounds) {
    const cumulative = byBound.get(bound)!;
    // Scrapes are not one moment: a lower bucket can be ahead of the one above it.
    cells.push(cumulative.map((count, i) => (Number.isNaN(count) ? 0 : Math.max(0, count - below[i]!))));
    below = cumulative.map((count, i) => (Number.isNaN(count) ? below[i]! : Math.max(count, below[i]!)));
  }
  const lowest = bounds[0]! > 0 ? 0 : -Infinity;
  return finished(times, [lowest, ...bounds], cells);
}

interface Piece {
  at: number;
  lower: number;
  upper: number;
  count: number;
}

function native(matrix: readonly Series[], times: number[], at: (time: number) => number): Heatmap | null {
  const pieces: Piece[] = [];
  for (const { histograms } of matrix) {
    for (const [time, { buckets }] of histograms ?? []) {
      const i = at(time);
      if (i < 0 || i >= times.length) continue;
      for (const [, lower, upper, count] of buckets ?? []) {
        pieces.push({ at: i, lower: parseValue(lower), upper: parseValue(upper), count: parseValue(count) });
      }
    }
  }
  if (pieces.length === 0) return null;
  const edges = thinned([...new Set(pieces.flatMap(({ lower, upper }) => [lower, upper]))].sort((a, b) => a - b));
  const cells = Array.from({ length: edges.length - 1 }, () => new Array<number>(times.length).fill(0));
  for (const piece of pieces) spread(piece, edges, cells);
  return finished(times, edges, cells);
}

/** Every n-th edge, so that there are not more rows than can be told apart; the outer ones stay. */
function thinned(edges: number[]): number[] {
  const every = Math.ceil((edges.length - 1) / rowsMax);
  return edges.filter((_, i) => i % every === 0 || i === edges.length - 1);
}

/** A bucket that covers several rows gives each its share, by its width on the axis: resolutions differ over time. */
function spread({ at, lower, upper, count }: Piece, edges: number[], cells: number[][]): void {
  const first = Math.max(0, lastAtMost(edges, lower));
  let last = first;
  while (last + 1 < cells.length && edges[last + 1]! < upper) last += 1;
  const share = count / (last - first + 1);
  for (let row = first; row <= last; row++) cells[row]![at]! += share;
}

/** The index of the last edge that is not above the value. */
function lastAtMost(edges: number[], value: number): number {
  let low = 0;
  let high = edges.length - 1;
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (edges[middle]! <= value) low = middle;
    else high = middle - 1;
  }
  return low;
}

function finished(times: number[], edges: number[], cells: number[][]): Heatmap {
  let max = 0;
  for (const row of cells) for (const count of row) if (count > max) max = count;
  return { times, edges, cells, max };
}
