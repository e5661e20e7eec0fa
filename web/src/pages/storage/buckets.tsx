import type { Bucket, Buckets } from '../../api/storage';
import { getMaintenance } from '../../api/storage';
import { ApiError } from '../../api/error';
import { formatBytes } from '../../format/bytes';
import { formatCount, formatShort } from '../../format/number';
import { route, setParams } from '../../router';
import { Explain } from '../../ui/explain';
import { Empty, ErrorBox, Spinner } from '../../ui/feedback';
import { Segmented } from '../../ui/segmented';
import { Table, type Column } from '../../ui/table';
import { Time } from '../../ui/time';
import { useApi, type Loaded } from '../../ui/use-api';
import { endOf, type Totals } from './lanes';
import { Timeline } from './timeline';

const day = 86400;
const spans = [
  { id: '2d', text: '2 days', seconds: 2 * day },
  { id: '2w', text: '2 weeks', seconds: 14 * day },
  { id: '90d', text: '90 days', seconds: 90 * day },
  { id: '1y', text: 'year', seconds: 365 * day },
  { id: 'all', text: 'everything', seconds: null },
] as const;

export function BucketsTab({ buckets }: { buckets: Loaded<Buckets> }) {
  const { data, error, reload } = buckets;
  if (error instanceof ApiError && error.missing) return <CountsOnly />;
  if (error !== undefined && !data) return <ErrorBox error={error} onRetry={reload} />;
  if (!data) return <Spinner />;
  if (data.buckets.length === 0) return <Empty title="Nothing is in buckets yet: fresh samples are in memory and in the journal." />;
  const span = spans.find(({ id }) => id === route.value.params.get('span')) ?? spans[4];
  const end = Math.max(Date.now() / 1000, ...data.buckets.map(endOf));
  const first = Math.min(...data.buckets.map(({ start }) => start));
  const start = span.seconds === null ? first : end - span.seconds;
  const rows = data.buckets.filter((bucket) => endOf(bucket) > start);
  return (
    <div class="stack">
      <div class="row spread">
        <p class="muted">
          A box is a bucket; its area is its size.{' '}
          <Explain what="Buckets">
            A bucket holds all samples of a span of time: one hour when it is fresh, then 4, 16, 64 and 256 hours, as maintenance builds larger ones out of
            smaller ones. Lanes are resolutions: raw samples, and windows that they were rolled up to. Height is bytes per hour, compared with the largest of
            the lane. Yellow boxes are being built, gray ones were replaced and go soon.
          </Explain>
          {data.head.minTime !== null && (
            <>
              {' '}
              Samples since <Time at={data.head.minTime} /> are in memory, too.
            </>
          )}
        </p>
        <Segmented
          label="Time line of"
          value={span.id}
          choices={spans.map(({ id, text }) => ({ value: id, text }))}
          onChange={(id) => setParams({ span: id === 'all' ? null : id })}
        />
      </div>
      <Timeline buckets={data.buckets} start={start} end={end} />
      <details>
        <summary>As a table: {formatCount(rows.length)} buckets</summary>
        <Table
          label="Buckets"
          columns={columns}
          rows={rows}
          rowKey={(row) => `${row.resolution} ${row.start} ${row.hours} ${row.state}`}
          sorting={{ column: 'start', down: true }}
        />
      </details>
    </div>
  );
}

const known = (n: number | null, format: (n: number) => string) => (n === null ? '–' : format(n));

/** Bytes per sample of a bucket or a lane, in words. */
export function perSample({ bytes, samples }: { bytes: number | null; samples: number | null }): number | null {
  return bytes !== null && samples !== null && samples > 0 && bytes > 0 ? bytes / samples : null;
}

export const totalsText = ({ buckets, bytes, bytesPerSample }: Totals) =>
  [`${formatCount(buckets)} buckets`, formatBytes(bytes), bytesPerSample === null ? '' : `${formatShort(bytesPerSample)} B/sample`].filter((part) => part !== '');

const columns: readonly Column<Bucket>[] = [
  { id: 'resolution', title: 'Resolution', sort: (row) => row.resolution, cell: (row) => row.resolution },
  { id: 'start', title: 'From', sort: (row) => row.start, cell: (row) => <Time at={row.start} /> },
  { id: 'hours', title: 'Hours', number: true, sort: (row) => row.hours, cell: (row) => formatCount(row.hours) },
  { id: 'state', title: 'State', sort: (row) => row.state, cell: (row) => row.state },
  { id: 'series', title: 'Series', number: true, sort: (row) => row.series ?? -1, cell: (row) => known(row.series, formatCount) },
  { id: 'samples', title: 'Samples', number: true, sort: (row) => row.samples ?? -1, cell: (row) => known(row.samples, formatShort) },
  { id: 'bytes', title: 'Size', number: true, sort: (row) => row.bytes ?? -1, cell: (row) => known(row.bytes, formatBytes) },
  { id: 'per', title: 'Bytes per sample', number: true, sort: (row) => perSample(row) ?? -1, cell: (row) => known(perSample(row), formatShort) },
];

/** What an older server tells: how many buckets there are of each length. */
function CountsOnly() {
  const { data, error, reload } = useApi(getMaintenance, []);
  if (error !== undefined) return <ErrorBox error={error} onRetry={reload} />;
  if (!data) return <Spinner />;
  return (
    <div class="stack-small">
      <p class="muted">This server tells only how many buckets there are.</p>
      <Table
        label="Buckets by length"
        columns={[
          { id: 'hours', title: 'Hours', number: true, cell: (row) => row.hours },
          { id: 'count', title: 'Buckets', number: true, cell: (row) => formatCount(row.count) },
        ]}
        rows={data.buckets}
        rowKey={(row) => row.hours}
        empty={<p class="muted">There are none yet.</p>}
      />
    </div>
  );
}
