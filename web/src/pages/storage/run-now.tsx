import { signal } from '@preact/signals';
import { useState } from 'preact/hooks';
import { runMaintenance, type RunResult } from '../../api/storage';
import { may } from '../../state/server';
import { Button } from '../../ui/button';
import { Dialog } from '../../ui/dialog';
import { ErrorBox } from '../../ui/feedback';
import { useActions } from '../../ui/palette';
import { Ago } from '../../ui/time';
import { resultText } from './jobs';

// A run outlives the page that asked for it, so its state does, too.
type Run = { state: 'idle' } | { state: 'running'; since: number } | { state: 'done'; result: RunResult } | { state: 'failed'; error: unknown };
const run = signal<Run>({ state: 'idle' });

async function start(): Promise<void> {
  run.value = { state: 'running', since: Date.now() / 1000 };
  try {
    run.value = { state: 'done', result: await runMaintenance() };
  } catch (error) {
    run.value = { state: 'failed', error };
  }
}

/** Everything that maintenance would do in the next hours, at once. For admins, and not by a slip. */
export function RunNow() {
  const [asking, setAsking] = useState(false);
  const allowed = may('admin');
  const running = run.value.state === 'running';
  useActions(allowed && !running ? [{ title: 'Run maintenance now', run: () => setAsking(true) }] : []);
  return (
    <>
      <div class="row">
        <Outcome />
        <Button disabled={!allowed || running} title={allowed ? '' : 'This needs the role “admin”.'} onClick={() => setAsking(true)}>
          {running ? 'Running…' : 'Run now'}
        </Button>
        {!allowed && <span class="muted">needs the role “admin”</span>}
      </div>
      {asking && (
        <Dialog title="Run maintenance now?" onClose={() => setAsking(false)}>
          <div class="stack">
            <p>
              Everything that is closed is brought into its final form at once: flushed, rewritten as larger buckets, rolled up, and deleted where the retention
              policy allows it. It does not keep to the rates that protect queries and ingest, and it cannot be stopped; it may take minutes or hours. It deletes
              nothing that would not go anyway, and nothing depends on it.
            </p>
            <div class="row">
              <Button
                kind="primary"
                onClick={() => {
                  setAsking(false);
                  void start();
                }}
              >
                Run now
              </Button>
              <Button onClick={() => setAsking(false)}>Cancel</Button>
            </div>
          </div>
        </Dialog>
      )}
    </>
  );
}

function Outcome() {
  const now = run.value;
  return (
    <div role="status" class="run-outcome">
      {now.state === 'running' && (
        <>
          Requested <Ago at={now.since} />.
        </>
      )}
      {now.state === 'done' && (
        <>
          {resultText(now.result)}
          {now.result.skipped.length + now.result.quarantined.length > 0 && ' Something could not be done: see below.'}
        </>
      )}
      {now.state === 'failed' && <ErrorBox error={now.error} />}
    </div>
  );
}
