import type { ComponentChildren } from 'preact';
import { ownVersion } from '../../api/own-version';
import { getBuildInfo } from '../../api/status';
import { getRuntimeInfo } from '../../api/server';
import { formatElapsed } from '../../format/duration';
import { formatCount } from '../../format/number';
import { access } from '../../state/server';
import { ErrorBox, Spinner } from '../../ui/feedback';
import { Badge } from '../../ui/stat';
import { Time } from '../../ui/time';
import { useApi } from '../../ui/use-api';

const refreshSeconds = 15;

export function Overview() {
  const build = useApi(getBuildInfo, []);
  const runtime = useApi(getRuntimeInfo, [], refreshSeconds);
  const error = build.error ?? runtime.error;
  if (!build.data || !runtime.data) return error ? <ErrorBox error={error} onRetry={runtime.reload} /> : <Spinner />;
  const info = runtime.data;
  const started = Date.parse(info.startTime) / 1000;
  const now = info.serverTime === undefined ? Date.now() / 1000 : Date.parse(info.serverTime) / 1000;
  const apart = Math.abs(now - Date.now() / 1000);
  return (
    <dl class="facts">
      <Fact name="Version">
        Icecore {ownVersion(build.data)} <span class="muted">(API of Prometheus {build.data.version})</span>
      </Fact>
      <Fact name="Started">
        <Time at={started} /> <span class="muted">({formatElapsed(Math.round(now - started))} ago)</span>
      </Fact>
      <Fact name="Clock">
        <Time at={Math.floor(now)} /> {apart > 5 && <Badge kind="warn">{formatElapsed(Math.round(apart))} off this computer’s clock</Badge>}
      </Fact>
      {info.hostname && <Fact name="Host">{info.hostname}</Fact>}
      <Fact name="Working directory">
        <span class="mono">{info.CWD}</span>
      </Fact>
      <Fact name="Configuration">
        {info.reloadConfigSuccess ? <Badge kind="good">loaded</Badge> : <Badge kind="bad">the last reload failed; see the log</Badge>}{' '}
        <Time at={Date.parse(info.lastConfigTime) / 1000} />
      </Fact>
      <Fact name="Retention">{info.storageRetention || 'everything is kept'}</Fact>
      <Fact name="Journal">
        {info.corruptionCount === 0 ? (
          'every part could be read'
        ) : (
          <Badge kind="bad">{formatCount(info.corruptionCount)} parts could not be read</Badge>
        )}
      </Fact>
      <Fact name="Threads">{info.GOMAXPROCS}</Fact>
      <Fact name="Tasks">{formatCount(info.goroutineCount)}</Fact>
      {access.value && (
        <Fact name="Access">
          {access.value.required ? `${access.value.user ?? 'signed in'}: ${access.value.roles.join(', ') || 'no role'}` : 'open to everybody'}
        </Fact>
      )}
    </dl>
  );
}

function Fact({ name, children }: { name: string; children: ComponentChildren }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}
