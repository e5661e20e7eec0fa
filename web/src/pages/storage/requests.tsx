import { formatBytes } from '../../format/bytes';
import { formatElapsed } from '../../format/duration';
import { sumOf } from '../../format/exposition';
import { formatCount, formatPercent, formatShort } from '../../format/number';
import { KnownStat } from '../../ui/explain';
import { ErrorBox, Spinner } from '../../ui/feedback';
import { Stats } from '../../ui/stat';
import { Table, type Column } from '../../ui/table';
import type { Readings } from './index';
import { rateOf, requestRows, type RequestRow } from './rates';

/** What the object store is asked: on a cloud store every request costs. */
export function RequestsTab({ readings }: { readings: Readings }) {
  const { now, before, error } = readings;
  if (error !== undefined && !now) return <ErrorBox error={error} />;
  if (!now) return <Spinner />;
  const own = (name: string, labels = {}) => sumOf(now.samples, name, labels);
  const rows = requestRows(now, before);
  const perSecond = rows.reduce<number | null>((sum, row) => (row.rate === null ? sum : (sum ?? 0) + row.rate), null);
  const journal = rateOf(now, before, 'icecore_journal_bytes_total');
  const age = own('icecore_store_last_write_age_seconds');
  const accesses = 'slatedb_db_cache_access_count_total';
  const hits = own(accesses, { result: 'hit' }) ?? 0;
  const misses = own(accesses, { result: 'miss' }) ?? 0;
  return (
    <div class="stack">
      {own('icecore_store_failing') === 1 && <p class="box error">The store fails: nothing is acknowledged until it answers again.</p>}
      <Stats>
        <KnownStat label="Requests" help="Requests to the object store, of all kinds, over the last minute at most. Cloud stores bill by request; writing and listing cost about ten times as much as reading.">
          {perSecond === null ? '…' : `${formatShort(perSecond)}/s`}
        </KnownStat>
        <KnownStat label="Journal" help="Bytes written to the journal: every write is there before it is acknowledged.">
          {journal === null ? '…' : `${formatBytes(journal)}/s`}
        </KnownStat>
        <KnownStat label="Last write" help="Time since the store took a write. It also grows when there is nothing to write.">
          {age === undefined ? '–' : `${formatElapsed(age)} ago`}
        </KnownStat>
        <KnownStat label="Writes that wait" help="Write requests whose samples are not in the store yet and that are not acknowledged yet. If it stays high, the store does not keep up.">
          {formatCount(own('icecore_journal_lag_requests') ?? 0)}
        </KnownStat>
        <KnownStat label="Failed" help="Requests that failed since the server started, retries included. “Not found” where a file may be absent does not count.">
          {formatCount(own('icecore_store_errors_total') ?? 0)}
        </KnownStat>
        <KnownStat label="Read from cache" help="Blocks that were found in memory, of all that were needed since the server started. What is not found is a request.">
          {hits + misses === 0 ? '–' : formatPercent(hits / (hits + misses))}
        </KnownStat>
      </Stats>
      <Table
        label="Requests to the object store"
        columns={columns}
        rows={rows}
        rowKey={(row) => `${row.component} ${row.api}`}
        sorting={{ column: 'total', down: true }}
        empty={<p class="muted">The server has not asked the store for anything yet.</p>}
      />
      <p class="muted">
        Numbers since the server started; rates and times over the last minute at most. Most unsuccessful ones are normal work: the server asks for a file that may
        be there, or creates one that another has created. “Failed” above counts those that should have worked.
      </p>
    </div>
  );
}

const parts: Record<string, string> = { db: 'reading and writing', compactor: 'compaction', gc: 'deleting old files', reader: 'reading' };

const columns: readonly Column<RequestRow>[] = [
  { id: 'api', title: 'Request', sort: (row) => row.api, class: 'mono', cell: (row) => row.api },
  { id: 'component', title: 'For', sort: (row) => row.component, cell: (row) => parts[row.component] ?? row.component },
  { id: 'rate', title: 'Per second', number: true, sort: (row) => row.rate ?? -1, cell: (row) => (row.rate === null ? '…' : formatShort(row.rate)) },
  { id: 'seconds', title: 'Mean time', number: true, sort: (row) => row.seconds ?? -1, cell: (row) => (row.seconds === null ? '–' : formatElapsed(row.seconds)) },
  { id: 'total', title: 'Total', number: true, sort: (row) => row.total, cell: (row) => formatCount(row.total) },
  { id: 'errors', title: 'Unsuccessful', number: true, sort: (row) => row.errors, cell: (row) => formatCount(row.errors) },
];
