import { getMaintenance, type Job, type Level, type Maintenance } from '../../api/storage';
import { formatBytes } from '../../format/bytes';
import { formatElapsed } from '../../format/duration';
import { formatCount } from '../../format/number';
import { Explain, KnownStat } from '../../ui/explain';
import { ErrorBox, Spinner } from '../../ui/feedback';
import { Stats } from '../../ui/stat';
import { Table, type Column } from '../../ui/table';
import { Ago, Time } from '../../ui/time';
import { useApi } from '../../ui/use-api';
import { kindText } from './jobs';
import { RunNow } from './run-now';
import { Troubles } from './troubles';

/** Jobs take seconds, and the status is read from memory. */
const every = 2;

export function MaintenanceTab() {
  const { data, error, reload } = useApi(getMaintenance, [], every);
  if (error !== undefined && !data) return <ErrorBox error={error} onRetry={reload} />;
  if (!data) return <Spinner />;
  return (
    <div class="stack">
      <div class="row spread">
        <h2>
          {data.running ? 'A job is running' : data.waiting > 0 ? 'Jobs are waiting' : 'Nothing to do'}{' '}
          <Explain what="Maintenance">
            The server rewrites closed hours as larger buckets, rolls samples up to windows, and deletes what is too old. It does so by itself, slowly enough not
            to disturb; nothing has to be done here.
          </Explain>
        </h2>
        <RunNow />
      </div>
      {!data.enabled && <p class="box warning">maintenance.enabled is false: this process does nothing of this by itself. “Run now” works.</p>}
      {data.paused && <p class="box info">Jobs wait: {data.paused}</p>}
      {data.running && <Running job={data.running} />}
      <Waiting state={data} />
      <Levels levels={data.levels} />
      <Troubles state={data} />
    </div>
  );
}

function Running({ job }: { job: Job }) {
  const part = job.seriesTotal > 0 ? job.seriesDone / job.seriesTotal : 0;
  const percent = Math.floor(part * 100);
  return (
    <section class="job" aria-label="The running job">
      <p>
        <strong>{kindText(job.kind)}</strong>: <Time at={job.startMs / 1000} /> to <Time at={job.endMs / 1000} />, out of {formatCount(job.sources)} buckets
      </p>
      <progress max={1} value={part} aria-label={`Progress of the phase ${job.phase}: ${percent} %`} />
      <p class="muted">
        Phase “{job.phase}”, {percent} % ({formatCount(job.seriesDone)} of {formatCount(job.seriesTotal)} {job.phase === 'fold' ? 'records' : 'series'}) · started{' '}
        <Ago at={job.startedMs / 1000} /> · {formatBytes(job.bytesRead)} read, {formatBytes(job.bytesWritten)} written ·{' '}
        {job.remainingSeconds === null ? 'nobody can tell yet how long it will take' : `about ${formatElapsed(Math.ceil(job.remainingSeconds))} left`}
      </p>
    </section>
  );
}

function Waiting({ state }: { state: Maintenance }) {
  return (
    <Stats>
      <KnownStat label="Waiting" help="Buckets that could be built now, the running one not counted.">
        {formatCount(state.waiting)}
      </KnownStat>
      <KnownStat label="Time for them" help="About how long the waiting ones will take, from how long jobs like them took since the server started.">
        {state.waitingSeconds === null ? '–' : formatElapsed(Math.ceil(state.waitingSeconds))}
      </KnownStat>
      <KnownStat
        label="Lag"
        help="How long the oldest waiting window has been closed. It is near maintenance.delay while maintenance keeps up, and grows by a second per second while it does not."
      >
        {formatElapsed(Math.round(state.lagSeconds))}
      </KnownStat>
      <KnownStat label="Retired" help="Buckets that were replaced by larger ones. They stay for maintenance.grace, for readers in other processes, and take space until then.">
        {formatCount(state.retired)}
      </KnownStat>
      <KnownStat label="With late samples" help="Coarse buckets with samples that came late and are stored beside them. They are folded in when the bucket has been quiet.">
        {formatCount(state.dirty)}
      </KnownStat>
      <KnownStat label="With deleted samples" help="Buckets that still hold samples that somebody deleted. Answers leave them out; the bytes go when the bucket is rewritten.">
        {formatCount(state.tombstones)}
      </KnownStat>
    </Stats>
  );
}

function Levels({ levels }: { levels: readonly Level[] }) {
  return <Table label="Levels" columns={levelColumns} rows={levels} rowKey={(row) => row.resolution} />;
}

const levelColumns: readonly Column<Level>[] = [
  { id: 'resolution', title: 'Level', cell: (row) => row.resolution },
  { id: 'buckets', title: 'Buckets', number: true, cell: (row) => formatCount(row.buckets) },
  { id: 'waiting', title: 'Could be made now', number: true, cell: (row) => formatCount(row.waiting) },
  { id: 'outOfDate', title: 'To be made again', number: true, cell: (row) => formatCount(row.outOfDate) },
  { id: 'lag', title: 'Lag', number: true, cell: (row) => (row.lagSeconds === 0 ? '–' : formatElapsed(Math.round(row.lagSeconds))) },
  { id: 'culled', title: 'Deleted before', cell: (row) => (row.culledBeforeMs === null ? '–' : <Time at={Math.floor(row.culledBeforeMs / 1000)} />) },
];
