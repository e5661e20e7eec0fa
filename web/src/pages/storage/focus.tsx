import { useEffect, useRef } from 'preact/hooks';
import { formatCount } from '../../format/number';
import type { Cardinality } from '../../api/storage';
import { buildHash, setParams } from '../../router';
import { Button } from '../../ui/button';
import { RankingTable, useCompared, type Days } from './rankings';

const byValue = (found: Cardinality) => found.seriesCountByFocusLabelValue;
const byMetric = (found: Cardinality) => found.metricsByFocusLabel;

/** A label in focus: its values, and the metrics that have it. */
export function Focus({ label, ...days }: Days & { label: string }) {
  const ref = useRef<HTMLElement>(null);
  // It stands above the list from which it was chosen, which may be long.
  useEffect(() => ref.current?.scrollIntoView({ block: 'nearest' }), []);
  const values = useCompared(days, byValue, true);
  const metrics = useCompared(days, byMetric, true);
  const common = { unit: 'Series', churn: true, format: formatCount, limit: days.limit };
  return (
    <section class="stack focus-box" ref={ref} aria-label={`The label ${label}`}>
      <div class="row spread">
        <h2>
          The label <span class="mono">{label}</span>
        </h2>
        <Button icon="close" onClick={() => setParams({ focus: null })}>
          Close
        </Button>
      </div>
      {byValue(days.day) === undefined ? (
        <p class="muted">This server does not count series by one label.</p>
      ) : (
        <div class="focus">
          <RankingTable
            {...common}
            label="Values of the label"
            what="Value"
            rows={values}
            name={(row) => row.name}
            head={<h3>Its values</h3>}
            note="By number of series that have the value."
          />
          <RankingTable
            {...common}
            label="Metrics with the label"
            what="Metric"
            rows={metrics}
            name={(row) => <a href={buildHash('explore', { metric: row.name, within: '1w', label })}>{row.name}</a>}
            head={<h3>Metrics that have it</h3>}
            note="By number of their series that have the label, whatever its value."
          />
        </div>
      )}
    </section>
  );
}
