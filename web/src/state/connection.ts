// Whether the server answers. A request that finds it gone starts a poll of `/-/ready`; when that
// answers again, `revived` counts up and everything on the page asks anew.
import { signal } from '@preact/signals';
import { apiRoot } from '../api/root';

export type Connection = { state: 'ok' } | { state: 'gone' | 'starting'; since: number; reason: string };

export const connection = signal<Connection>({ state: 'ok' });
export const revived = signal(0);

const firstWait = 500;
const longestWait = 5000;
let polling = false;

export function lost(state: 'gone' | 'starting', reason: string): void {
  const now = connection.value;
  const since = now.state === 'ok' ? Date.now() / 1000 : now.since;
  connection.value = { state, since, reason };
  if (!polling) void poll();
}

/** Something answered as a server does that is starting, or merely busy: `/-/ready` tells them apart. */
export async function suspect(): Promise<void> {
  const found = await probe();
  if (found !== 'ready') lost(found.state, found.reason);
}

async function poll(): Promise<void> {
  polling = true;
  let wait = firstWait;
  while (true) {
    await new Promise((done) => setTimeout(done, wait));
    wait = Math.min(wait * 1.5, longestWait);
    const found = await probe();
    if (found === 'ready') break;
    lost(found.state, found.reason);
  }
  polling = false;
  connection.value = { state: 'ok' };
  revived.value += 1;
}

async function probe(): Promise<'ready' | { state: 'gone' | 'starting'; reason: string }> {
  try {
    const answer = await fetch(new URL('-/ready', apiRoot), { cache: 'no-store', signal: AbortSignal.timeout(4000) });
    if (answer.ok) return 'ready';
    const reason = (await answer.text()).trim().slice(0, 300);
    return { state: answer.status === 503 ? 'starting' : 'gone', reason: reason || `status ${answer.status}` };
  } catch {
    return { state: 'gone', reason: 'no connection' };
  }
}
