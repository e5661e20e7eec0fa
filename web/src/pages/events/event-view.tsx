import { getEvent } from '../../api/events';
import { setParams } from '../../router';
import { Button } from '../../ui/button';
import { CodeBlock } from '../../ui/code-block';
import { ErrorBox, Spinner } from '../../ui/feedback';
import { LinkButton } from '../../ui/link-button';
import { Table, type Column } from '../../ui/table';
import { useApi } from '../../ui/use-api';
import { searchable, encodeCondition, flatten, shown } from './conditions';
import { addCondition } from './search-link';

type Row = { name: string; value: unknown; condition: string | null };

const columns: readonly Column<Row>[] = [
  { id: 'name', title: 'Field', cell: ({ name }) => <code>{name}</code>, sort: ({ name }) => name },
  { id: 'value', title: 'Value', cell: ({ value }) => <span class="event-value">{shown(value)}</span> },
  {
    id: 'do',
    title: 'Search',
    class: 'event-time',
    cell: ({ condition }) => condition !== null && <LinkButton onClick={() => addCondition(condition)}>find others</LinkButton>,
  },
];

/** One event in full. */
export function EventView({ service, id }: { service: string; id: string }) {
  const { data, error, reload } = useApi((signal) => getEvent(service, id, signal), [service, id]);
  const back = (
    <Button icon="left" onClick={() => setParams({ id: null })}>
      Back to the search
    </Button>
  );
  if (!data) return <div class="stack">{back}{error ? <ErrorBox error={error} onRetry={reload} /> : <Spinner />}</div>;
  const { attributes, ...own } = data;
  const scalar = (value: unknown) => typeof value !== 'object' || value === null;
  const rows: Row[] = [
    ...flatten(attributes).map(([path, value]) => ({
      name: `attributes.${path}`,
      value,
      condition: scalar(value) ? encodeCondition({ name: path, op: '=', value: String(value) }) : null,
    })),
    ...Object.entries(own).map(([name, value]) => ({
      name,
      value,
      condition: scalar(value) && searchable.includes(name) ? encodeCondition({ name, op: '=', value: String(value) }) : null,
    })),
  ];
  return (
    <div class="stack">
      <div class="row">
        {back}
        <h2>
          {data.service_id} · {data.event_type}
        </h2>
      </div>
      <Table label="Fields of the event" columns={columns} rows={rows} rowKey={({ name }) => name} />
      <details>
        <summary>As JSON</summary>
        <CodeBlock label="The event" text={JSON.stringify(data, null, 2)} />
      </details>
    </div>
  );
}
