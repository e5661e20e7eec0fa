import { useEffect, useRef } from 'preact/hooks';
import { getBuckets, getOwnMetrics } from '../../api/storage';
import { parseExposition } from '../../format/exposition';
import { route, setParams } from '../../router';
import { Tabs } from '../../ui/tabs';
import { useApi } from '../../ui/use-api';
import { BucketsTab } from './buckets';
import { CardinalityTab } from './cardinality';
import { HeadStats } from './head';
import { MaintenanceTab } from './maintenance';
import { RequestsTab } from './requests';
import { RetentionTab } from './retention';
import type { Reading } from './rates';
import './storage.css';

const tabs = [
  { id: 'cardinality', title: 'Cardinality' },
  { id: 'buckets', title: 'Buckets' },
  { id: 'retention', title: 'Retention' },
  { id: 'maintenance', title: 'Maintenance' },
  { id: 'requests', title: 'Object store' },
] as const;

/** Seconds between reads of what changes with every sample, and of what changes by the hour. */
const often = 5;
const seldom = 30;

/** What is stored, what it costs, how long it stays, and what is being done to it. */
export default function StoragePage() {
  const tab = tabs.find(({ id }) => id === route.value.params.get('tab'))?.id ?? 'cardinality';
  const buckets = useApi(getBuckets, [], seldom);
  const readings = useReadings();
  return (
    <div class="stack">
      <h1 class="off-screen">Storage</h1>
      <HeadStats buckets={buckets.data ?? null} readings={readings} />
      <Tabs label="Storage" tabs={tabs} value={tab} onChange={(id) => setParams({ tab: id === 'cardinality' ? null : id })}>
        {tab === 'cardinality' && <CardinalityTab />}
        {tab === 'buckets' && <BucketsTab buckets={buckets} />}
        {tab === 'retention' && <RetentionTab buckets={buckets.data?.buckets ?? null} />}
        {tab === 'maintenance' && <MaintenanceTab />}
        {tab === 'requests' && <RequestsTab readings={readings} />}
      </Tabs>
    </div>
  );
}

export interface Readings {
  now: Reading | null;
  before: Reading | null;
  error: unknown;
}

/** The process' own metrics, the latest and the one before it. */
function useReadings(): Readings {
  const latest = useRef<Reading | null>(null);
  const { data, error, reload } = useApi(
    async (signal) => {
      const samples = parseExposition(await getOwnMetrics(signal));
      const now: Reading = { at: Date.now() / 1000, samples };
      const before = latest.current;
      latest.current = now;
      return { now, before };
    },
    [],
    often,
  );
  // A rate needs two reads; nobody should have to wait for the first one.
  useEffect(() => {
    const timer = setTimeout(reload, 1000);
    return () => clearTimeout(timer);
  }, []);
  return { now: data?.now ?? null, before: data?.before ?? null, error };
}
