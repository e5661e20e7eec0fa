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

/** Rates are over so many seconds: scrapes come every 15 s, and shorter ones would jump between nothing and much. */
const window = 60;

/** The process' own metrics, the latest and an earlier read. */
function useReadings(): Readings {
  const kept = useRef<Reading[]>([]);
  const { data, error, reload } = useApi(
    async (signal) => {
      const samples = parseExposition(await getOwnMetrics(signal));
      const now: Reading = { at: Date.now() / 1000, samples };
      const before = kept.current.filter(({ at }) => at > now.at - window);
      kept.current = [...before, now];
      return { now, before: before[0] ?? null };
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
