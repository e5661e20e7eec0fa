// What there is: metrics, their labels, and what they were last.
import type { Point } from '../format/sparkline';
import { labelName, quote, type Labels } from '../format/labels';
import { parseValue } from '../format/number';
import { call, get } from './client';
import { ApiError } from './error';
import { escapeRegex, getMetricNames, searchMetrics, type MetricName, type MetricNames } from './status';
import { getCardinality, type Cardinality, type Count } from './storage';

export interface MetricQuery {
  search: string;
  type: string;
  /** Only metrics that no query has asked for. */
  queried: 'never' | undefined;
  sort: string;
  order: 'asc' | 'desc';
  offset: number;
  limit: number;
}

export interface MetricPage {
  total: number;
  items: MetricName[];
  /** For example that names in the store could not be read. */
  warnings: string[];
  /** The server knows names only: an older one. */
  namesOnly: boolean;
}

export async function listMetrics(query: MetricQuery, signal?: AbortSignal): Promise<MetricPage> {
  try {
    const { data, warnings } = await call<MetricNames>('api/v1/status/metric_names', { params: { ...query }, signal });
    return { ...data, warnings, namesOnly: false };
  } catch (error) {
    if (!(error instanceof ApiError && error.missing)) throw error;
  }
  const names = await searchMetrics(query.search, query.limit, signal);
  return { total: names.length, items: names.map(nameOnly), warnings: [], namesOnly: true };
}

const nameOnly = (name: string): MetricName => ({ name, type: null, unit: null, help: null, series: null, queries: null, lastQueried: null });

/** The server finds names that contain a text, and `up` is in many. This is as many as it tells at once. */
const namesAsked = 1000;

/** What is known of one metric. Its usage is null where the server does not count, or has too many similar names. */
export async function getMetric(name: string, signal?: AbortSignal): Promise<MetricName> {
  try {
    const { items } = await getMetricNames({ search: name, limit: namesAsked }, signal);
    const found = items.find((item) => item.name === name);
    if (found) return found;
  } catch (error) {
    if (!(error instanceof ApiError && error.missing)) throw error;
  }
  for (const family of new Set([name, familyOf(name)])) {
    const known = await get<Record<string, { type: string; help: string; unit: string }[]>>('api/v1/metadata', { metric: family }, signal);
    const first = known[family]?.[0];
    if (first) return { ...nameOnly(name), type: first.type, help: first.help, unit: first.unit };
  }
  return nameOnly(name);
}

/** `x` for `x_bucket`: histograms and summaries are described once, for all of their series. */
export function familyOf(name: string): string {
  return name.replace(/_(bucket|sum|count|total)$/, '');
}

/** Numbers of series and of values by label, of one metric since a time; all of time if null. */
export function getLabels(name: string, since: number | null, signal?: AbortSignal): Promise<Cardinality> {
  return getCardinality({ 'match[]': [`{__name__=${quote(name)}}`], start: since, limit: 300 }, signal);
}

export interface LabelValues {
  values: Count[];
  /** There are more than the server was asked for. */
  more: boolean;
}

/** The values of a label that have most series, of those that contain the text. */
export async function getLabelValues(
  name: string,
  label: string,
  search: string,
  since: number | null,
  limit: number,
  signal?: AbortSignal,
): Promise<LabelValues> {
  const pattern = search === '' ? '.+' : `(?i).*${escapeRegex(search)}.*`;
  const selector = `{__name__=${quote(name)}, ${labelName(label)}=~${quote(pattern)}}`;
  const found = await getCardinality({ 'match[]': [selector], start: since, limit: limit + 1, focusLabel: label }, signal);
  const values = found.seriesCountByFocusLabelValue ?? valuesAmongPairs(found.seriesCountByLabelValuePair, label);
  return { values: values.slice(0, limit), more: values.length > limit };
}

/** The values of one label in a ranking of `label=value`. */
export function valuesAmongPairs(pairs: readonly Count[], label: string): Count[] {
  const prefix = `${label}=`;
  return pairs.filter(({ name }) => name.startsWith(prefix)).map(({ name, value }) => ({ name: name.slice(prefix.length), value }));
}

/** Looking at what there is does not make it read: somebody wants to know what nobody needs. */
const uncounted = { count_usage: 'false' };

export interface LastValue {
  metric: Labels;
  /** Null for a native histogram. */
  value: number | null;
  histogram: { count: string; sum: string } | null;
}

export async function getLastValues(expr: string, limit: number, signal?: AbortSignal): Promise<LastValue[]> {
  type Sample = { metric: Labels; value?: [number, string]; histogram?: [number, { count: string; sum: string }] };
  const { data } = await call<{ result: Sample[] }>('api/v1/query', { method: 'POST', params: { query: expr, limit, ...uncounted }, signal });
  return data.result.map(({ metric, value, histogram }) => ({
    metric,
    value: value ? parseValue(value[1]) : null,
    histogram: histogram?.[1] ?? null,
  }));
}

export async function getLines(expr: string, start: number, end: number, step: number, limit: number, signal?: AbortSignal): Promise<Point[][]> {
  type Series = { values?: [number, string][] };
  const params = { query: expr, start, end, step, limit, ...uncounted };
  const { data } = await call<{ result: Series[] }>('api/v1/query_range', { method: 'POST', params, signal });
  return data.result.map(({ values = [] }) => values.map(([time, value]) => [time, parseValue(value)]));
}

/** When this process started, and with it the counting of reads. */
export async function getStarted(signal?: AbortSignal): Promise<number> {
  const { startTime } = await get<{ startTime: string }>('api/v1/status/runtimeinfo', undefined, signal);
  return Date.parse(startTime) / 1000;
}
