import { formatPercent } from '../../format/number';
import { Badge } from '../../ui/stat';
import type { Compared } from './compare';

/** How much it grew since the day before. */
export function Change({ row, format }: { row: Compared; format: (n: number) => string }) {
  const { value, before } = row;
  if (before === null) return null;
  if (before === 0 && value > 0) return <Badge kind="warn">new</Badge>;
  if (value === 0 && before > 0) return <Badge>gone</Badge>;
  if (value === before) return <span class="muted">same</span>;
  const sign = value > before ? '+' : '−';
  const grown = Math.abs(value - before);
  // A tenth more in a day is worth a look.
  const kind = value > before * 1.1 ? 'grown' : '';
  return (
    <span class={kind}>
      {sign}
      {format(grown)} <span class="muted">({sign + formatPercent(grown / before)})</span>
    </span>
  );
}
