import { useMemo } from 'preact/hooks';
import { getConfig, getFlags } from '../../api/server';
import { formatCount } from '../../format/number';
import { matches } from '../../format/search';
import { route, setParams } from '../../router';
import { Search } from '../../ui/field';
import { Empty, ErrorBox, Spinner } from '../../ui/feedback';
import { Segmented } from '../../ui/segmented';
import { Badge } from '../../ui/stat';
import { Table, type Column } from '../../ui/table';
import { useApi } from '../../ui/use-api';
import { toSettings, type SettingRow } from './settings';

const columns: readonly Column<SettingRow>[] = [
  { id: 'flag', title: 'Flag', cell: ({ flag }) => <code class="flag-name">--{flag}</code>, sort: ({ flag }) => flag },
  { id: 'value', title: 'Value', cell: ({ value }) => <code class="flag-value">{value}</code> },
  { id: 'source', title: 'From', cell: ({ source }) => <From source={source} />, sort: ({ source }) => source ?? '' },
];

export function Flags() {
  const { params } = route.value;
  const text = params.get('q') ?? '';
  const changed = params.get('changed') === '1';
  const { data, error, reload } = useApi(async (signal) => {
    const [flags, yaml] = await Promise.all([getFlags(signal), getConfig(signal)]);
    return toSettings(flags, yaml);
  }, []);
  const rows = useMemo(
    () => (data ?? []).filter(({ flag, value, source }) => matches(`${flag} ${value} ${source ?? ''}`, text) && (!changed || (source !== null && source !== 'default'))),
    [data, text, changed],
  );
  if (!data) return error ? <ErrorBox error={error} onRetry={reload} /> : <Spinner />;
  return (
    <div class="stack">
      <div class="row">
        <Search main label="Search flags" value={text} onInput={(q) => setParams({ q: q || null }, { replace: true })} />
        <Segmented
          label="Which"
          value={changed ? 'changed' : 'all'}
          choices={[
            { value: 'all', text: 'All' },
            { value: 'changed', text: 'Set by somebody' },
          ]}
          onChange={(which) => setParams({ changed: which === 'changed' ? '1' : null }, { replace: true })}
        />
        <span class="muted" role="status">
          {formatCount(rows.length)} of {formatCount(data.length)}
        </span>
      </div>
      <Table label="Flags" columns={columns} rows={rows} rowKey={({ flag }) => flag} empty={<Empty title="No flag is like that." />} />
    </div>
  );
}

function From({ source }: { source: string | null }) {
  if (source === 'default') return <span class="muted">default</span>;
  return source === null ? null : <Badge kind="warn">{source}</Badge>;
}
