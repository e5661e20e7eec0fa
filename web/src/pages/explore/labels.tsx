// The labels of a metric, and the values of one of them.
import { getLabelValues, valuesAmongPairs } from '../../api/explore';
import type { Cardinality, Count } from '../../api/storage';
import { formatCount } from '../../format/number';
import { queryHref, route, setParams } from '../../router';
import { Button } from '../../ui/button';
import { ErrorBox, Spinner } from '../../ui/feedback';
import { Search } from '../../ui/field';
import { Bar } from '../../ui/stat';
import { Table, type Column } from '../../ui/table';
import { useTextParam } from '../../ui/text-param';
import { useApi } from '../../ui/use-api';
import { selectorOf } from './expression';
import { since, type Within } from './within';

const topShown = 3;
const valuesAsked = 50;

interface LabelRow {
  label: string;
  values: number;
  top: Count[];
}

/** Labels with the number of their values and the most frequent ones, as far as the ranking of pairs has them. */
export function labelRows(cardinality: Cardinality): LabelRow[] {
  return cardinality.labelValueCountByLabelName
    .filter(({ name }) => name !== '__name__')
    .map(({ name, value }) => ({
      label: name,
      values: value,
      top: valuesAmongPairs(cardinality.seriesCountByLabelValuePair, name).slice(0, topShown),
    }));
}

export function LabelList({ name, within, cardinality }: { name: string; within: Within; cardinality: Cardinality }) {
  const rows = labelRows(cardinality);
  const chosen = route.value.params.get('label');
  const columns: readonly Column<LabelRow>[] = [
    {
      id: 'label',
      title: 'Label',
      sort: (row) => row.label,
      cell: (row) => (
        <Button
          kind="plain"
          class="mono label-button"
          aria-pressed={row.label === chosen}
          onClick={() => setParams({ label: row.label === chosen ? null : row.label, values: null })}
        >
          {row.label}
        </Button>
      ),
    },
    { id: 'values', title: 'Values', number: true, sort: (row) => row.values, cell: (row) => formatCount(row.values) },
    { id: 'top', title: 'Most series', class: 'labels', cell: (row) => <Top row={row} series={cardinality.headStats.numSeries} /> },
  ];
  if (cardinality.headStats.numSeries === 0) {
    return <p class="muted">No series in this time. A longer one may have some.</p>;
  }
  return (
    <div class={chosen === null ? '' : 'metric-labels'}>
      <section aria-label="Labels">
        <h2>Labels</h2>
        <Table label="Labels" columns={columns} rows={rows} rowKey={(row) => row.label} empty={<p class="muted">Its series have no labels.</p>} />
      </section>
      {chosen !== null && <Values key={chosen} name={name} label={chosen} within={within} series={cardinality.headStats.numSeries} />}
    </div>
  );
}

function Top({ row, series }: { row: LabelRow; series: number }) {
  // A label with one value for every series needs no numbers.
  const only = row.values === 1 && row.top[0]?.value === series;
  return (
    <span class="mono top-values">
      {row.top.map(({ name, value }) => (
        <span key={name}>
          {name}
          {!only && <span class="muted"> {formatCount(value)}</span>}
        </span>
      ))}
      {row.top.length < row.values && <span class="muted">…</span>}
    </span>
  );
}

function Values({ name, label, within, series }: { name: string; label: string; within: Within; series: number }) {
  const [text, setText] = useTextParam('values');
  const search = route.value.params.get('values') ?? '';
  const { data, error, reload } = useApi(
    (signal) => getLabelValues(name, label, search, since(within, Date.now() / 1000), valuesAsked, signal),
    [name, label, search, within],
  );
  const columns: readonly Column<Count>[] = [
    {
      id: 'value',
      title: 'Value',
      class: 'labels',
      cell: (row) => (
        <a class="mono" href={queryHref(selectorOf(name, label, row.name))} title={`Query ${selectorOf(name, label, row.name)}`}>
          {row.name}
        </a>
      ),
    },
    { id: 'series', title: 'Series', number: true, cell: (row) => formatCount(row.value) },
    { id: 'part', title: '', cell: (row) => <Bar part={row.value / series} label={`${Math.round((row.value / series) * 100)} % of the series`} /> },
  ];
  return (
    <section aria-label={`Values of ${label}`}>
      <div class="row spread">
        <h2>
          Values of <span class="mono">{label}</span>
        </h2>
        <Search label={`Search values of ${label}`} placeholder="Search values" value={text} onInput={setText} />
      </div>
      {error !== undefined && <ErrorBox error={error} onRetry={reload} />}
      {!data && error === undefined && <Spinner />}
      {data && (
        <Table label={`Values of ${label}`} columns={columns} rows={data.values} rowKey={(row) => row.name} empty={<p class="muted">No value is like this.</p>} />
      )}
      {data?.more && <p class="muted">The {valuesAsked} values with most series. Search for others.</p>}
    </section>
  );
}
