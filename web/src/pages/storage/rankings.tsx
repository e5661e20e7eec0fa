import type { ComponentChildren } from 'preact';
import { useMemo, useState } from 'preact/hooks';
import type { Cardinality, Count } from '../../api/storage';
import { formatBytes } from '../../format/bytes';
import { formatCount } from '../../format/number';
import { matches } from '../../format/search';
import { buildHash, route, setParams } from '../../router';
import { Button } from '../../ui/button';
import { Search } from '../../ui/field';
import { Segmented } from '../../ui/segmented';
import { Bar } from '../../ui/stat';
import { Table, type Column } from '../../ui/table';
import { compare, type Compared } from './compare';
import { Change } from './change';

export interface Days {
  day: Cardinality;
  before: Cardinality;
  both: Cardinality | null;
  limit: number;
}

type By = 'metric' | 'label' | 'value' | 'memory';

const kinds: Record<By, { title: string; what: string; unit: string; of: (found: Cardinality) => Count[]; churn: boolean; note: string }> = {
  metric: {
    title: 'Metrics',
    what: 'Metric',
    unit: 'Series',
    of: (found) => found.seriesCountByMetricName,
    churn: true,
    note: 'Metrics by number of series. “New” are series of the day that the day before did not have.',
  },
  label: {
    title: 'Labels',
    what: 'Label',
    unit: 'Values',
    of: (found) => found.labelValueCountByLabelName,
    churn: true,
    note: 'Labels by number of different values. Choose one to see its values and the metrics that have it. “New” are values that the day before did not have.',
  },
  value: {
    title: 'Values',
    what: 'Label and value',
    unit: 'Series',
    of: (found) => found.seriesCountByLabelValuePair,
    churn: true,
    note: 'Pairs of label and value by number of series that have them.',
  },
  memory: {
    title: 'Bytes of labels',
    what: 'Label',
    unit: 'Bytes',
    of: (found) => found.memoryInBytesByLabelName,
    churn: false,
    note: 'Labels by the length of their different values: what they weigh in an index, roughly.',
  },
};

/** One of the rankings of the day, each entry beside that of the day before. */
export function Rankings(props: Days) {
  const wanted = route.value.params.get('by') as By | null;
  const by: By = wanted !== null && wanted in kinds ? wanted : 'metric';
  const kind = kinds[by];
  const name = (row: Compared) => {
    if (by === 'metric') return <a href={buildHash('explore', { metric: row.name, within: '1w' })}>{row.name}</a>;
    return by === 'label' ? <FocusButton label={row.name} /> : row.name;
  };
  return (
    <RankingTable
      key={by}
      label={kind.title}
      what={kind.what}
      unit={kind.unit}
      rows={useCompared(props, kind.of, kind.churn)}
      churn={kind.churn}
      name={name}
      format={by === 'memory' ? formatBytes : formatCount}
      limit={props.limit}
      note={kind.note}
      head={
        <Segmented
          label="Ranking"
          value={by}
          choices={(Object.keys(kinds) as By[]).map((value) => ({ value, text: kinds[value].title }))}
          onChange={(value) => setParams({ by: value === 'metric' ? null : value })}
        />
      }
    />
  );
}

function FocusButton({ label }: { label: string }) {
  const chosen = route.value.params.get('focus') === label;
  return (
    <Button kind="plain" class="mono link-button" aria-pressed={chosen} onClick={() => setParams({ focus: chosen ? null : label })}>
      {label}
    </Button>
  );
}

export function useCompared({ day, before, both, limit }: Days, of: (found: Cardinality) => Count[] | undefined, churn: boolean): Compared[] {
  return useMemo(
    () => compare(of(day) ?? [], of(before) ?? [], churn && both ? (of(both) ?? null) : null, limit),
    [day, before, both, of, churn, limit],
  );
}

export function RankingTable(props: {
  label: string;
  what: string;
  unit: string;
  rows: readonly Compared[];
  churn: boolean;
  name: (row: Compared) => ComponentChildren;
  format: (n: number) => string;
  limit: number;
  note: string;
  head: ComponentChildren;
}) {
  const [text, setText] = useState('');
  const found = useMemo(() => props.rows.filter((row) => matches(row.name, text)), [props.rows, text]);
  const largest = props.rows[0]?.value ?? 0;
  const { format } = props;
  const known = (n: number | null) => (n === null ? <Unknown /> : format(n));
  const part = (row: Compared) => row.value / (largest || 1);
  const grown = (row: Compared) => (row.before === null ? -Infinity : row.value - row.before);
  const bar = (row: Compared) => <Bar part={part(row)} label={`${Math.round(part(row) * 100)} % of the largest`} />;
  const columns: Column<Compared>[] = [
    { id: 'name', title: props.what, sort: (row) => row.name, class: 'ranked mono', cell: props.name },
    { id: 'value', title: props.unit, number: true, sort: (row) => row.value, cell: (row) => format(row.value) },
    { id: 'bar', title: '', class: 'wide-only', cell: bar },
    { id: 'before', title: 'Day before', number: true, sort: (row) => row.before ?? -1, cell: (row) => known(row.before) },
    { id: 'change', title: 'Change', number: true, sort: grown, cell: (row) => <Change row={row} format={format} /> },
  ];
  if (props.churn) columns.push({ id: 'added', title: 'New', number: true, sort: (row) => row.added ?? -1, cell: (row) => known(row.added) });
  return (
    <section class="stack-small" aria-label={props.label}>
      <div class="row spread">
        {props.head}
        <Search label={`Search ${props.label.toLowerCase()}`} value={text} onInput={setText} />
      </div>
      <p class="muted">
        {props.note}
        {props.rows.length >= props.limit && ` The ${formatCount(props.limit)} largest are shown.`}
      </p>
      <Table label={props.label} columns={columns} rows={found} rowKey={(row) => row.name} empty={<p class="muted">Nothing here has this in its name.</p>} />
    </section>
  );
}

function Unknown() {
  return (
    <span class="muted" title="It was not among the largest of the day before.">
      ?
    </span>
  );
}
