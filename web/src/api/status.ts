import { quote } from '../format/labels';
import { call, get, type Params } from './client';
import { ApiError } from './error';
import type { BuildInfo } from './own-version';

export interface Access {
  required: boolean;
  authenticated: boolean;
  user: string | null;
  roles: string[];
  schemes: string[];
}

export interface Features {
  data: boolean;
  scrape: boolean;
  opentsdb: boolean;
  events: boolean;
  sql: boolean;
}

export interface MetricNames {
  total: number;
  items: MetricName[];
}

export interface MetricName {
  name: string;
  type: string | null;
  unit: string | null;
  help: string | null;
  series: number | null;
  queries: number | null;
  lastQueried: number | null;
}

// Older servers do not have these routes. Then nothing is hidden and nobody has to sign in.
const openAccess: Access = { required: false, authenticated: false, user: null, roles: ['read', 'write', 'admin'], schemes: [] };
const everything: Features = { data: true, scrape: true, opentsdb: true, events: true, sql: true };

export const getAccess = (signal?: AbortSignal) => orElse(get<Access>('api/v1/status/access', undefined, signal), openAccess);
export const getFeatures = (signal?: AbortSignal) => orElse(get<Features>('api/v1/status/features', undefined, signal), everything);
export const getBuildInfo = (signal?: AbortSignal) => get<BuildInfo>('api/v1/status/buildinfo', undefined, signal);

export const getMetricNames = (params: Params, signal?: AbortSignal) =>
  get<MetricNames>('api/v1/status/metric_names', params, signal);

// An older server is asked only once.
let hasMetricNames = true;

export type FoundMetric = Pick<MetricName, 'name' | 'type' | 'help'>;

/** Metrics whose names contain the text, at most `limit`, however many there are. */
export async function findMetrics(text: string, limit: number, signal?: AbortSignal): Promise<FoundMetric[]> {
  if (hasMetricNames) {
    try {
      return (await getMetricNames({ search: text, limit }, signal)).items;
    } catch (error) {
      if (!(error instanceof ApiError && error.missing)) throw error;
      hasMetricNames = false;
    }
  }
  const matcher = `{__name__=~${quote(`(?i).*${escapeRegex(text)}.*`)}}`;
  const params: Params = { limit, 'match[]': text === '' ? undefined : [matcher] };
  const names = (await call<string[]>('api/v1/label/__name__/values', { params, signal })).data;
  return names.map((name) => ({ name, type: null, help: null }));
}

export const searchMetrics = async (text: string, limit: number, signal?: AbortSignal) =>
  (await findMetrics(text, limit, signal)).map(({ name }) => name);

/** The text as an RE2 pattern that matches just it. */
export function escapeRegex(text: string): string {
  return text.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&');
}

async function orElse<T>(promise: Promise<T>, fallback: T): Promise<T> {
  try {
    return await promise;
  } catch (error) {
    if (error instanceof ApiError && error.missing) return fallback;
    throw error;
  }
}
