import { signal, type Signal } from '@preact/signals';
import { useEffect, useMemo, useRef } from 'preact/hooks';
import type { Grid } from '../../api/query';
import { formatExact, formatShort } from '../../format/number';
import { formatTime } from '../../format/time';
import { dark } from '../../state/theme';
import { zone } from '../../state/zone';
import { Empty } from '../../ui/feedback';
import { heatColor } from '../../format/colors';
import { toHeatmap, type Heatmap } from './heatmap-bins';
import { HeatmapPlot, type Cell } from './heatmap-plot';
import type { Zooming } from './plot';
import type { Ranged } from './series';
import { placed } from './tooltip-place';

export function HeatmapView({ data, grid, onZoom, onZoomOut }: { data: Ranged; grid: Grid } & Zooming) {
  const map = useMemo(() => toHeatmap(data, grid), [data, grid]);
  const hover = useMemo(() => signal<Cell | null>(null), []);
  const host = useRef<HTMLDivElement>(null);
  const plot = useRef<HeatmapPlot | null>(null);
  const zooming = useRef<Zooming>({ onZoom, onZoomOut });
  zooming.current = { onZoom, onZoomOut };
  const some = map !== null;
  useEffect(() => {
    if (!host.current || !map) return;
    const forward: Zooming = { onZoom: (start, end) => zooming.current.onZoom(start, end), onZoomOut: () => zooming.current.onZoomOut() };
    plot.current = new HeatmapPlot(host.current, map, { dark: dark.value, zone: zone.value }, forward, (cell) => (hover.value = cell));
    return () => {
      hover.value = null;
      plot.current?.destroy();
      plot.current = null;
    };
  }, [some, dark.value, zone.value]);
  useEffect(() => {
    if (map) plot.current?.setMap(map);
  }, [map]);

  if (!map) {
    return (
      <Empty title={data.result.length === 0 ? 'No data in this range.' : 'A heatmap needs buckets.'}>
        {data.result.length > 0 && (
          <p>
            Native histograms have them, and series with the label <code>le</code>: <code>sum by (le) (rate(…_bucket[5m]))</code>
          </p>
        )}
      </Empty>
    );
  }
  return (
    <div class="graph">
      <div class="plot-box">
        <div class="plot" ref={host} role="img" aria-label={`Heatmap of ${map.cells.length} buckets`} />
        <CellTooltip hover={hover} map={map} />
      </div>
      <Scale max={map.max} />
    </div>
  );
}

function CellTooltip({ hover, map }: { hover: Signal<Cell | null>; map: Heatmap }) {
  const now = hover.value;
  if (!now) return null;
  const { row, at } = now;
  return (
    <div class="tooltip" style={placed(now)}>
      <div class="tooltip-time">{formatTime(map.times[at] ?? NaN, zone.value)}</div>
      <div class="tooltip-value">{formatExact(Number((map.cells[row]?.[at] ?? 0).toPrecision(6)))}</div>
      <div>
        from {formatShort(map.edges[row] ?? NaN, 5)} to {formatShort(map.edges[row + 1] ?? NaN, 5)}
      </div>
    </div>
  );
}

const scaleSteps = 12;

function Scale({ max }: { max: number }) {
  return (
    <div class="heat-scale">
      0
      <span class="heat-steps" aria-hidden="true">
        {Array.from({ length: scaleSteps }, (_, i) => (
          <span key={i} style={{ background: heatColor((i + 1) / scaleSteps, dark.value) }} />
        ))}
      </span>
      {formatShort(max)}
    </div>
  );
}
