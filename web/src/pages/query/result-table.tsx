// The answer at one moment, as a table.
import { useMemo } from 'preact/hooks';
import type { Histogram, Result, Sample, Series } from '../../api/query';
import { seriesName, type Labels } from '../../format/labels';
import { formatCount, parseValue } from '../../format/number';
import { Empty } from '../../ui/feedback';
import { Table, type Column } from '../../ui/table';
import { Time } from '../../ui/time';
import { commonLabels, differingLabels } from './naming';

export function ResultTable({ data }: { data: Result }) {
  if (data.resultType === 'scalar' || data.resultType === 'string') return <p class="single-value">{data.result[1]}</p>;
  if (data.result.length === 0) {
    return <Empty title="No series has a value at this time.">Samples from before the lookback do not count; the graph shows when there were some.</Empty>;
  }
  if (data.resultType === 'vector') return <VectorTable samples={data.result} />;
  return data.resultType === 'matrix' ? <SamplesTable series={data.result} /> : null;
}

function VectorTable({ samples }: { samples: readonly Sample[] }) {
  const columns = useMemo(
    (): readonly Column<Sample>[] => [
      ...labelColumns(samples),
      {
        id: 'value',
        title: 'Value',
        number: true,
        class: 'pinned',
        sort: ({ value, histogram }) => (value ? parseValue(value[1]) : parseValue(histogram?.[1].count ?? 'NaN')),
        cell: ({ value, histogram }) => (histogram ? <HistogramCell histogram={histogram[1]} /> : value?.[1]),
      },
    ],
    [samples],
  );
  return (
    <>
      <Common all={samples.map(({ metric }) => metric)} />
      <Table label="Values" columns={columns} rows={samples} rowKey={(_, i) => i} />
    </>
  );
}

/** A range selector: the samples themselves, the latest first. */
function SamplesTable({ series }: { series: readonly Series[] }) {
  const columns = useMemo(
    (): readonly Column<Series>[] => [
      ...labelColumns(series),
      { id: 'count', title: 'Samples', number: true, sort: countOf, cell: (one) => formatCount(countOf(one)) },
      { id: 'samples', title: 'Latest samples', cell: (one) => <Samples series={one} /> },
    ],
    [series],
  );
  return (
    <>
      <Common all={series.map(({ metric }) => metric)} />
      <Table label="Samples" columns={columns} rows={series} rowKey={(_, i) => i} />
    </>
  );
}

const countOf = ({ values, histograms }: Series) => (values?.length ?? 0) + (histograms?.length ?? 0);
const samplesShown = 20;

function Samples({ series: { values = [], histograms = [] } }: { series: Series }) {
  return (
    <ul class="plain-list samples">
      {values
        .slice(-samplesShown)
        .reverse()
        .map(([at, value]) => (
          <li key={at}>
            {value} <span class="muted">@ <Time at={at} /></span>
          </li>
        ))}
      {histograms
        .slice(-samplesShown)
        .reverse()
        .map(([at, histogram]) => (
          <li key={at}>
            <HistogramCell histogram={histogram} /> <span class="muted">@ <Time at={at} /></span>
          </li>
        ))}
    </ul>
  );
}

/** One column for each label that differs. */
function labelColumns<Row extends { metric: Labels }>(rows: readonly Row[]): Column<Row>[] {
  const names = rows.length === 1 ? [] : differingLabels(rows.map(({ metric }) => metric));
  if (names.length === 0) return [{ id: 'series', title: 'Series', cell: ({ metric }) => <code>{seriesName(metric)}</code>, sort: ({ metric }) => seriesName(metric) }];
  return names.map((name) => ({
    id: `label ${name}`,
    title: name === '__name__' ? 'metric' : name,
    cell: ({ metric }: Row) => metric[name] ?? '',
    sort: ({ metric }: Row) => metric[name] ?? '',
  }));
}

/** What all rows have, said once. */
function Common({ all }: { all: readonly Labels[] }) {
  const common = commonLabels(all);
  if (Object.keys(common).length === 0) return null;
  return (
    <p class="common">
      All have <code>{seriesName(common)}</code>
    </p>
  );
}

function HistogramCell({ histogram }: { histogram: Histogram }) {
  const count = parseValue(histogram.count);
  const sum = parseValue(histogram.sum);
  const buckets = histogram.buckets ?? [];
  const most = Math.max(...buckets.map(([, , , n]) => parseValue(n)));
  return (
    <details class="histogram">
      <summary>
        {histogram.count} observations, mean {count === 0 ? '–' : Number((sum / count).toPrecision(6))}
      </summary>
      <table>
        <tbody>
          {buckets.map(([bounds, lower, upper, n]) => (
            <tr key={lower}>
              <td class="number">
                {bounds === 1 || bounds === 3 ? '[' : '('}
                {lower}, {upper}
                {bounds === 0 || bounds === 3 ? ']' : ')'}
              </td>
              <td class="number">{n}</td>
              <td>
                <span class="histogram-bar" style={{ width: `${(100 * parseValue(n)) / most}px` }} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </details>
  );
}
