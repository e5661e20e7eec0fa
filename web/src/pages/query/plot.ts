// What graphs and heatmaps share: axes, zooming, colors of the theme, and the size of the box.
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import type { Zone } from '../../format/time';
import { timeTicks } from '../../format/time-ticks';

export interface Zooming {
  onZoom: (start: number, end: number) => void;
  onZoomOut: () => void;
}

/** The color of a token as the canvas needs it. */
export function token(name: string): string {
  const probe = document.createElement('span');
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}

/** Plots with the same key show their crosshair at the same time. */
const together = 'query';

export function baseOptions(host: HTMLElement, zone: Zone, zooming: Zooming): uPlot.Options & { axes: uPlot.Axis[] } {
  const { width, height } = sizeOf(host);
  const text = token('--text-muted');
  const line = { stroke: token('--border'), width: 1 };
  const font = '12px system-ui, sans-serif';
  return {
    width,
    height,
    legend: { show: false },
    tzDate: (at) => (zone === 'utc' ? uPlot.tzDate(new Date(at * 1000), 'Etc/UTC') : new Date(at * 1000)),
    cursor: {
      points: { show: false },
      sync: { key: together, setSeries: false, scales: ['x', null] },
      drag: { x: true, y: false, setScale: false, dist: 4 },
      bind: {
        dblclick: () => () => {
          zooming.onZoomOut();
          return null;
        },
      },
    },
    series: [{}],
    axes: [
      { stroke: text, grid: line, ticks: line, font, space: 70, values: (_, ticks, __, ___, distance) => timeTicks(ticks, distance, zone) },
      { stroke: text, grid: line, ticks: line, font, size: (_, values) => 20 + 7 * Math.max(3, ...(values ?? []).map((value) => value?.length ?? 0)) },
    ],
    hooks: {
      setSelect: [
        (plot) => {
          const { left, width: wide } = plot.select;
          if (wide < 4) return;
          zooming.onZoom(plot.posToVal(left, 'x'), plot.posToVal(left + wide, 'x'));
          plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
        },
      ],
    },
  };
}

/** Keeps the plot as large as its box. Returns how to stop that. */
export function followSize(host: HTMLElement, plot: uPlot): () => void {
  const observer = new ResizeObserver(() => {
    const size = sizeOf(host);
    if (size.width !== plot.width || size.height !== plot.height) plot.setSize(size);
  });
  observer.observe(host);
  return () => observer.disconnect();
}

function sizeOf(host: HTMLElement): { width: number; height: number } {
  return { width: Math.max(200, host.clientWidth), height: Math.max(150, host.clientHeight) };
}

/** Whether the pointer is here; other plots move their crosshair along. */
export function hasPointer(plot: uPlot): boolean {
  return plot.over.matches(':hover') && (plot.cursor.left ?? -1) >= 0;
}
