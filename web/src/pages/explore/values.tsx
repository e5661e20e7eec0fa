// What a metric was last, and in the last hour.
import { useState } from 'preact/hooks';
import { getLastValues, getLines, type LastValue } from '../../api/explore';
import { metricSelector, seriesName } from '../../format/labels';
import { formatCount, formatExact, formatShort } from '../../format/number';
import { extentOf } from '../../format/sparkline';
import { queryHref } from '../../router';
import { Button } from '../../ui/button';
import { ErrorBox, Spinner } from '../../ui/feedback';
import { Sparkline } from '../../ui/sparkline';
import { Table, type Column } from '../../ui/table';
import { useApi } from '../../ui/use-api';
import { drawn } from './expression';

const hour = 3600;
const step = 60;
const valuesShown = 10;

/** Above so many series the server would have to read a lot just because somebody looks: it is asked on demand. */
const readUnasked = 20_000;

function useConsent(series: number): [boolean, () => void] {
  const [agreed, setAgreed] = useState(false);
  return [agreed || series <= readUnasked, () => setAgreed(true)];
}

export function LastHour({ name, type, series }: { name: string; type: string | null; series: number }) {
  const { expr, what } = drawn(name, type, series);
  const [wanted, agree] = useConsent(series);
  return (
    <section aria-label="Last hour">
      <h2>
        Last hour <span class="muted">{what}</span>
      </h2>
      {wanted ? <Lines expr={expr} what={what} /> : <Ask series={series} onAsk={agree} />}
    </section>
  );
}

function Lines({ expr, what }: { expr: string; what: string }) {
  const { data, error, reload } = useApi(
    async (signal) => {
      const end = Math.floor(Date.now() / 1000 / step) * step;
      return { end, lines: await getLines(expr, end - hour, end, step, valuesShown, signal) };
    },
    [expr],
    step,
  );
  if (error !== undefined) return <ErrorBox error={error} onRetry={reload} />;
  if (!data) return <Spinner />;
  const extent = extentOf(data.lines, data.end - hour, data.end);
  if (!extent) return <p class="muted">Not enough samples in the last hour.</p>;
  const range = `${formatShort(extent.low)} to ${formatShort(extent.high)}`;
  return (
    <a class="spark-link" href={queryHref(expr)} title={`Open ${expr}`}>
      <Sparkline label={`${what}: ${range}`} lines={data.lines} start={data.end - hour} end={data.end} step={step} />
      <span class="spark-scale">
        <span>{formatShort(extent.high)}</span>
        <span>{formatShort(extent.low)}</span>
      </span>
    </a>
  );
}

export function LastValues({ name, series }: { name: string; series: number }) {
  const [wanted, agree] = useConsent(series);
  return (
    <section aria-label="Last values">
      <h2>
        Last values {series > valuesShown && <span class="muted">{valuesShown} of {formatCount(series)} series</span>}
      </h2>
      {wanted ? <Values name={name} /> : <Ask series={series} onAsk={agree} />}
    </section>
  );
}

function Values({ name }: { name: string }) {
  const selector = metricSelector(name);
  const { data, error, reload } = useApi((signal) => getLastValues(selector, valuesShown, signal), [selector], 15);
  if (error !== undefined) return <ErrorBox error={error} onRetry={reload} />;
  if (!data) return <Spinner />;
  return (
    <Table
      label="Last values"
      columns={valueColumns}
      rows={data}
      rowKey={(row) => seriesName(row.metric)}
      empty={<p class="muted">No value now: the last samples are too old for an instant query.</p>}
    />
  );
}

const valueColumns: readonly Column<LastValue>[] = [
  {
    id: 'series',
    title: 'Labels',
    class: 'labels',
    cell: ({ metric: { __name__: _, ...labels } }) => <span class="mono">{seriesName(labels)}</span>,
  },
  {
    id: 'value',
    title: 'Value',
    number: true,
    cell: ({ value, histogram }) => (value !== null ? formatExact(value) : histogram && `${histogram.count} observations, sum ${histogram.sum}`),
  },
];

function Ask({ series, onAsk }: { series: number; onAsk: () => void }) {
  return (
    <p class="muted">
      This reads {formatCount(series)} series. <Button onClick={onAsk}>Read them</Button>
    </p>
  );
}
