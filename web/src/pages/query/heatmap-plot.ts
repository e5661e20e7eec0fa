// Cells of a heatmap on a canvas: rows are buckets of the same height, whatever their width.
import uPlot from 'uplot';
import { formatShort } from '../../format/number';
import type { Zone } from '../../format/time';
import { heatColor } from '../../format/colors';
import type { Heatmap } from './heatmap-bins';
import { baseOptions, followSize, hasPointer, type Zooming } from './plot';

export interface Cell {
  row: number;
  at: number;
  left: number;
  top: number;
}

export class HeatmapPlot {
  private readonly plot: uPlot;
  private readonly stop: () => void;
  private map: Heatmap;

  constructor(
    private readonly host: HTMLElement,
    map: Heatmap,
    private readonly style: { dark: boolean; zone: Zone },
    zooming: Zooming,
    private readonly onHover: (cell: Cell | null) => void,
  ) {
    this.map = map;
    this.plot = new uPlot(this.options(zooming), this.data(), host);
    this.stop = followSize(host, this.plot);
  }

  destroy(): void {
    this.stop();
    this.plot.destroy();
  }

  setMap(map: Heatmap): void {
    this.map = map;
    this.plot.setData(this.data());
  }

  private data(): uPlot.AlignedData {
    // The plot needs a series to have a scale; the cells are drawn by hand.
    return [this.map.times, this.map.times.map(() => null)];
  }

  private options(zooming: Zooming): uPlot.Options {
    const base = baseOptions(this.host, this.style.zone, zooming);
    const [x, y] = base.axes;
    return {
      ...base,
      scales: { x: { time: true, range: (_, low, high) => this.timeRange(low, high) }, y: { range: () => [0, this.map.cells.length] } },
      axes: [
        x!,
        {
          ...y,
          // A tick is an edge between rows.
          splits: (plot) => rowTicks(this.map.cells.length, Math.max(2, Math.floor(plot.bbox.height / devicePixelRatio / 24))),
          values: (_, ticks) => ticks.map((row) => formatShort(this.map.edges[row] ?? NaN)),
        },
      ],
      series: [{}, { show: true, points: { show: false } }],
      hooks: { ...base.hooks, draw: [(plot) => this.drawCells(plot)], setCursor: [(plot) => this.onHover(this.hover(plot))] },
    };
  }

  /** A cell ends at its time: it holds what was counted since the one before. */
  private timeRange(low: number, high: number): [number, number] {
    return [low - this.step, high];
  }

  private get step(): number {
    const [first = 0, second = first + 1] = this.map.times;
    return second - first;
  }

  private drawCells(plot: uPlot): void {
    const { ctx } = plot;
    const { times, cells, max } = this.map;
    ctx.save();
    cells.forEach((row, i) => {
      const top = plot.valToPos(i + 1, 'y', true);
      const height = plot.valToPos(i, 'y', true) - top;
      row.forEach((count, at) => {
        if (count <= 0) return;
        const left = plot.valToPos(times[at]! - this.step, 'x', true);
        const width = plot.valToPos(times[at]!, 'x', true) - left;
        ctx.fillStyle = heatColor(count / max, this.style.dark);
        // Half a pixel more on each side, or the gaps between cells would shine through.
        ctx.fillRect(left - 0.5, top - 0.5, width + 1, height + 1);
      });
    });
    ctx.restore();
  }

  private hover(plot: uPlot): Cell | null {
    const { left = -1, top = -1 } = plot.cursor;
    if (left < 0 || !hasPointer(plot)) return null;
    const row = Math.floor(plot.posToVal(top, 'y'));
    const at = this.map.times.findIndex((time) => time >= plot.posToVal(left, 'x'));
    if (at < 0 || this.map.cells[row] === undefined) return null;
    return { row, at, left: left + plot.over.offsetLeft, top: top + plot.over.offsetTop };
  }
}

/** Rows at the same distance, at most so many. */
export function rowTicks(rows: number, most: number): number[] {
  const every = Math.max(1, Math.ceil(rows / most));
  return Array.from({ length: Math.floor(rows / every) + 1 }, (_, i) => i * every);
}
