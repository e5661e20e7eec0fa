// Lines over time with a legend that shows the values under the cursor.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import { align, lastValue, type Line } from '../format/align';
import { formatCount, formatExact, formatShort } from '../format/number';
import { formatTime } from '../format/time';
import { seriesColor } from '../format/colors';
import { timeTicks } from '../format/time-ticks';
import { dark } from '../state/theme';
import { zone } from '../state/zone';
import './line-chart.css';

/** More lines than that can neither be told apart nor drawn quickly. */
const linesMax = 100;
const height = 300;

export function LineChart(props: {
  label: string;
  lines: readonly Line[];
  /** Moments that are marked, in seconds. */
  marks?: readonly number[];
  /** The range that is shown even where there are no points. */
  start: number;
  end: number;
  /** Somebody has dragged over a range. */
  onSelect?: (start: number, end: number) => void;
}) {
  const box = useRef<HTMLDivElement>(null);
  const [under, setUnder] = useState<number | null>(null);
  const lines = useMemo(() => props.lines.slice(0, linesMax), [props.lines]);
  const data = useMemo(() => align(lines), [lines]);
  const select = useRef(props.onSelect);
  select.current = props.onSelect;

  useEffect(() => {
    const parent = box.current;
    if (!parent) return;
    const plot = new uPlot(
      options(parent, lines, { ...props, marks: props.marks ?? [] }, setUnder, (start, end) => select.current?.(start, end)),
      [data.times, ...data.columns] as uPlot.AlignedData,
      parent,
    );
    const resize = new ResizeObserver(() => plot.setSize({ width: parent.clientWidth, height }));
    resize.observe(parent);
    return () => {
      resize.disconnect();
      plot.destroy();
    };
  }, [data, props.start, props.end, props.marks, dark.value, zone.value]);

  return (
    <figure class="line-chart" aria-label={props.label}>
      <div ref={box} class="line-chart-plot" />
      {props.lines.length > linesMax && (
        <p class="muted">
          {formatCount(linesMax)} of {formatCount(props.lines.length)} series are drawn.
        </p>
      )}
      <figcaption>
        <p class="muted">{under === null ? 'Latest values' : formatTime(data.times[under] ?? NaN, zone.value)}</p>
        <ul class="chart-legend">
          {lines.map(({ name, points }, i) => {
            const value = under === null ? lastValue(points) : data.columns[i]?.[under];
            return (
              <li key={i}>
                <span class="chart-legend-mark" style={{ background: seriesColor(i, dark.value) }} aria-hidden="true" />
                <span class="chart-legend-name">{name}</span>
                <span class="chart-legend-value" title={typeof value === 'number' ? formatExact(value) : ''}>
                  {typeof value === 'number' ? formatShort(value, 5) : '–'}
                </span>
              </li>
            );
          })}
        </ul>
      </figcaption>
    </figure>
  );
}

function options(
  parent: HTMLElement,
  lines: readonly Line[],
  range: { start: number; end: number; marks: readonly number[] },
  onCursor: (index: number | null) => void,
  onSelect: (start: number, end: number) => void,
): uPlot.Options {
  // A canvas does not know variables, so that the colors are taken from an element that has them.
  const style = getComputedStyle(parent);
  const axis = { stroke: style.color, grid: { stroke: style.borderTopColor, width: 1 }, ticks: { stroke: style.borderTopColor, width: 1 } };
  const result: uPlot.Options = {
    width: parent.clientWidth,
    height,
    legend: { show: false },
    cursor: { drag: { x: true, y: false, setScale: false }, points: { size: 6 } },
    scales: { x: { time: true, range: [range.start, range.end] } },
    axes: [{ ...axis, values: (_, ticks, _axis, _space, distance) => timeTicks(ticks, distance, zone.value) }, { ...axis, size: 64, values: (_, values) => values.map((value) => formatShort(value)) }],
    series: [
      {},
      ...lines.map((line, i) => ({ label: line.name, stroke: seriesColor(i, dark.value), width: 1.5 })),
    ],
    hooks: {
      setCursor: [(plot) => onCursor(plot.cursor.idx ?? null)],
      setSelect: [
        (plot) => {
          const { left, width } = plot.select;
          if (width > 4) onSelect(plot.posToVal(left, 'x'), plot.posToVal(left + width, 'x'));
          plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
        },
      ],
      draw: [(plot) => drawMarks(plot, range.marks, style.outlineColor)],
    },
  };
  if (zone.value === 'utc') result.tzDate = (at) => uPlot.tzDate(new Date(at * 1000), 'Etc/UTC');
  return result;
}

function drawMarks(plot: uPlot, marks: readonly number[], color: string): void {
  const { ctx, bbox } = plot;
  ctx.save();
  ctx.strokeStyle = color;
  ctx.setLineDash([4, 4]);
  for (const at of marks) {
    const x = Math.round(plot.valToPos(at, 'x', true));
    if (x < bbox.left || x > bbox.left + bbox.width) continue;
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
  }
  ctx.restore();
}
