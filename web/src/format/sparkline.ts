// Lines that are small enough to stand beside a number.

/** Time and value; NaN is a gap. */
export type Point = readonly [number, number];

export interface Extent {
  start: number;
  end: number;
  low: number;
  high: number;
}

/** What all lines together span; null when there is no finite value. */
export function extentOf(lines: readonly (readonly Point[])[], start: number, end: number): Extent | null {
  let low = Infinity;
  let high = -Infinity;
  for (const line of lines) {
    for (const [, value] of line) {
      if (!Number.isFinite(value)) continue;
      low = Math.min(low, value);
      high = Math.max(high, value);
    }
  }
  return low > high ? null : { start, end, low, high };
}

/**
 * The path of a line in a box. It is interrupted where there is no finite value, or where points are
 * further apart than `gap` seconds.
 */
export function linePath(line: readonly Point[], extent: Extent, width: number, height: number, gap: number): string {
  const { start, end, low, high } = extent;
  // A constant lies in the middle.
  const y = (value: number) => (high === low ? height / 2 : height - ((value - low) / (high - low)) * height);
  const x = (time: number) => ((time - start) / (end - start)) * width;
  let path = '';
  let before = -Infinity;
  for (const [time, value] of line) {
    if (!Number.isFinite(value)) {
      before = -Infinity;
      continue;
    }
    path += `${time - before > gap ? 'M' : 'L'}${round(x(time))} ${round(y(value))}`;
    before = time;
  }
  return path;
}

function round(n: number): number {
  return Math.round(n * 10) / 10;
}
