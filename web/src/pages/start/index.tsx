// How to send data, and the moment when the first arrives.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { getJobs, hasData } from '../../api/arrival';
import { apiRoot } from '../../api/root';
import { getFlags } from '../../api/server';
import { quote } from '../../format/labels';
import { buildHash, queryHref, route, setParams } from '../../router';
import { access, refreshServer } from '../../state/server';
import { CodeBlock } from '../../ui/code-block';
import { Tabs } from '../../ui/tabs';
import { useApi } from '../../ui/use-api';
import { ways, type Way } from './ways';
import './start.css';

const pollSeconds = 2;

export default function StartPage() {
  // The lines are of use without it, so a failure is not shown.
  const flags = useApi((signal) => getFlags(signal).catch(() => null), []).data;
  const all = useMemo(
    () =>
      ways({
        root: apiRoot.href,
        grpcListen: flags?.['otlp.grpc.listen'] ?? null,
        opentsdbListen: flags?.['opentsdb.listen'] ?? null,
        secured: access.value?.required === true,
      }),
    [flags, access.value],
  );
  const asked = route.value.params.get('way');
  const way = all.find(({ id }) => id === asked) ?? all[0]!;
  return (
    <div class="stack start">
      <h1>Send data</h1>
      <Arrival />
      <Tabs label="Ways to send data" tabs={all} value={way.id} onChange={(id) => setParams({ way: id }, { replace: true })}>
        <WayView way={way} />
      </Tabs>
    </div>
  );
}

function WayView({ way }: { way: Way }) {
  return (
    <div class="stack">
      {way.steps.map(({ text, code }) => (
        <section key={code} class="start-step">
          <p>{text}</p>
          <CodeBlock text={code} label={way.title} />
        </section>
      ))}
      <p>
        Then look at it: <a href={queryHref(way.query)}>{way.query}</a>
      </p>
    </div>
  );
}

function Arrival() {
  const [arrived, setArrived] = useState(false);
  const waited = useRef(false);
  const { data } = useApi(hasData, [], arrived ? undefined : pollSeconds);
  const jobs = useApi((signal) => (arrived ? getJobs(signal).catch(() => []) : Promise.resolve([])), [arrived]).data ?? [];
  useEffect(() => {
    if (data === false) waited.current = true;
    if (data !== true || arrived) return;
    setArrived(true);
    // The navigation shows pages of what is in use.
    if (waited.current) void refreshServer();
  }, [data]);
  return (
    <div class={arrived ? 'box good arrival' : 'box info arrival'} role="status">
      {arrived ? (
        <div class="box-text">
          <strong>{waited.current ? 'The first samples have arrived.' : 'There is data.'}</strong> <a href={buildHash('query')}>Ask for it</a> or{' '}
          <a href={buildHash('explore')}>see what there is</a>.
          {jobs.length > 0 && (
            <>
              {' '}
              Jobs that send:{' '}
              {jobs.map((job, i) => (
                <span key={job}>
                  {i > 0 && ', '}
                  <a href={queryHref(`count by (__name__) ({job=${quote(job)}})`)}>{job}</a>
                </span>
              ))}
              .
            </>
          )}
        </div>
      ) : (
        <div class="box-text">
          <strong>No data yet.</strong> This page notices when the first sample arrives. Unless told otherwise the server scrapes its own metrics, so that
          should take a few seconds only.
        </div>
      )}
    </div>
  );
}
