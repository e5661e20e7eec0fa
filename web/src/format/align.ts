// Lines with times of their own as columns over one axis, as uPlot wants them.

export interface Line {
  name: string;
  /** Seconds and value in the order of time; null is a gap. */
  points: readonly (readonly [number, number | null])[];
}

export type Column = (number | null | undefined)[];

/** `undefined` where a line has no point: it goes on to its next one. `null` breaks it. */
export function align(lines: readonly Line[]): { times: number[]; columns: Column[] } {
  const times = [...new Set(lines.flatMap(({ points }) => points.map(([at]) => at)))].sort((a, b) => a - b);
  const place = new Map(times.map((at, i) => [at, i]));
  const columns = lines.map(({ points }) => {
    const column: Column = new Array<undefined>(times.length).fill(undefined);
    for (const [at, value] of points) column[place.get(at)!] = value !== null && Number.isFinite(value) ? value : null;
    return column;
  });
  return { times, columns };
}

/** The last value that is one. */
export function lastValue(points: Line['points']): number | null {
  for (let i = points.length - 1; i >= 0; i -= 1) {
    const value = points[i]?.[1];
    if (value !== null && value !== undefined && Number.isFinite(value)) return value;
  }
  return null;
}
