import { getConfig } from '../../api/server';
import { route, setParams } from '../../router';
import { CodeBlock } from '../../ui/code-block';
import { ErrorBox, Spinner } from '../../ui/feedback';
import { Tabs } from '../../ui/tabs';
import { useApi } from '../../ui/use-api';
import { Flags } from './flags';
import { Overview } from './overview';
import './status.css';

const tabs = [
  { id: 'overview', title: 'Server' },
  { id: 'config', title: 'Configuration' },
  { id: 'flags', title: 'Flags' },
] as const;

export default function StatusPage() {
  const asked = route.value.params.get('tab');
  const tab = tabs.find(({ id }) => id === asked)?.id ?? 'overview';
  return (
    <div class="stack">
      <h1>Status</h1>
      <Tabs label="Status" tabs={tabs} value={tab} onChange={(id) => setParams({ tab: id === 'overview' ? null : id })}>
        {tab === 'overview' ? <Overview /> : tab === 'config' ? <Configuration /> : <Flags />}
      </Tabs>
    </div>
  );
}

function Configuration() {
  const { data, error, reload } = useApi(getConfig, []);
  if (data === undefined) return error ? <ErrorBox error={error} onRetry={reload} /> : <Spinner />;
  return (
    <div class="stack">
      <p class="muted">What is in effect, with defaults filled in. Secrets are not shown.</p>
      <CodeBlock text={data} label="Configuration" />
    </div>
  );
}
