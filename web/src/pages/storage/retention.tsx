import { getMaintenance, getPolicy, type Bucket, type Maintenance, type Policy, type PolicyLevel } from '../../api/storage';
import { formatBytes } from '../../format/bytes';
import { formatCount } from '../../format/number';
import { Explain } from '../../ui/explain';
import { ErrorBox, Spinner } from '../../ui/feedback';
import { Badge } from '../../ui/stat';
import { Table, type Column } from '../../ui/table';
import { Ago, Time } from '../../ui/time';
import { useApi } from '../../ui/use-api';
import { expiries, goingWithin, type Expiry, type Going } from './expiry';
import { endOf } from './lanes';

const day = 86400;

/** How long what is kept, and what will go when. */
export function RetentionTab({ buckets }: { buckets: Bucket[] | null }) {
  const policy = useApi(getPolicy, [], 30);
  const maintenance = useApi(getMaintenance, [], 30);
  if (policy.error !== undefined) return <ErrorBox error={policy.error} onRetry={policy.reload} />;
  if (policy.data === undefined) return <Spinner />;
  return (
    <div class="stack">
      {policy.data === null ? <NoPolicy /> : <PolicyView policy={policy.data} />}
      {maintenance.data && maintenance.data.keptBackCount > 0 && <KeptBack maintenance={maintenance.data} />}
      {policy.data && buckets && <WhatGoes policy={policy.data} buckets={buckets} />}
    </div>
  );
}

function NoPolicy() {
  return (
    <p>
      There is no retention policy: everything is kept as it came, for ever. <code>--retention default</code> keeps raw samples for 21 days, windows of 5
      minutes for 90, and windows of an hour for a year.
    </p>
  );
}

interface Line extends PolicyLevel {
  match: string;
}

function PolicyView({ policy }: { policy: Policy }) {
  const lines: Line[] = [
    ...policy.overrides.flatMap(({ match, levels }) => levels.map((level) => ({ ...level, match }))),
    ...policy.levels.map((level) => ({ ...level, match: policy.overrides.length > 0 ? 'all others' : 'all series' })),
  ];
  return (
    <section class="stack-small" aria-label="Policy">
      <h2>
        What is kept how long{' '}
        <Explain what="Levels">
          Raw samples are rolled up to windows: of each window the server keeps count, sum, smallest, largest, first and last, so that old time can be queried
          for a fraction of the space. Queries choose the level by themselves. “lean” windows keep fewer of these than “full” ones.
        </Explain>
      </h2>
      <Table label="Policy" columns={policyColumns} rows={lines} rowKey={(row, i) => `${i} ${row.match} ${row.resolution}`} />
      <p class="muted">
        Buckets are rolled up {policy.rollupDelay} after their last hour. Late samples of hours whose raw samples are gone are{' '}
        {policy.lateData === 'reject' ? 'refused' : 'merged into the windows that are left'}.
      </p>
    </section>
  );
}

const policyColumns: readonly Column<Line>[] = [
  { id: 'match', title: 'Series', class: 'ranked', cell: (row) => (row.match.startsWith('{') ? <code>{row.match}</code> : row.match) },
  { id: 'resolution', title: 'Level', cell: (row) => row.resolution },
  { id: 'retain', title: 'Kept for', cell: (row) => (row.retainMs === null ? 'ever' : row.retainMs === 0 ? <span class="muted">not kept</span> : row.retain) },
  { id: 'columns', title: 'Columns', cell: (row) => row.columns },
  { id: 'since', title: 'Whole since', cell: (row) => (row.keptSinceMs === undefined ? '' : <Time at={Math.floor(row.keptSinceMs / 1000)} />) },
];

const times = [0, day, 7 * day, 30 * day];
const listed = 20;

function WhatGoes({ policy, buckets }: { policy: Policy; buckets: readonly Bucket[] }) {
  const now = Date.now() / 1000;
  const list = expiries(buckets, policy);
  if (list.length === 0) return <p class="muted">Nothing that is stored now will go: every level that has buckets is kept for ever.</p>;
  return (
    <section class="stack-small" aria-label="What goes when">
      <h2>
        What goes when{' '}
        <Explain what="What goes when">
          A bucket can go when its last sample is older than its level is kept. It goes some days later: deletion is by units of 128 hours, and only where the next
          level has the same time. From the moment it is too old it is left out of answers, if the next level has it. Series with times of their own are not considered here.
        </Explain>
      </h2>
      <Table label="How much goes" columns={goingColumns} rows={goingWithin(list, now, times)} rowKey={(row) => row.within} />
      <Table label="Buckets in the order in which they go" columns={expiryColumns} rows={list.slice(0, listed)} rowKey={({ bucket }, i) => `${i} ${bucket.start}`} />
      {list.length > listed && <p class="muted">The next {listed} of {formatCount(list.length)} buckets.</p>}
    </section>
  );
}

const goingColumns: readonly Column<Going>[] = [
  { id: 'within', title: 'Until', cell: (row) => (row.within === 0 ? 'now' : row.within === day ? 'tomorrow' : `in ${row.within / day} days`) },
  { id: 'buckets', title: 'Buckets that can go', number: true, cell: (row) => formatCount(row.buckets) },
  { id: 'bytes', title: 'Size', number: true, cell: (row) => formatBytes(row.bytes) },
];

const expiryColumns: readonly Column<Expiry>[] = [
  {
    id: 'at',
    title: 'Can go',
    cell: ({ at }) => (at <= Date.now() / 1000 ? <Badge kind="warn">now</Badge> : <Ago at={at} />),
  },
  { id: 'when', title: 'That is', cell: ({ at }) => <Time at={at} /> },
  { id: 'resolution', title: 'Level', cell: ({ bucket }) => bucket.resolution },
  { id: 'from', title: 'From', cell: ({ bucket }) => <Time at={bucket.start} /> },
  { id: 'to', title: 'To', cell: ({ bucket }) => <Time at={endOf(bucket)} /> },
  { id: 'bytes', title: 'Size', number: true, cell: ({ bucket }) => (bucket.bytes === null ? '–' : formatBytes(bucket.bytes)) },
];

function KeptBack({ maintenance }: { maintenance: Maintenance }) {
  return (
    <section class="stack-small" aria-label="Kept back">
      <h2>
        Kept for longer than the policy says{' '}
        <Explain what="Kept back">Samples are deleted only when the next level has them. If rolling up fails or is not done yet, they stay, and this says why.</Explain>
      </h2>
      <Table
        label="Kept back"
        columns={[
          { id: 'resolution', title: 'Level', cell: (row) => row.resolution },
          { id: 'from', title: 'From', cell: (row) => <Time at={row.startMs / 1000} /> },
          { id: 'to', title: 'To', cell: (row) => <Time at={row.endMs / 1000} /> },
          { id: 'reason', title: 'Why', class: 'ranked', cell: (row) => row.reason },
        ]}
        rows={maintenance.keptBack}
        rowKey={(row, i) => `${i} ${row.startMs}`}
      />
      {maintenance.keptBackCount > maintenance.keptBack.length && <p class="muted">{formatCount(maintenance.keptBackCount)} buckets in total.</p>}
    </section>
  );
}
