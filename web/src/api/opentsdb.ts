// OpenTSDB's API, which has no envelope and lies below `opentsdb/`.
import { get, plain, send, type Options, type Params } from './client';

export interface Annotation {
  tsuid: string;
  description: string;
  notes: string;
  custom?: Record<string, string> | null;
  /** Seconds, or milliseconds from 13 digits on; the end may be 0. */
  startTime: number;
  endTime: number;
}

export interface ResultSeries {
  metric: string;
  tags: Record<string, string>;
  aggregateTags: string[];
  annotations?: Annotation[];
  globalAnnotations?: Annotation[];
  /** Milliseconds and value; what is no number is text, or null. */
  dps: [number, number | string | null][];
}

export interface Translation {
  promql: string[];
  step?: number | string | null;
  start?: number | string | null;
  end?: number | string | null;
  reason?: string | null;
  conditions?: string[];
  notes?: string[];
}

export interface Tree {
  treeId: number;
  name: string;
  description: string;
  notes: string;
  enabled: boolean;
}

export interface Branch {
  branchId: string;
  displayName: string;
  treeId: number;
  depth: number;
  /** Names by their depths: `{"0":"ROOT","1":"sys"}`. */
  path: Record<string, string>;
  branches: Branch[] | null;
  leaves: Leaf[] | null;
}

export interface Leaf {
  metric: string;
  tags: Record<string, string> | null;
  tsuid: string;
  displayName: string;
}

export interface FoundSeries {
  tsuid: string;
  metric: string;
  tags: Record<string, string>;
}

export type UidKind = 'metrics' | 'tagk' | 'tagv';

const api = <T>(path: string, options: Options = {}) => plain<T>(`opentsdb/api/${path}`, options);
const withParams = (params: Params, signal?: AbortSignal): Options => ({ params, signal });

export const suggest = (type: UidKind, text: string, signal?: AbortSignal) =>
  api<string[]>('suggest', { ...withParams({ type, q: text, max: 50 }, signal), quiet: true });

export const getAggregators = (signal?: AbortSignal) => api<string[]>('aggregators', { signal });

/** Times in seconds. */
export const queryPoints = (start: number, end: number, queries: unknown[], signal?: AbortSignal) =>
  // The body's own content type is JSON; `arrays` keeps the order of points.
  plain<ResultSeries[]>('opentsdb/api/query?arrays', {
    method: 'POST',
    json: { start: Math.round(start * 1000), end: Math.round(end * 1000), msResolution: true, globalAnnotations: true, queries },
    signal,
  });

export const translate = (m: readonly string[], start: number, end: number, signal?: AbortSignal) =>
  get<Translation>('api/v1/opentsdb/translate', { m, start, end }, signal);

export const getTrees = (signal?: AbortSignal) => api<Tree[]>('tree', { signal });

export const getBranch = (tree: number, branch: string | null, signal?: AbortSignal) =>
  api<Branch>('tree/branch', withParams(branch === null ? { treeid: tree } : { branch }, signal));

/** Annotations of no series. */
export const getAnnotations = (start: number, end: number, signal?: AbortSignal) =>
  api<Annotation[]>('annotations', withParams({ start_time: Math.floor(start), end_time: Math.ceil(end) }, signal));

export const putAnnotation = (annotation: Partial<Annotation>) => api<Annotation>('annotation', { method: 'POST', json: annotation });

export const deleteAnnotation = ({ tsuid, startTime }: Annotation) =>
  send('opentsdb/api/annotation', { method: 'DELETE', json: tsuid ? { tsuid, startTime } : { startTime } });

/** Series of a metric and tags, also those without meta data. */
export const lookup = (metric: string, tags: { key: string; value: string }[], limit: number, signal?: AbortSignal) =>
  api<{ results: FoundSeries[]; totalResults: number }>('search/lookup', { method: 'POST', json: { metric, tags, limit, useMeta: false }, signal });

export const getUidMeta = (type: 'metric' | 'tagk' | 'tagv', uid: string, signal?: AbortSignal) =>
  api<Record<string, unknown>>('uid/uidmeta', withParams({ type, uid }, signal));

export const getSeriesMeta = (tsuid: string, signal?: AbortSignal) => api<Record<string, unknown>>('uid/tsmeta', withParams({ tsuid }, signal));
