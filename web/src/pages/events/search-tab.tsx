import { useEffect, useMemo, useState } from 'preact/hooks';
import { searchEvents, type EventType, type SearchBody, type StoredEvent } from '../../api/events';
import { formatElapsed } from '../../format/duration';
import { route, setParams } from '../../router';
import { Button, IconButton } from '../../ui/button';
import { Empty, ErrorBox, Spinner } from '../../ui/feedback';
import { useKeys } from '../../ui/keys';
import { LabelList } from '../../ui/label-list';
import { LinkButton } from '../../ui/link-button';
import { readSpan, spanParams } from '../../ui/span-params';
import { Badge } from '../../ui/stat';
import { Table, type Column } from '../../ui/table';
import { Time } from '../../ui/time';
import { bounds, TimeRange } from '../../ui/time-range';
import { useApi } from '../../ui/use-api';
import { Conditions } from './condition-form';
import { flatten, toBody, type Condition } from './conditions';
import { readConditions, writeConditions } from './search-link';
import { chosen, TypeChoice } from './type-choice';

const pageSize = 50;

const columns: readonly Column<StoredEvent>[] = [
  {
    id: 'time',
    title: 'Start',
    cell: (event) => (
      <LinkButton title="Show the whole event" onClick={() => setParams({ id: event.event_id, service: event.service_id })}>
        <Time at={Date.parse(event.started_at) / 1000} />
      </LinkButton>
    ),
    class: 'event-time',
  },
  { id: 'type', title: 'Type', cell: ({ event_type }) => event_type },
  { id: 'outcome', title: 'Outcome', cell: ({ outcome, error_message }) => <Outcome outcome={outcome} message={error_message} /> },
  { id: 'took', title: 'Took', cell: ({ duration_nanos }) => (duration_nanos === undefined ? '' : formatElapsed(duration_nanos / 1e9)), number: true },
  { id: 'attributes', title: 'Attributes', cell: ({ attributes }) => <LabelList labels={Object.fromEntries(flatten(attributes))} /> },
];

function Outcome({ outcome, message }: { outcome: string; message: string | undefined }) {
  const kind = outcome === 'SUCCESS' ? 'good' : outcome === 'FAILURE' ? 'bad' : 'neutral';
  return (
    <span title={message ?? ''}>
      <Badge kind={kind}>{outcome.toLowerCase()}</Badge>
    </span>
  );
}

export function SearchTab({ types }: { types: readonly EventType[] }) {
  const { params } = route.value;
  const { service, type } = chosen(types, params, true);
  const span = readSpan(params);
  const asked = useMemo(() => readConditions(params), [params]);
  const [conditions, setConditions] = useState<Condition[]>(asked);
  const [any, setAny] = useState(params.get('any') === '1');
  const [round, setRound] = useState(0);
  useEffect(() => setConditions(asked), [asked]);
  const attributes = useMemo(
    () => types.filter((known) => known.service === service && (type === '' || known.name === type)).flatMap((known) => known.attributes),
    [types, service, type],
  );
  const run = () => {
    writeConditions(conditions, any);
    setRound((n) => n + 1);
  };
  useKeys([{ key: 'Ctrl-Enter', help: 'Search', run }]);
  const body = useMemo((): SearchBody => {
    const { start, end } = bounds(span, Date.now() / 1000);
    return {
      service,
      ...(type ? { event: type } : {}),
      period: { between: [iso(start), iso(end)] },
      ...toBody(asked, params.get('any') === '1', attributes),
      limit: pageSize,
    };
  }, [service, type, span.range, span.end, asked, attributes, params.get('any'), round]);
  return (
    <div class="stack">
      <form
        class="stack"
        onSubmit={(event) => {
          event.preventDefault();
          run();
        }}
      >
        <div class="row fields">
          <TypeChoice types={types} service={service} type={type} any />
          <TimeRange value={span} onChange={(next) => setParams(spanParams(next))} />
        </div>
        <Conditions service={service} attributes={attributes} conditions={conditions} any={any} onChange={setConditions} onAny={setAny}>
          <Button type="submit" kind="primary" icon="search" title="Ctrl-Enter">
            Search
          </Button>
        </Conditions>
      </form>
      <Results key={JSON.stringify(body)} first={body} />
    </div>
  );
}

function Results({ first }: { first: SearchBody }) {
  // The bodies of the pages so far: each answer has that of the next one, with a cursor.
  const [pages, setPages] = useState<SearchBody[]>([first]);
  const { data, error, loading, reload } = useApi((signal) => searchEvents(pages.at(-1)!, signal), [pages]);
  if (error !== undefined && error !== null) return <ErrorBox error={error} onRetry={reload} />;
  if (!data) return <Spinner />;
  const next = data.links.next?.body;
  const many = pages.length > 1 || next !== undefined;
  return (
    <div class="stack" aria-busy={loading}>
      <p class="off-screen" role="status">
        {data.count} events on page {pages.length}
      </p>
      <Table label="Events found" columns={columns} rows={data.data.events} rowKey={(event) => event.event_id} empty={<Empty title="No events are like that." />} />
      {many && (
        <div class="row" role="group" aria-label="Pages">
          <IconButton icon="left" label="Newer events" disabled={loading || pages.length === 1} onClick={() => setPages(pages.slice(0, -1))} />
          <span class="muted">page {pages.length}</span>
          <IconButton icon="right" label="Older events" disabled={loading || !next} onClick={() => next && setPages([...pages, next])} />
        </div>
      )}
    </div>
  );
}

const iso = (at: number) => new Date(Math.round(at * 1000)).toISOString();
