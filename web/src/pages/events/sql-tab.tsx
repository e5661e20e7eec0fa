import { useMemo, useRef, useState } from 'preact/hooks';
import { runSql, sqlCsv, type Columns, type EventType } from '../../api/events';
import { formatCount } from '../../format/number';
import { route, setParams } from '../../router';
import { Button } from '../../ui/button';
import { Empty, ErrorBox, Spinner } from '../../ui/feedback';
import { useKeys } from '../../ui/keys';
import { LinkButton } from '../../ui/link-button';
import { saveFile } from '../../ui/save-file';
import { Table, type Column } from '../../ui/table';
import { TextArea } from '../../ui/text-area';
import { useApi } from '../../ui/use-api';
import { shown } from './conditions';
import { examples } from './sql-examples';

const rowsMax = 1000;
const csvRowsMax = 100_000;

export function SqlTab({ types }: { types: readonly EventType[] }) {
  const { params } = route.value;
  const asked = params.get('sql') ?? '';
  const full = params.get('full') === '1';
  const [text, setText] = useState(asked);
  const [round, setRound] = useState(0);
  const field = useRef<HTMLTextAreaElement | null>(null);
  const run = () => {
    setParams({ sql: text });
    setRound((n) => n + 1);
  };
  useKeys([
    { key: 'Ctrl-Enter', help: 'Run the query', run },
    { key: '/', help: 'Write SQL', run: () => field.current?.focus() },
  ]);
  return (
    <div class="stack">
      <TextArea
        code
        label="SQL"
        rows={6}
        placeholder="SELECT … FROM events WHERE started_at > now() - INTERVAL '1 hour'"
        value={text}
        onInput={setText}
        focus={(element) => (field.current = element)}
      />
      <div class="row">
        <Button kind="primary" icon="play" title="Ctrl-Enter" disabled={text.trim() === ''} onClick={run}>
          Run
        </Button>
        <label class="row">
          <input type="checkbox" checked={full} onChange={(event) => setParams({ full: event.currentTarget.checked ? '1' : null }, { replace: true })} />
          without a bound on started_at
        </label>
      </div>
      <p class="muted">
        For example{' '}
        {examples(types).map(({ title, sql }, i) => (
          <span key={title}>
            {i > 0 && ', '}
            <LinkButton onClick={() => setText(sql)}>{title}</LinkButton>
          </span>
        ))}
        .
      </p>
      {asked !== '' && <SqlResult sql={asked} full={full} round={round} />}
    </div>
  );
}

function SqlResult({ sql, full, round }: { sql: string; full: boolean; round: number }) {
  const { data, error, loading, reload } = useApi((signal) => runSql(sql, full, rowsMax, signal), [sql, full, round]);
  const [failed, setFailed] = useState<unknown>(null);
  const download = async () => {
    setFailed(null);
    try {
      saveFile(await sqlCsv(sql, full, csvRowsMax), 'events.csv', 'text/csv');
    } catch (failure) {
      setFailed(failure);
    }
  };
  if (error !== undefined && error !== null) return <ErrorBox error={error} onRetry={reload} />;
  if (!data) return <Spinner text="Asking" />;
  return (
    <div class="stack" aria-busy={loading}>
      <div class="row">
        <span class="muted" role="status">
          {formatCount(data.count)} rows{data.truncated ? `, and there are more than the limit of ${formatCount(data.limit)}` : ''}
        </span>
        <Button icon="download" onClick={download}>
          CSV
        </Button>
      </div>
      {failed !== null && <ErrorBox error={failed} />}
      <SqlTable columns={data.data} count={data.count} />
    </div>
  );
}

function SqlTable({ columns: { schema, data }, count }: { columns: Columns; count: number }) {
  const rows = useMemo(() => Array.from({ length: count }, (_, i) => i), [count]);
  const columns = useMemo(
    () =>
      schema.fields.map(({ name, type }): Column<number> => {
        const value = (row: number) => data[name]?.[row];
        return {
          id: name,
          title: name,
          number: type === 'integer' || type === 'number',
          cell: (row) => cell(value(row)),
          sort: (row) => sortKey(value(row)),
        };
      }),
    [schema, data],
  );
  return <Table label="Rows" columns={columns} rows={rows} rowKey={(row) => row} empty={<Empty title="No rows." />} />;
}

function cell(value: unknown) {
  if (value === null || value === undefined) return <span class="muted">null</span>;
  return <span class="event-value">{shown(value)}</span>;
}

function sortKey(value: unknown): number | string {
  if (typeof value === 'number') return value;
  return value === null || value === undefined ? '' : shown(value);
}
