import { signal } from '@preact/signals';
import { useCallback, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import type { Exemplars, Grid } from '../../api/query';
import { seriesName } from '../../format/labels';
import { parseValue } from '../../format/number';
import { dark } from '../../state/theme';
import { zone } from '../../state/zone';
import { Empty } from '../../ui/feedback';
import { ExemplarTable } from './exemplars';
import { GraphPlot, type Hover, type Point } from './graph-plot';
import { Legend } from './legend';
import type { Zooming } from './plot';
import { toLines, type Ranged } from './series';
import { Tooltip } from './tooltip';

const exemplarsMax = 500;

interface Props extends Zooming {
  data: Ranged;
  grid: Grid;
  stacked: boolean;
  log: boolean;
  exemplars: readonly Exemplars[];
}

export function Graph({ data, grid, stacked, log, exemplars, onZoom, onZoomOut }: Props) {
  const lines = useMemo(() => toLines(data, grid), [data, grid]);
  const names = useMemo(() => lines.lines.map(({ labels }) => seriesName(labels)), [lines]);
  const points = useMemo(() => exemplarPoints(exemplars), [exemplars]);
  // By name, so that a refresh does not bring back what was hidden.
  const [hidden, setHidden] = useState<ReadonlySet<string>>(new Set());
  const hover = useMemo(() => signal<Hover | null>(null), []);
  const host = useRef<HTMLDivElement>(null);
  const plot = useRef<GraphPlot | null>(null);
  const shown = useCallback((i: number) => !hidden.has(names[i] ?? ''), [hidden, names]);

  // A plot is built anew when it looks different; else it only gets other lines. Before the browser paints: a page
  // without its lines would be laid out and painted for nobody.
  const zooming = useRef<Zooming>({ onZoom, onZoomOut });
  zooming.current = { onZoom, onZoomOut };
  const isEmpty = names.length === 0;
  useLayoutEffect(() => {
    if (!host.current || isEmpty) return;
    const style = { stacked, log, dark: dark.value, zone: zone.value };
    const forward: Zooming = { onZoom: (start, end) => zooming.current.onZoom(start, end), onZoomOut: () => zooming.current.onZoomOut() };
    const onHover = (next: Hover | null) => {
      if (next?.line !== hover.value?.line) plot.current?.setHighlight(next?.line ?? -1);
      hover.value = next;
    };
    plot.current = new GraphPlot(host.current, lines, shown, style, forward, onHover);
    plot.current.setExemplars(points);
    return () => {
      hover.value = null;
      plot.current?.destroy();
      plot.current = null;
    };
  }, [isEmpty, stacked, log, dark.value, zone.value]);
  useLayoutEffect(() => plot.current?.setLines(lines, shown), [lines, shown]);
  useLayoutEffect(() => plot.current?.setExemplars(points), [points]);

  if (isEmpty) {
    return lines.histograms > 0 ? (
      <Empty title="These are native histograms.">The heatmap shows them; histogram_quantile and histogram_avg make lines of them.</Empty>
    ) : (
      <Empty title="No data in this range." />
    );
  }
  return (
    <div class="graph">
      <div class="plot-box">
        <div class="plot" ref={host} role="img" aria-label={`Graph of ${names.length} series; the table below has their values`} />
        <Tooltip hover={hover} lines={lines} exemplars={exemplars} />
      </div>
      <Legend lines={lines} names={names} hidden={hidden} onHidden={setHidden} hover={hover} onHighlight={(line) => plot.current?.setHighlight(line)} />
      {points.length > 0 && <ExemplarTable exemplars={exemplars} />}
    </div>
  );
}

function exemplarPoints(exemplars: readonly Exemplars[]): Point[] {
  return exemplars
    .flatMap((series) => series.exemplars.map(({ timestamp, value }) => ({ at: timestamp, value: parseValue(value) })))
    .filter(({ value }) => Number.isFinite(value))
    .slice(0, exemplarsMax);
}
