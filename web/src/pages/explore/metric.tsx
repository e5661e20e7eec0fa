import { getLabels, getMetric } from '../../api/explore';
import type { MetricName } from '../../api/status';
import { formatCount } from '../../format/number';
import { buildHash, queryHref, route, setParams } from '../../router';
import { Copy } from '../../ui/copy';
import { KnownStat } from '../../ui/explain';
import { ErrorBox, Spinner } from '../../ui/feedback';
import { Segmented } from '../../ui/segmented';
import { Badge, Stats } from '../../ui/stat';
import { Ago } from '../../ui/time';
import { useApi } from '../../ui/use-api';
import { suggestions } from './expression';
import { LabelList } from './labels';
import { readWithin, since, withins, type Within } from './within';
import { LastHour, LastValues } from './values';

/** One metric: what it is, how much of it there is, what it was last, and its labels. */
export function MetricView({ name }: { name: string }) {
  const within = readWithin(route.value.params.get('within'));
  const metric = useApi((signal) => getMetric(name, signal), [name]);
  const labels = useApi((signal) => getLabels(name, since(within, Date.now() / 1000), signal), [name, within]);
  const series = labels.data?.headStats.numSeries;
  return (
    <div class="stack">
      <div>
        <a href={backHref()}>← All metrics</a>
        <div class="row">
          <h1 class="mono metric-title">{name}</h1>
          <Copy text={name} label="Copy the name" />
          {metric.data?.type && metric.data.type !== 'unknown' && <Badge>{metric.data.type}</Badge>}
          {metric.data?.unit && <Badge>{metric.data.unit}</Badge>}
        </div>
        {metric.data && <p class={metric.data.help ? '' : 'muted'}>{metric.data.help || 'Nobody has sent a description.'}</p>}
      </div>
      {metric.error !== undefined && <ErrorBox error={metric.error} onRetry={metric.reload} />}
      {metric.data && <QueryLinks metric={metric.data} />}
      <div class="row spread">
        <Stats>
          <KnownStat label="Series" help="Combinations of label values that have samples in the chosen time. They decide what a metric costs.">
            {series === undefined ? '…' : formatCount(series)}
          </KnownStat>
          {metric.data && metric.data.queries !== null && <Usage metric={metric.data} />}
        </Stats>
        <div class="row">
          <span class="muted">Series and labels of</span>
          <Segmented
            label="Series and labels of"
            value={within}
            choices={withins.map(({ id, text }) => ({ value: id, text }))}
            onChange={(value: Within) => setParams({ within: value === '1h' ? null : value })}
          />
        </div>
      </div>
      {labels.error !== undefined && <ErrorBox error={labels.error} onRetry={labels.reload} />}
      {metric.data && series !== undefined && series > 0 && (
        <div class="metric-now">
          <LastHour name={name} type={metric.data.type} series={series} />
          <LastValues name={name} series={series} />
        </div>
      )}
      {labels.data ? <LabelList key={within} name={name} within={within} cardinality={labels.data} /> : labels.loading && <Spinner />}
    </div>
  );
}

function backHref(): string {
  const params = new URLSearchParams(route.value.params);
  for (const own of ['metric', 'within', 'label', 'values']) params.delete(own);
  return buildHash('explore', params);
}

function QueryLinks({ metric }: { metric: MetricName }) {
  return (
    <ul class="query-links" aria-label="Queries">
      {suggestions(metric.name, metric.type).map(({ title, expr }, i) => (
        <li key={expr}>
          <a class={i === 0 ? 'button primary' : 'button'} href={queryHref(expr)} title={expr}>
            {title}
          </a>
          {i === 0 && <code>{expr}</code>}
        </li>
      ))}
    </ul>
  );
}

function Usage({ metric }: { metric: MetricName }) {
  return (
    <>
      <KnownStat label="Read" help="Queries that selected this metric since the server started. The count begins anew with every start. Looking at this page does not count.">
        {metric.queries === 0 ? 'never' : `${formatCount(metric.queries ?? 0)} times`}
      </KnownStat>
      {metric.lastQueried !== null && (
        <KnownStat label="Last read" help="When a query selected this metric for the last time.">
          <Ago at={metric.lastQueried} />
        </KnownStat>
      )}
    </>
  );
}
