// PromQL: queries, exemplars, and what the editor needs.
import type { Labels } from '../format/labels';
import { call, enveloped, get, send, whole, type Answer, type Params } from './client';
import { columnsType, decodeColumns, type ColumnMatrix } from './columns';

/** `[bounds, lower, upper, count]`, all but the first as text. */
export type Bucket = [number, string, string, string];

export interface Histogram {
  count: string;
  sum: string;
  buckets?: Bucket[];
}

export interface Sample {
  metric: Labels;
  value?: [number, string];
  histogram?: [number, Histogram];
}

export interface Series {
  metric: Labels;
  values?: [number, string][];
  histograms?: [number, Histogram][];
}

export interface Matrix {
  resultType: 'matrix';
  result: Series[];
}

export type Result =
  | { resultType: 'vector'; result: Sample[] }
  | Matrix
  | ColumnMatrix
  | { resultType: 'scalar' | 'string'; result: [number, string] };

export interface Stats {
  timings: Record<string, number>;
  samples: {
    totalQueryableSamples: number;
    samplesRead?: number;
    peakSamples: number;
    totalQueryableSamplesPerStep?: [number, number][];
    samplesReadPerStep?: [number, number][];
  };
}

export type QueryData = Result & { stats?: Stats; explain?: string };

export interface Exemplars {
  seriesLabels: Labels;
  exemplars: { labels: Labels; value: string; timestamp: number }[];
}

/** What changes how a query is evaluated; empty texts mean the server's defaults. */
export interface Evaluation {
  lookback: string;
  /** The widest windows that may stand for samples. */
  resolution: string;
}

export interface Grid {
  start: number;
  end: number;
  step: number;
}

const evaluation = ({ lookback, resolution }: Evaluation): Params => ({
  lookback_delta: lookback,
  max_source_resolution: resolution,
});

// Queries are sent in the body: they may be longer than a URL.
const ask = <T>(path: string, params: Params, signal?: AbortSignal): Promise<Answer<T>> => call<T>(path, { method: 'POST', params, signal });

export const queryAt = (query: string, time: number, how: Evaluation, limit: number, signal?: AbortSignal) =>
  ask<QueryData>('api/v1/query', { query, time, limit, stats: 'true', ...evaluation(how) }, signal);

export async function queryRange(query: string, grid: Grid, how: Evaluation, extra: Params, signal?: AbortSignal): Promise<Answer<QueryData>> {
  const params: Params = { query, ...grid, stats: 'true', ...evaluation(how), ...extra };
  const headers = { Accept: `${columnsType}, application/json` };
  const response = await send('api/v1/query_range', { method: 'POST', params, headers, signal });
  // Native histograms come as JSON all the same.
  if (response.headers.get('Content-Type') !== columnsType) return enveloped<QueryData>(response);
  return whole(response, async () => decodeColumns(await response.arrayBuffer()), 'is not what it says');
}

export const queryExemplars = async (query: string, start: number, end: number, signal?: AbortSignal) =>
  (await ask<Exemplars[]>('api/v1/query_exemplars', { query, start, end }, signal)).data ?? [];

export const formatQuery = async (query: string, signal?: AbortSignal) =>
  (await ask<string>('api/v1/format_query', { query }, signal)).data;

/** Throws an `ApiError` with the position in its message where the query is wrong. */
export const parseQuery = async (query: string, signal?: AbortSignal) =>
  void (await call('api/v1/parse_query', { method: 'POST', params: { query }, signal, quiet: true }));

interface Listing {
  matcher?: string | undefined;
  start: number;
  end: number;
  limit: number;
}

const listing = ({ matcher, start, end, limit }: Listing): Params => ({
  'match[]': matcher ? [matcher] : undefined,
  start,
  end,
  limit,
});

export const labelNames = (of: Listing, signal?: AbortSignal) => get<string[]>('api/v1/labels', listing(of), signal);

export const labelValues = (label: string, of: Listing, signal?: AbortSignal) =>
  get<string[]>(`api/v1/label/${encodeURIComponent(label)}/values`, listing(of), signal);
