// Lines and areas on a canvas, many of them: what is drawn of a column, and nothing for what is not seen.

/** What of a canvas is needed, so that tests can look at what is drawn. */
export type Pen = Pick<CanvasRenderingContext2D, 'moveTo' | 'lineTo'>;

/** Where values are on an axis, in pixels: linear, or logarithmic. What has no place is not finite. */
export interface Axis {
  log: boolean;
  /** Pixels per unit, or per power of ten. */
  scale: number;
  /** The pixel of zero, or of one. */
  origin: number;
}

/** The axis that has two values at two pixels. */
export function axisOf(log: boolean, low: number, lowAt: number, high: number, highAt: number): Axis {
  const [from, to] = log ? [Math.log10(low), Math.log10(high)] : [low, high];
  const scale = (highAt - lowAt) / (to - from);
  return { log, scale, origin: lowAt - from * scale };
}

export function place(value: number, { log, scale, origin }: Axis): number {
  return origin + (log ? Math.log10(value) : value) * scale;
}

/** The places of a column, into `places`. */
export function placeAll(column: Float64Array, axis: Axis, places: Float64Array): void {
  const { log, scale, origin } = axis;
  if (log) for (let i = 0; i < column.length; i++) places[i] = origin + Math.log10(column[i]!) * scale;
  else for (let i = 0; i < column.length; i++) places[i] = origin + column[i]! * scale;
}

/**
 * A line through all places. Several on one pixel of width become a stroke from the least to the largest.
 * Returns the steps that have no neighbor, which a line alone would not show.
 */
export function trace(pen: Pen, xs: Float64Array, ys: Float64Array): number[] {
  const alone: number[] = [];
  let drawing = false;
  for (let i = 0; i < ys.length; i++) {
    const y = ys[i]!;
    // Faster than Number.isFinite, and the same.
    if (y - y !== 0) {
      drawing = false;
      continue;
    }
    const x = xs[i]!;
    if (drawing) {
      let last = i;
      const column = Math.floor(x);
      while (last + 1 < ys.length && Math.floor(xs[last + 1]!) === column && ys[last + 1]! - ys[last + 1]! === 0) last += 1;
      if (last > i + 1) {
        strokeOfColumn(pen, x, ys, i, last);
        i = last;
      } else {
        pen.lineTo(x, y);
      }
    } else {
      pen.moveTo(x, y);
      const next = ys[i + 1] ?? NaN;
      if (next - next !== 0) alone.push(i);
      drawing = true;
    }
  }
  return alone;
}

/** All that is on one pixel of width: in at the first, out at the last. */
function strokeOfColumn(pen: Pen, x: number, ys: Float64Array, from: number, to: number): void {
  let min = Infinity;
  let max = -Infinity;
  for (let i = from; i <= to; i++) {
    if (ys[i]! < min) min = ys[i]!;
    if (ys[i]! > max) max = ys[i]!;
  }
  pen.lineTo(x, ys[from]!);
  pen.lineTo(x, min);
  pen.lineTo(x, max);
  pen.lineTo(x, ys[to]!);
}

/** The outline of the area between two lines; what has no place is at the bottom. */
export function traceArea(pen: Pen, xs: Float64Array, top: Float64Array, below: Float64Array | null, bottom: number): void {
  const at = (ys: Float64Array | null, i: number) => {
    const y = ys === null ? bottom : ys[i]!;
    return Number.isFinite(y) ? y : bottom;
  };
  for (let i = 0; i < xs.length; i++) {
    if (i === 0) pen.moveTo(xs[i]!, at(top, i));
    else pen.lineTo(xs[i]!, at(top, i));
  }
  for (let i = xs.length - 1; i >= 0; i--) pen.lineTo(xs[i]!, at(below, i));
}
