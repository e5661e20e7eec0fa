import { useState } from 'preact/hooks';
import { getDocuments, getTypeSeries, type Attribute, type EventType } from '../../api/events';
import { ApiError } from '../../api/error';
import { apiRoot } from '../../api/root';
import { formatDuration } from '../../format/duration';
import { matches } from '../../format/search';
import { buildHash, queryHref, route, setParams } from '../../router';
import { Button } from '../../ui/button';
import { CodeBlock } from '../../ui/code-block';
import { Search } from '../../ui/field';
import { Empty, ErrorBox, Spinner } from '../../ui/feedback';
import { LinkButton } from '../../ui/link-button';
import { Badge } from '../../ui/stat';
import { Table, type Column } from '../../ui/table';
import { useApi } from '../../ui/use-api';
import { metricsOf } from './metrics';

const columns: readonly Column<EventType>[] = [
  { id: 'service', title: 'Service', cell: ({ service }) => service, sort: ({ service }) => service },
  { id: 'type', title: 'Type', cell: (type) => <TypeLink type={type} />, sort: ({ name }) => name },
  { id: 'attributes', title: 'Attributes', cell: ({ attributes }) => attributes.length, sort: ({ attributes }) => attributes.length, number: true },
  { id: 'kept', title: 'Kept', cell: ({ retentionSeconds }) => formatDuration(retentionSeconds), sort: ({ retentionSeconds }) => retentionSeconds, number: true },
];

const attributeColumns: readonly Column<Attribute>[] = [
  { id: 'path', title: 'Attribute', cell: ({ path }) => <code>{path}</code>, sort: ({ path }) => path },
  { id: 'type', title: 'Type', cell: ({ type }) => type, sort: ({ type }) => type },
  { id: 'required', title: 'Required', cell: ({ required }) => (required ? 'yes' : ''), sort: ({ required }) => Number(required) },
  { id: 'indexed', title: 'Indexed', cell: ({ indexed }) => (indexed ? 'yes' : ''), sort: ({ indexed }) => Number(indexed) },
];

function TypeLink({ type }: { type: EventType }) {
  return <LinkButton onClick={() => setParams({ service: type.service, type: type.name })}>{type.name}</LinkButton>;
}

export function Types({ types }: { types: readonly EventType[] }) {
  const { params } = route.value;
  const [text, setText] = useState('');
  const rows = types.filter((type) => matches(`${type.service} ${type.name} ${type.attributes.map(({ path }) => path).join(' ')}`, text));
  const open = types.find(({ service, name }) => service === params.get('service') && name === params.get('type')) ?? (types.length === 1 ? types[0] : undefined);
  return (
    <div class="stack">
      {types.length > 1 && (
        <>
          <div class="row">
            <Search main label="Search types and attributes" value={text} onInput={setText} />
          </div>
          <Table label="Types of events" columns={columns} rows={rows} rowKey={({ service, name }) => `${service} ${name}`} empty={<Empty title="No type is like that." />} />
        </>
      )}
      {open && <TypeView key={`${open.service} ${open.name}`} type={open} />}
    </div>
  );
}

function TypeView({ type }: { type: EventType }) {
  const at = { service: type.service, type: type.name };
  return (
    <section class="stack" aria-label={`The type ${type.name}`}>
      <div class="row spread">
        <h2>
          {type.service} · {type.name}
        </h2>
        <span class="row">
          <a href={buildHash('events', { tab: 'search', ...at })}>Search its events</a>
          <a href={buildHash('events', { tab: 'counters', ...at })}>Its counters</a>
        </span>
      </div>
      <p class="muted">Events are kept for {formatDuration(type.retentionSeconds)}.</p>
      <h3>Attributes</h3>
      <Table label="Attributes" columns={attributeColumns} rows={type.attributes} rowKey={({ path }) => path} empty={<p class="muted">None are registered; others are kept, too.</p>} />
      <h3>Metrics</h3>
      <Metrics type={type} />
      <Documents service={type.service} />
    </section>
  );
}

function Metrics({ type }: { type: EventType }) {
  const { data, error } = useApi((signal) => getTypeSeries(type.service, type.name, signal), [type.service, type.name]);
  if (error) return <ErrorBox error={error} />;
  if (!data) return <Spinner />;
  const metrics = metricsOf(data.names);
  if (metrics.length === 0) return <p class="muted">None has counted an event yet.</p>;
  return (
    <ul class="event-metrics">
      {metrics.map(({ name, kind, promql }) => (
        <li key={name} class="row">
          <Badge>{kind}</Badge>
          <code>{name}</code>
          {kind === 'counter' && <a href={buildHash('events', { tab: 'counters', service: type.service, type: type.name, counter: name })}>Count</a>}
          <a href={queryHref(promql)}>Open in Query</a>
        </li>
      ))}
    </ul>
  );
}

/** The documents of a service, where the browser may see them; else how to get them. */
function Documents({ service }: { service: string }) {
  const [asked, setAsked] = useState(false);
  if (!asked) {
    return (
      <p>
        <Button onClick={() => setAsked(true)}>Documents of {service}</Button>
      </p>
    );
  }
  return <LoadedDocuments service={service} />;
}

function LoadedDocuments({ service }: { service: string }) {
  const { data, error } = useApi((signal) => getDocuments(service, signal), [service]);
  if (error instanceof ApiError && error.status === 403) return <ByCommand service={service} reason={error.message} />;
  if (error) return <ErrorBox error={error} />;
  return data === undefined ? <Spinner /> : <CodeBlock label={`Documents of ${service}`} text={data} />;
}

function ByCommand({ service, reason }: { service: string; reason: string }) {
  const server = `--server ${apiRoot.href.replace(/\/$/, '')}`;
  const text = `icecore events show ${server} '${service.replaceAll("'", `'\\''`)}'`;
  return (
    <div class="stack">
      <p class="muted">
        The server does not show documents here ({reason}). On the server’s machine, or with the role admin, the command line does:
      </p>
      <CodeBlock label="Show the documents" text={`${text} > documents.yaml\nicecore events apply ${server} documents.yaml`} />
    </div>
  );
}
