// Lines, areas and exemplars on a canvas.
import uPlot from 'uplot';
import { formatShort } from '../../format/number';
import type { Zone } from '../../format/time';
import { seriesColor } from '../../format/colors';
import { baseOptions, followSize, hasPointer, token, type Zooming } from './plot';
import { isolated, nearest, positive, stack, type Column, type Lines } from './series';
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

export class GraphPlot {
  private readonly plot: uPlot;
  private readonly stop: () => void;
  private readonly highlight = document.createElement('canvas');
  private lines: Lines;
  private columns: Column[] = [];
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

  /** New values of the same lines. */
  setLines(lines: Lines): void {
    this.lines = lines;
    this.plot.setData(this.data());
  }

  setShown(shown: (line: number) => boolean): void {
    this.shown = shown;
    this.plot.batch(() => {
      this.lines.lines.forEach((_, i) => {
        if (this.plot.series[i + 1]?.show !== shown(i)) this.plot.setSeries(i + 1, { show: shown(i) });
      });
      if (this.style.stacked) this.plot.setData(this.data());
    });
    this.setHighlight(-1);
  }

  setExemplars(points: readonly Point[]): void {
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
    let drawing = false;
    column.forEach((value, i) => {
      if (value === null) return void (drawing = false);
      const x = this.plot.valToPos(this.lines.times[i]!, 'x');
      const y = this.plot.valToPos(value, 'y');
      if (drawing) context.lineTo(x, y);
      else context.moveTo(x, y);
      drawing = true;
    });
    context.stroke();
  }

  private color(line: number): string {
    return seriesColor(line, this.style.dark);
  }

  private data(): uPlot.AlignedData {
    const raw = this.lines.lines.map(({ values }) => values);
    const stacked = this.style.stacked ? stack(raw, this.shown) : raw;
    this.columns = this.style.log ? stacked.map(positive) : stacked;
    return [this.lines.times, ...this.columns] as uPlot.AlignedData;
  }

  private options(zooming: Zooming): uPlot.Options {
    const { stacked, log, zone } = this.style;
    const base = baseOptions(this.host, zone, zooming);
    const [x, y] = base.axes;
    // A line of one pixel is drawn in an eighth of the time of a wider one.
    const many = this.lines.lines.length > 30;
    return {
      ...base,
      scales: {
        x: { time: true, range: (_, low, high) => (low === high ? [low - 1, high + 1] : [low, high]) },
        y: { distr: log ? 3 : 1, range: (_, low, high) => yRange(low, stacked && !log && high !== null && high > 0 ? Math.max(high, 0) : high, log) },
      },
      axes: [x!, { ...y, values: (_, ticks) => ticks.map((tick) => (tick === null ? '' : formatShort(tick, 4))) }],
      series: [
        {},
        ...this.lines.lines.map(
          (_, i): uPlot.Series => ({
            show: this.shown(i),
            stroke: this.color(i),
            width: many ? 1 : 1.5,
            ...(stacked ? { fill: this.color(i).replace(')', ' / 0.25)') } : {}),
            points: { show: true, size: 5, filter: (plot, line, show) => this.points(plot, line, show) },
          }),
        ),
      ],
      // Each area reaches down to the line below it.
      ...(stacked ? { bands: this.lines.lines.slice(1).map((_, i) => ({ series: [i + 2, i + 1] as [number, number] })) } : {}),
      hooks: {
        ...base.hooks,
        setCursor: [(plot) => this.onHover(this.hover(plot))],
        draw: [(plot) => this.drawExemplars(plot)],
        setSize: [() => this.setHighlight(-1)],
      },
    };
  }

  private points(plot: uPlot, line: number, show: boolean): number[] | null {
    const [from, to] = plot.series[0]?.idxs ?? [0, -1];
    const column = plot.data[line];
    if (!column || (show && to - from < 40)) return null;
    return isolated(column as Column, from, to);
  }

  private hover(plot: uPlot): Hover | null {
    const { idx, left = -1, top = -1 } = plot.cursor;
    if (idx === null || idx === undefined || left < 0 || !hasPointer(plot)) return null;
    const exemplar = this.exemplarAt(plot, left, top);
    const line = nearest(this.columns, idx, top, this.shown, (value) => plot.valToPos(value, 'y'));
    return { at: idx, line, exemplar, left: left + plot.over.offsetLeft, top: top + plot.over.offsetTop };
  }

  /** Exemplars keep their own value; where that is beyond the axis, they are at its edge. */
  private place(plot: uPlot, { at, value }: Point, canvas: boolean): [number, number] {
    const { min = 0, max = 1 } = plot.scales['y'] ?? {};
    const inside = Math.min(Math.max(value, min), max);
    return [plot.valToPos(at, 'x', canvas), plot.valToPos(inside, 'y', canvas)];
  }

  private exemplarAt(plot: uPlot, left: number, top: number): number {
    return this.exemplars.findIndex((point) => {
      const [x, y] = this.place(plot, point, false);
      return Math.hypot(x - left, y - top) < 8;
    });
  }

  private drawExemplars(plot: uPlot): void {
    const { ctx } = plot;
    const size = 4 * devicePixelRatio;
    ctx.save();
    ctx.fillStyle = token('--warn');
    for (const point of this.exemplars) {
      const [x, y] = this.place(plot, point, true);
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
