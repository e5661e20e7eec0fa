import type { Maintenance, Quarantined, Skipped } from '../../api/storage';
import { formatCount } from '../../format/number';
import { Explain } from '../../ui/explain';
import { Table, type Column } from '../../ui/table';
import { Ago, Time } from '../../ui/time';
import { kindText } from './jobs';

/** What maintenance could not do. Nothing is shown while there is nothing. */
export function Troubles({ state }: { state: Maintenance }) {
  return (
    <>
      {state.lastError && <p class="box error">The last job failed: {state.lastError}</p>}
      {state.overlapping > 0 && (
        <p class="box warning">{formatCount(state.overlapping)} buckets of an older version lie inside larger ones; they are merged into them.</p>
      )}
      {state.skipped.length > 0 && (
        <section class="stack-small" aria-label="Failed jobs">
          <h2>
            Failed jobs that are tried again{' '}
            <Explain what="Failed jobs">
              If a job keeps failing, something stored is damaged: `icecore check` says what. What the job was to rewrite stays as it is and can be read as before.
            </Explain>
          </h2>
          <Table label="Failed jobs" columns={skippedColumns} rows={state.skipped} rowKey={(row, i) => `${i} ${row.startMs}`} />
        </section>
      )}
      {state.quarantined.length > 0 && (
        <section class="stack-small" aria-label="Hours that cannot be flushed">
          <h2>
            Hours that cannot be flushed{' '}
            <Explain what="Quarantine">Their samples stay in memory and in the journal: nothing is lost, but memory and journal cannot be freed. The log says more.</Explain>
          </h2>
          <Table label="Hours that cannot be flushed" columns={quarantinedColumns} rows={state.quarantined} rowKey={(row) => row.startMs} />
        </section>
      )}
    </>
  );
}

const skippedColumns: readonly Column<Skipped>[] = [
  { id: 'kind', title: 'Job', cell: (row) => kindText(row.kind) },
  { id: 'from', title: 'From', cell: (row) => <Time at={row.startMs / 1000} /> },
  { id: 'to', title: 'To', cell: (row) => <Time at={row.endMs / 1000} /> },
  { id: 'failures', title: 'Failures', number: true, cell: (row) => formatCount(row.failures) },
  { id: 'next', title: 'Next try', cell: (row) => <Ago at={row.nextTryMs / 1000} /> },
  { id: 'cause', title: 'Cause', class: 'ranked', cell: (row) => row.cause },
];

const quarantinedColumns: readonly Column<Quarantined>[] = [
  { id: 'hour', title: 'Hour', cell: (row) => <Time at={row.startMs / 1000} /> },
  { id: 'since', title: 'Since', cell: (row) => <Ago at={row.sinceMs / 1000} /> },
  { id: 'attempts', title: 'Attempts', number: true, cell: (row) => formatCount(row.attempts) },
  { id: 'next', title: 'Next try', cell: (row) => <Ago at={row.nextTryMs / 1000} /> },
  { id: 'cause', title: 'Cause', class: 'ranked', cell: (row) => row.cause },
];
