import type { Signal } from '@preact/signals';
import type { Exemplars } from '../../api/query';
import type { Labels } from '../../format/labels';
import { formatExact } from '../../format/number';
import { formatTime } from '../../format/time';
import { dark } from '../../state/theme';
import { zone } from '../../state/zone';
import { seriesColor } from '../../format/colors';
import { flatten } from './exemplars';
import type { Hover } from './graph-plot';
import type { Lines } from './series';
import { placed } from './tooltip-place';

/** Beside the pointer: the time, and the nearest line or exemplar. */
export function Tooltip({ hover, lines, exemplars }: { hover: Signal<Hover | null>; lines: Lines; exemplars: readonly Exemplars[] }) {
  const now = hover.value;
  if (!now) return null;
  const exemplar = now.exemplar < 0 ? undefined : flatten(exemplars)[now.exemplar];
  const line = lines.lines[now.line];
  if (!exemplar && !line) return null;
  return (
    <div class="tooltip" style={placed(now)}>
      <div class="tooltip-time">{formatTime(exemplar?.at ?? lines.times[now.at] ?? NaN, zone.value)}</div>
      <div class="tooltip-value">
        {!exemplar && <span class="swatch" style={{ background: seriesColor(now.line, dark.value) }} />}
        {exemplar ? `Exemplar: ${exemplar.value}` : formatExact(line?.values[now.at] ?? NaN)}
      </div>
      <LabelList labels={exemplar?.labels ?? line?.labels ?? {}} />
    </div>
  );
}

export function LabelList({ labels }: { labels: Labels }) {
  const { __name__: name, ...rest } = labels;
  return (
    <ul class="plain-list">
      {name !== undefined && <li class="label-metric">{name}</li>}
      {Object.entries(rest).map(([label, value]) => (
        <li key={label}>
          <span class="label-name">{label}</span>={value}
        </li>
      ))}
    </ul>
  );
}
