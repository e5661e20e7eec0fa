import { useEffect, useMemo, useState } from 'preact/hooks';
import { getTypeSeries, queryCounters, type EventType } from '../../api/events';
import { queryHref, route, setParams } from '../../router';
import { Field, Select } from '../../ui/field';
import { Button } from '../../ui/button';
import { Empty, ErrorBox, Spinner } from '../../ui/feedback';
import { LineChart } from '../../ui/line-chart';
import { readSpan, spanParams } from '../../ui/span-params';
import { Suggest } from '../../ui/suggest';
import { bounds, TimeRange, type Span } from '../../ui/time-range';
import { useApi } from '../../ui/use-api';
import { countLines, countPromql, intervalChoices, intervalFor } from './counts';
import { dimensionsOf, metricsOf } from './metrics';
import { chosen, TypeChoice } from './type-choice';

const storedEvents = 'events_stored_total';

export function Counters({ types }: { types: readonly EventType[] }) {
  const { params } = route.value;
  const { service, type } = chosen(types, params);
  const span = readSpan(params);
  const paths = useMemo(() => types.find((known) => known.service === service && known.name === type)?.attributes.map(({ path }) => path) ?? [], [types, service, type]);
  const series = useApi((signal) => getTypeSeries(service, type, signal), [service, type]);
  const counters = metricsOf(series.data?.names ?? []).filter(({ kind }) => kind === 'counter');
  // Every type has the one of stored events: those that somebody defined come first.
  counters.sort((a, b) => Number(a.name === storedEvents) - Number(b.name === storedEvents));
  const dimensions = dimensionsOf(series.data?.labels ?? [], paths);
  const counter = params.get('counter') ?? counters[0]?.name ?? '';
  const interval = params.get('interval') ?? '';
  const by = params.get('by') ?? '';
  return (
    <div class="stack">
      <div class="row fields">
        <TypeChoice types={types} service={service} type={type} />
        <CounterName value={counter} names={counters.map(({ name }) => name)} />
        <Field label="Split by">
          <Select label="Split by" value={by} choices={[{ value: '', text: 'nothing' }, ...[...new Set([...dimensions, ...(by ? [by] : [])])].map((value) => ({ value, text: value }))]} onChange={(next) => setParams({ by: next || null })} />
        </Field>
        <Field label="Each">
          <Select label="Each" value={interval} choices={[{ value: '', text: `auto (${intervalFor(span.range)})` }, ...intervalChoices.map((value) => ({ value, text: value }))]} onChange={(next) => setParams({ interval: next || null })} />
        </Field>
        <TimeRange value={span} onChange={(next) => setParams(spanParams(next))} />
      </div>
      {series.error !== undefined && series.error !== null && <ErrorBox error={series.error} />}
      {counter === '' ? (
        series.data && <Empty title="No counter of this type has counted an event yet." />
      ) : (
        <Counts service={service} type={type} counter={counter} by={by === '' ? [] : [by]} interval={interval || intervalFor(span.range)} span={span} />
      )}
    </div>
  );
}

/** Counters are found by what they have counted, so that a name can be typed as well. */
function CounterName({ value, names }: { value: string; names: readonly string[] }) {
  const [text, setText] = useState(value);
  useEffect(() => setText(value), [value]);
  return (
    <form
      class="row fields"
      onSubmit={(event) => {
        event.preventDefault();
        setParams({ counter: text || null });
      }}
    >
      <Field label="Counter">
        <Suggest label="Counter" value={text} of={names.join()} onInput={setText} ask={(typed) => Promise.resolve(names.filter((name) => name.includes(typed) || names.includes(typed)))} />
      </Field>
      {text !== value && <Button type="submit">Show</Button>}
    </form>
  );
}

function Counts(props: { service: string; type: string; counter: string; by: readonly string[]; interval: string; span: Span }) {
  const { service, type, counter, by, interval, span } = props;
  const deps = [service, type, counter, by.join(), interval, span.range, span.end];
  const { start, end } = useMemo(() => bounds(span, Date.now() / 1000), deps);
  const { data, error, loading, reload } = useApi(
    (signal) =>
      queryCounters(
        {
          serviceKey: service,
          eventType: type,
          counterName: counter,
          interval,
          start: new Date(Math.round(start * 1000)).toISOString(),
          end: new Date(Math.round(end * 1000)).toISOString(),
          groupBy: by,
          format: 'columnar',
          limits: { offset: 0, limit: 11000 },
        },
        signal,
      ),
    deps,
  );
  const lines = useMemo(() => (data ? countLines(data, by, counter) : []), [data]);
  if (error !== undefined && error !== null) return <ErrorBox error={error} onRetry={reload} />;
  if (!data) return <Spinner />;
  const zoom = (from: number, to: number) => setParams(spanParams({ range: Math.max(60, Math.round(to - from)), end: Math.round(to) }));
  return (
    <div class="stack" aria-busy={loading}>
      {lines.length === 0 ? <Empty title="Nothing was counted in that time." /> : <LineChart label={`${counter} for each ${interval}`} lines={lines} start={start} end={end} onSelect={zoom} />}
      <p class="muted" role="status">
        Counted for each {interval}, from windows of {data.window}
        {data.partial ? '; older windows are gone' : ''}. <a href={queryHref(countPromql(counter, service, type, by, interval))}>Open in Query</a>
      </p>
    </div>
  );
}
