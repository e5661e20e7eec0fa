import { useEffect, useMemo, useState } from 'preact/hooks';
import { getAggregators, queryPoints } from '../../api/opentsdb';
import { route } from '../../router';
import { Button } from '../../ui/button';
import { CodeBlock } from '../../ui/code-block';
import { Empty, ErrorBox, Spinner } from '../../ui/feedback';
import { useKeys } from '../../ui/keys';
import { LineChart } from '../../ui/line-chart';
import { Time } from '../../ui/time';
import { bounds, TimeRange } from '../../ui/time-range';
import { useApi } from '../../ui/use-api';
import { readView, writeView, type View } from './link';
import { seconds, toLines, toNotes } from './points';
import { Promql } from './promql';
import { SubQueryForm } from './sub-query-form';
import { formatM, newSubQuery, toJson, type SubQuery } from './sub-query';

const usualAggregators = ['sum', 'avg', 'min', 'max', 'count', 'none', 'zimsum', 'mimmin', 'mimmax', 'dev', 'p50', 'p95', 'p99'];

export function QueryTab() {
  const view = useMemo(() => readView(route.value.params), [route.value]);
  // What is being written is not in the hash until it is run.
  const [queries, setQueries] = useState(view.queries);
  useEffect(() => setQueries(view.queries), [view]);
  const aggregators = useApi((signal) => getAggregators(signal).catch(() => usualAggregators), []).data ?? usualAggregators;
  const [round, setRound] = useState(0);

  const run = () => {
    writeView({ queries, span: view.span });
    setRound((n) => n + 1);
  };
  useKeys([{ key: 'Ctrl-Enter', help: 'Run the query', run }]);
  const change = (i: number, query: SubQuery) => setQueries(queries.map((old, k) => (k === i ? query : old)));
  const ready = queries.some(({ metric }) => metric !== '');
  return (
    <div class="stack">
      <form
        class="stack"
        onSubmit={(event) => {
          event.preventDefault();
          run();
        }}
      >
        {queries.map((query, i) => (
          <SubQueryForm
            key={i}
            query={query}
            aggregators={aggregators}
            onChange={(next) => change(i, next)}
            {...(queries.length > 1 ? { onRemove: () => setQueries(queries.filter((_, k) => k !== i)) } : {})}
          />
        ))}
        <div class="row">
          <Button type="submit" kind="primary" icon="play" disabled={!ready} title="Ctrl-Enter">
            Run
          </Button>
          <Button icon="plus" onClick={() => setQueries([...queries, { ...newSubQuery }])}>
            Add a query
          </Button>
          <TimeRange value={view.span} onChange={(span) => writeView({ queries, span })} />
        </div>
      </form>
      <Answer view={view} round={round} />
    </div>
  );
}

function Answer({ view, round }: { view: View; round: number }) {
  const asked = view.queries.filter(({ metric }) => metric !== '');
  const { start, end } = useMemo(() => bounds(view.span, Date.now() / 1000), [view, round]);
  const { data, error, loading, reload } = useApi(
    (signal) => (asked.length === 0 ? Promise.resolve([]) : queryPoints(start, end, asked.map(toJson), signal)),
    [view, round],
  );
  const lines = useMemo(() => toLines(data ?? []), [data]);
  const notes = useMemo(() => toNotes(data ?? []), [data]);
  const marks = useMemo(() => notes.map(({ startTime }) => seconds(startTime)), [notes]);
  if (asked.length === 0) return <Empty title="Choose a metric, and run." />;
  const zoom = (from: number, to: number) => writeView({ queries: view.queries, span: { range: Math.max(1, Math.round(to - from)), end: Math.round(to) } });
  return (
    <>
      <div class="opentsdb-answer" aria-busy={loading}>
        <p class="off-screen" role="status">
          {loading ? '' : `${lines.length} series`}
        </p>
        {error !== undefined && error !== null ? (
          <ErrorBox error={error} onRetry={reload} />
        ) : !data ? (
          <Spinner />
        ) : lines.length === 0 ? (
          <Empty title="No points in that time." />
        ) : (
          <LineChart label="Answer of OpenTSDB" lines={lines} marks={marks} start={start} end={end} onSelect={zoom} />
        )}
        {notes.length > 0 && (
          <ul class="notes" aria-label="Annotations">
            {notes.map(({ tsuid, startTime, description, notes: more }) => (
              <li key={`${tsuid} ${startTime}`}>
                <span class="muted">
                  <Time at={seconds(startTime)} />
                </span>{' '}
                {description} <span class="muted">{more}</span>
              </li>
            ))}
          </ul>
        )}
      </div>
      <details open>
        <summary>The same in other words</summary>
        <div class="stack opentsdb-words">
          <CodeBlock label="Parameter m of /api/query" text={asked.map((query) => `m=${formatM(query)}`).join('\n')} />
          <Promql queries={asked} span={view.span} />
        </div>
      </details>
    </>
  );
}
