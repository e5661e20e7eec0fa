// Lines, areas and exemplars on a canvas. uPlot has the axes, the crosshair and zooming; lines are drawn here,
// straight from the columns of the answer: a thousand of them as series of uPlot's would take several times as long.
import uPlot from 'uplot';
import { formatShort } from '../../format/number';
import type { Zone } from '../../format/time';
import { seriesColor } from '../../format/colors';
import { axisOf, place, placeAll, trace, traceArea, type Axis } from './line-draw';
import { baseOptions, followSize, hasPointer, token, type Zooming } from './plot';
import { extent, nearest, stack, type Column, type Lines } from './series';
import { yRange } from './y-range';

export interface Point {
  at: number;
  value: number;
}

export interface Hover {
  /** Index into the times. */
  at: number;
  /** Index of the line, -1 for none. */
  line: number;
  /** Index of the exemplar, -1 for none. */
  exemplar: number;
  /** Where the tooltip belongs, in pixels of the plot's box. */
  left: number;
  top: number;
}

export interface GraphStyle {
  stacked: boolean;
  log: boolean;
  dark: boolean;
  zone: Zone;
}

/** Of more lines than this each is one pixel wide, which is drawn in an eighth of the time. */
const wideLinesMax = 30;
/** Steps that are so far apart, in pixels, and so few have points. */
const pointsSpace = 10;
const pointsMax = 40;
const pointRadius = 2.5;

export class GraphPlot {
  private readonly plot: uPlot;
  private readonly stop: () => void;
  private readonly highlight = document.createElement('canvas');
  private lines: Lines;
  private columns: Column[] = [];
  /** What the axis has to show of each column. */
  private extents: ([number, number] | null)[] = [];
  private shown: (line: number) => boolean;
  private exemplars: readonly Point[] = [];

  constructor(
    private readonly host: HTMLElement,
    lines: Lines,
    shown: (line: number) => boolean,
    private readonly style: GraphStyle,
    zooming: Zooming,
    private readonly onHover: (hover: Hover | null) => void,
  ) {
    this.lines = lines;
    this.shown = shown;
    this.plot = new uPlot(this.options(zooming), this.data(), host);
    this.highlight.className = 'highlight';
    this.plot.over.append(this.highlight);
    this.stop = followSize(host, this.plot);
  }

  destroy(): void {
    this.stop();
    this.plot.destroy();
  }

  setLines(lines: Lines, shown: (line: number) => boolean): void {
    if (lines === this.lines && shown === this.shown) return;
    this.lines = lines;
    this.shown = shown;
    this.plot.setData(this.data());
    this.setHighlight(-1);
  }

  setExemplars(points: readonly Point[]): void {
    if (points.length === 0 && this.exemplars.length === 0) return;
    this.exemplars = points;
    this.plot.redraw(false);
  }

  /** Draws one line again, thicker, on a canvas of its own: all of them would take too long. */
  setHighlight(line: number): void {
    const { clientWidth: width, clientHeight: height } = this.plot.over;
    const ratio = devicePixelRatio;
    Object.assign(this.highlight, { width: width * ratio, height: height * ratio });
    const column = this.columns[line];
    const context = this.highlight.getContext('2d');
    if (!column || !context) return;
    context.scale(ratio, ratio);
    context.strokeStyle = this.color(line);
    context.lineWidth = 3;
    context.beginPath();
    const ys = new Float64Array(column.length);
    placeAll(column, this.axis(false), ys);
    trace(context, this.places(false), ys);
    context.stroke();
  }

  private color(line: number): string {
    return seriesColor(line, this.style.dark);
  }

  private data(): uPlot.AlignedData {
    const raw = this.lines.lines.map(({ values }) => values);
    this.columns = this.style.stacked ? stack(raw, this.shown) : raw;
    this.extents = this.columns.map((column) => extent(column, this.style.log));
    // The plot needs a series to have a scale.
    return [this.lines.times, this.lines.times.map(() => null)];
  }

  private range(): [number, number] {
    const { stacked, log } = this.style;
    let min = Infinity;
    let max = -Infinity;
    this.extents.forEach((own, i) => {
      if (own === null || !this.shown(i)) return;
      min = Math.min(min, own[0]);
      max = Math.max(max, own[1]);
    });
    if (min > max) return yRange(null, null, log);
    // Areas begin at zero.
    return stacked && !log ? yRange(Math.min(min, 0), Math.max(max, 0), log) : yRange(min, max, log);
  }

  private options(zooming: Zooming): uPlot.Options {
    const { log, zone } = this.style;
    const base = baseOptions(this.host, zone, zooming);
    const [x, y] = base.axes;
    return {
      ...base,
      scales: {
        x: { time: true, range: (_, low, high) => (low === high ? [low - 1, high + 1] : [low, high]) },
        y: { distr: log ? 3 : 1, range: () => this.range() },
      },
      axes: [x!, { ...y, values: (_, ticks) => ticks.map((tick) => (tick === null ? '' : formatShort(tick, 4))) }],
      series: [{}, { show: true, points: { show: false } }],
      hooks: {
        ...base.hooks,
        setCursor: [(plot) => this.onHover(this.hover(plot))],
        draw: [(plot) => this.drawLines(plot), (plot) => this.drawExemplars(plot)],
        setSize: [() => this.setHighlight(-1)],
      },
    };
  }

  /** Where values are: on the canvas, or in the box. */
  private axis(canvas: boolean): Axis {
    const { min = 0, max = 1 } = this.plot.scales['y'] ?? {};
    return axisOf(this.style.log, min, this.plot.valToPos(min, 'y', canvas), max, this.plot.valToPos(max, 'y', canvas));
  }

  /** Where times are. */
  private places(canvas: boolean): Float64Array {
    return Float64Array.from(this.lines.times, (at) => this.plot.valToPos(at, 'x', canvas));
  }

  private drawLines(plot: uPlot): void {
    const { ctx, bbox } = plot;
    const [xs, axis] = [this.places(true), this.axis(true)];
    const width = this.columns.length > wideLinesMax ? 1 : 1.5 * devicePixelRatio;
    const withPoints = xs.length < pointsMax && bbox.width / xs.length >= pointsSpace * devicePixelRatio;
    ctx.save();
    ctx.beginPath();
    // Points at the edges are whole.
    const room = pointRadius * devicePixelRatio;
    ctx.rect(bbox.left - room, bbox.top - room, bbox.width + 2 * room, bbox.height + 2 * room);
    ctx.clip();
    ctx.lineWidth = width;
    ctx.lineJoin = 'round';
    let [ys, below] = [new Float64Array(xs.length), new Float64Array(xs.length)];
    let isLowest = true;
    this.columns.forEach((column, i) => {
      if (!this.shown(i)) return;
      placeAll(column, axis, ys);
      ctx.strokeStyle = ctx.fillStyle = this.color(i);
      ctx.beginPath();
      const alone = trace(ctx, xs, ys);
      ctx.stroke();
      this.drawPoints(ctx, xs, ys, withPoints ? xs.keys() : alone);
      if (!this.style.stacked) return;
      ctx.beginPath();
      const bottom = this.style.log ? bbox.top + bbox.height : place(0, axis);
      traceArea(ctx, xs, ys, isLowest ? null : below, bottom);
      ctx.globalAlpha = 0.25;
      ctx.fill();
      ctx.globalAlpha = 1;
      isLowest = false;
      [ys, below] = [below, ys];
    });
    ctx.restore();
  }

  private drawPoints(ctx: CanvasRenderingContext2D, xs: Float64Array, ys: Float64Array, steps: Iterable<number>): void {
    for (const i of steps) {
      if (!Number.isFinite(ys[i])) continue;
      ctx.beginPath();
      ctx.arc(xs[i]!, ys[i]!, pointRadius * devicePixelRatio, 0, 2 * Math.PI);
      ctx.fill();
    }
  }

  private hover(plot: uPlot): Hover | null {
    const { idx, left = -1, top = -1 } = plot.cursor;
    if (idx === null || idx === undefined || left < 0 || !hasPointer(plot)) return null;
    const exemplar = this.exemplarAt(plot, left, top);
    const axis = this.axis(false);
    const line = nearest(this.columns, idx, top, this.shown, (value) => place(value, axis));
    return { at: idx, line, exemplar, left: left + plot.over.offsetLeft, top: top + plot.over.offsetTop };
  }

  /** Exemplars keep their own value; where that is beyond the axis, they are at its edge. */
  private placeOf(plot: uPlot, { at, value }: Point, canvas: boolean): [number, number] {
    const { min = 0, max = 1 } = plot.scales['y'] ?? {};
    const inside = Math.min(Math.max(value, min), max);
    return [plot.valToPos(at, 'x', canvas), plot.valToPos(inside, 'y', canvas)];
  }

  private exemplarAt(plot: uPlot, left: number, top: number): number {
    return this.exemplars.findIndex((point) => {
      const [x, y] = this.placeOf(plot, point, false);
      return Math.hypot(x - left, y - top) < 8;
    });
  }

  private drawExemplars(plot: uPlot): void {
    const { ctx } = plot;
    const size = 4 * devicePixelRatio;
    ctx.save();
    ctx.fillStyle = token('--warn');
    for (const point of this.exemplars) {
      const [x, y] = this.placeOf(plot, point, true);
      if (x < plot.bbox.left || x > plot.bbox.left + plot.bbox.width) continue;
      ctx.beginPath();
      ctx.moveTo(x, y - size);
      ctx.lineTo(x + size, y);
      ctx.lineTo(x, y + size);
      ctx.lineTo(x - size, y);
      ctx.fill();
    }
    ctx.restore();
  }
}
