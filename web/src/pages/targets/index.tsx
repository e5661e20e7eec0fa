import { useMemo } from 'preact/hooks';
import { getTargets, type Health } from '../../api/targets';
import { formatCount } from '../../format/number';
import { route, setParams } from '../../router';
import { Search, Select } from '../../ui/field';
import { Empty, ErrorBox, Notices, Spinner } from '../../ui/feedback';
import { Segmented } from '../../ui/segmented';
import { Tabs } from '../../ui/tabs';
import { useApi, useSettled } from '../../ui/use-api';
import { ActiveTargets } from './active';
import { DroppedTargets } from './dropped';
import { Jobs } from './jobs';
import { selectRows, toJobs, toRows } from './select';
import './targets.css';

const refreshSeconds = 15;

export default function TargetsPage() {
  const { params } = route.value;
  const tab = params.get('tab') === 'dropped' ? 'dropped' : 'active';
  return (
    <div class="stack">
      <h1>Targets</h1>
      <Tabs
        label="Targets"
        tabs={[
          { id: 'active', title: 'Scraped' },
          { id: 'dropped', title: 'Dropped by relabelling' },
        ]}
        value={tab}
        onChange={(id) => setParams({ tab: id === 'active' ? null : id })}
      >
        {tab === 'active' ? <Active /> : <DroppedTargets />}
      </Tabs>
    </div>
  );
}

function Active() {
  const { params } = route.value;
  const text = params.get('q') ?? '';
  const health = (params.get('health') ?? '') as Health | '';
  const job = params.get('job') ?? '';
  const { data, error, loading, reload } = useApi(getTargets, [], refreshSeconds);
  const rows = useMemo(() => toRows(data?.targets ?? []), [data]);
  const jobs = useMemo(() => toJobs(data?.targets ?? []), [data]);
  const settled = useSettled(text);
  const shown = useMemo(() => selectRows(rows, { text: settled, health, job }), [rows, settled, health, job]);
  const filter = (patch: Record<string, string>) =>
    setParams(Object.fromEntries(Object.entries(patch).map(([name, value]) => [name, value || null])), { replace: true });

  if (!data) return error ? <ErrorBox error={error} onRetry={reload} /> : <Spinner />;
  const down = rows.filter(({ target }) => target.health === 'down').length;
  return (
    <div class="stack">
      {error !== undefined && <ErrorBox error={error} onRetry={reload} />}
      <Notices warnings={data.leftOut} infos={[]} />
      {jobs.length > 1 && <Jobs jobs={jobs} chosen={job} onChoose={(name) => filter({ job: name })} />}
      <div class="row">
        <Search main label="Search addresses, labels and errors" value={text} onInput={(q) => filter({ q })} />
        <Segmented
          label="Health"
          value={health}
          choices={[
            { value: '', text: 'All' },
            { value: 'down', text: `Failing ${formatCount(down)}` },
            { value: 'unknown', text: 'Not yet scraped' },
            { value: 'up', text: 'Up' },
          ]}
          onChange={(value) => filter({ health: value })}
        />
        {jobs.length > 1 && (
          <Select
            label="Job"
            value={job}
            choices={[{ value: '', text: 'All jobs' }, ...jobs.map(({ name }) => ({ value: name, text: name }))]}
            onChange={(value) => filter({ job: value })}
          />
        )}
        <span class="muted" role="status">
          {formatCount(shown.length)} of {formatCount(rows.length)}
          {loading ? ' …' : ''}
        </span>
      </div>
      {rows.length === 0 ? <NoTargets /> : <ActiveTargets rows={shown} />}
    </div>
  );
}

function NoTargets() {
  return (
    <Empty title="Nothing is scraped.">
      <p>
        Targets come from <code>scrape_configs</code> of the configuration file, which has Prometheus’ format. <a href="#/start?way=scrape">How to add one</a>
      </p>
    </Empty>
  );
}
