// What lies in memory and in the store, and what is done to it.
import { call, get, text, type Params } from './client';

export interface Count {
  name: string;
  value: number;
}

export interface Cardinality {
  headStats: { numSeries: number; numLabelPairs: number; minTime: number; maxTime: number };
  seriesCountByMetricName: Count[];
  labelValueCountByLabelName: Count[];
  memoryInBytesByLabelName: Count[];
  seriesCountByLabelValuePair: Count[];
  /** With `focusLabel` only. */
  seriesCountByFocusLabelValue?: Count[];
  metricsByFocusLabel?: Count[];
}

export interface Bucket {
  /** UNIX seconds. */
  start: number;
  hours: number;
  /** `raw`, or the width of the windows: `5m`. */
  resolution: string;
  state: string;
  series: number | null;
  samples: number | null;
  bytes: number | null;
}

export interface Head {
  minTime: number | null;
  maxTime: number | null;
  series: number | null;
  samples: number | null;
  bytes: number | null;
}

export interface Buckets {
  buckets: Bucket[];
  head: Head;
}

export interface Job {
  kind: string;
  startMs: number;
  endMs: number;
  sources: number;
  phase: string;
  seriesDone: number;
  seriesTotal: number;
  bytesRead: number;
  bytesWritten: number;
  startedMs: number;
  remainingSeconds: number | null;
}

export interface Skipped {
  kind: string;
  startMs: number;
  endMs: number;
  failures: number;
  nextTryMs: number;
  cause: string;
}

export interface Quarantined {
  startMs: number;
  sinceMs: number;
  attempts: number;
  nextTryMs: number;
  cause: string;
}

export interface Level {
  resolution: string;
  buckets: number;
  remnants: number;
  outOfDate: number;
  culledBeforeMs: number | null;
  waiting: number;
  lagSeconds: number;
}

export interface Maintenance {
  enabled: boolean;
  paused: string | null;
  running: Job | null;
  waiting: number;
  waitingSeconds: number | null;
  lagSeconds: number;
  buckets: { hours: number; count: number }[];
  retired: number;
  dirty: number;
  tombstones: number;
  quarantined: Quarantined[];
  overlapping: number;
  skipped: Skipped[];
  levels: Level[];
  keptBackCount: number;
  keptBack: { resolution: string; startMs: number; endMs: number; reason: string }[];
  lastError: string | null;
}

export interface PolicyLevel {
  resolution: string;
  retain: string;
  /** Null is for ever. */
  retainMs: number | null;
  columns?: string;
  keptSinceMs?: number;
}

export interface Policy {
  levels: PolicyLevel[];
  overrides: { match: string; levels: PolicyLevel[] }[];
  rollupDelay: string;
  lateData: 'reject' | 'merge';
}

export interface RunResult {
  coarsened: number;
  retired: number;
  folded: number;
  repaired: number;
  rolledUp: number;
  merged: number;
  remnants: number;
  culled: number;
  bytesRead: number;
  bytesWritten: number;
  seconds: number;
  quarantined: Quarantined[];
  skipped: Skipped[];
}

export const getCardinality = (params: Params, signal?: AbortSignal) => get<Cardinality>('api/v1/status/tsdb', params, signal);
export const getBuckets = (signal?: AbortSignal) => get<Buckets>('api/v1/status/buckets', undefined, signal);
export const getMaintenance = (signal?: AbortSignal) => get<Maintenance>('api/v1/status/maintenance', undefined, signal);
export const getPolicy = async (signal?: AbortSignal) =>
  (await get<{ policy: Policy | null }>('api/v1/status/retention', undefined, signal)).policy;

/** The process' own metrics, as text. */
export const getOwnMetrics = (signal?: AbortSignal) => text('metrics', { signal });

/** Answers when everything is done, however long that takes. */
export const runMaintenance = async () => (await call<RunResult>('api/v1/admin/maintenance/run', { method: 'POST' })).data;
