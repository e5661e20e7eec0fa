import type { Exemplars } from '../../api/query';
import { seriesName, type Labels } from '../../format/labels';
import { parseValue } from '../../format/number';
import { Copy } from '../../ui/copy';
import { Table, type Column } from '../../ui/table';
import { Time } from '../../ui/time';

interface Row {
  at: number;
  value: string;
  labels: Labels;
  series: string;
}

const columns: readonly Column<Row>[] = [
  { id: 'time', title: 'Time', cell: ({ at }) => <Time at={at} />, sort: ({ at }) => at, class: 'nowrap' },
  { id: 'value', title: 'Value', cell: ({ value }) => value, sort: ({ value }) => parseValue(value), number: true },
  { id: 'labels', title: 'Exemplar', cell: ({ labels }) => <ExemplarLabels labels={labels} /> },
  { id: 'series', title: 'Series', cell: ({ series }) => <code>{series}</code>, sort: ({ series }) => series },
];

export function ExemplarTable({ exemplars }: { exemplars: readonly Exemplars[] }) {
  const rows = flatten(exemplars);
  return (
    <details class="exemplars">
      <summary>{rows.length} exemplars</summary>
      <Table label="Exemplars" columns={columns} rows={rows} rowKey={(_, i) => i} sorting={{ column: 'time', down: true }} />
    </details>
  );
}

export function ExemplarLabels({ labels }: { labels: Labels }) {
  return (
    <ul class="plain-list">
      {Object.entries(labels).map(([name, value]) => (
        <li key={name}>
          <code>
            {name}={value}
          </code>{' '}
          <Copy text={value} label={`Copy ${name}`} />
        </li>
      ))}
    </ul>
  );
}

/** In the order of the points of the graph. */
export function flatten(exemplars: readonly Exemplars[]): Row[] {
  return exemplars.flatMap(({ seriesLabels, exemplars: list }) =>
    list.map(({ timestamp, value, labels }) => ({ at: timestamp, value, labels, series: seriesName(seriesLabels) })),
  );
}
