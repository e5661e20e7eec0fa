import type { Cardinality } from '../../api/storage';
import { formatCount, formatPercent } from '../../format/number';
import { KnownStat } from '../../ui/explain';
import { Stats } from '../../ui/stat';
import { churn } from './compare';

export function ChurnStats({ day, before, both }: { day: Cardinality; before: Cardinality; both: Cardinality | null }) {
  const series = day.headStats.numSeries;
  const changed = both && churn(series, before.headStats.numSeries, both.headStats.numSeries);
  const share = (part: number) => (series > 0 ? ` (${formatPercent(part / series)})` : '');
  return (
    <Stats>
      <KnownStat label="Series of the day" help="Different series that have a sample on this day.">
        {formatCount(series)}
      </KnownStat>
      <KnownStat label="Day before" help="The same for the day before.">
        {formatCount(before.headStats.numSeries)}
      </KnownStat>
      <KnownStat
        label="New"
        help="Churn: series of the day that the day before did not have. It is the number of series of both days together less that of the day before. A share of more than a few percent is usually a label with an identifier that changes, such as a pod or a build."
      >
        {changed ? `${formatCount(changed.added)}${share(changed.added)}` : '–'}
      </KnownStat>
      <KnownStat label="Gone" help="Series of the day before that have no sample on this day.">
        {changed ? formatCount(changed.gone) : '–'}
      </KnownStat>
      <KnownStat label="Label pairs" help="Different pairs of a label and a value. The index has an entry for each.">
        {formatCount(day.headStats.numLabelPairs)}
      </KnownStat>
    </Stats>
  );
}
