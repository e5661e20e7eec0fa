// Events: types, search, counters and SQL. Bodies are JSON without an envelope.
import { quote } from '../format/labels';
import { get, plain, send, text } from './client';

export interface Attribute {
  path: string;
  type: string;
  required: boolean;
  indexed: boolean;
}

export interface EventType {
  service: string;
  name: string;
  retentionSeconds: number;
  attributes: Attribute[];
  dimensions: string[];
}

/** What is always there; other fields of the envelope follow. */
export interface StoredEvent {
  event_id: string;
  service_id: string;
  event_type: string;
  outcome: string;
  started_at: string;
  duration_nanos?: number;
  error_message?: string;
  attributes: Record<string, unknown>;
  [field: string]: unknown;
}

export type SearchBody = Record<string, unknown>;

export interface Found {
  count: number;
  data: { events: StoredEvent[] };
  links: { next?: { body: SearchBody } };
}

/** Columns by their names. */
export interface Columns {
  schema: { fields: { name: string; type: string }[] };
  data: Record<string, unknown[]>;
}

export interface Counted {
  window: string;
  partial?: boolean;
  total: number;
  count: number;
  data: { intervals: Columns };
}

export interface SqlAnswer {
  count: number;
  limit: number;
  truncated: boolean;
  data: Columns;
}

const post = <T>(path: string, json: unknown, signal?: AbortSignal) => plain<T>(path, { method: 'POST', json, signal });

export const getEventTypes = async (signal?: AbortSignal) => (await plain<{ eventTypes: EventType[] }>('api/catalog/event-type', { signal })).eventTypes;

export const searchEvents = (body: SearchBody, signal?: AbortSignal) => post<Found>('api/search/events', body, signal);

export const getEvent = (service: string, id: string, signal?: AbortSignal) =>
  plain<StoredEvent>(`api/events/${encodeURIComponent(service)}/${encodeURIComponent(id)}`, { signal });

/** Values that an indexed attribute has had. */
export async function getAttributeValues(service: string, attribute: string, prefix: string, signal?: AbortSignal): Promise<string[]> {
  const path = `api/catalog/attributes/${encodeURIComponent(service)}/${encodeURIComponent(attribute)}/values`;
  const { values } = await plain<{ values: { attribute: string }[] }>(path, { params: { prefix, limit: 50 }, signal, quiet: true });
  return values.map((seen) => seen.attribute);
}

export const queryCounters = (body: unknown, signal?: AbortSignal) => post<Counted>('api/query/counters', body, signal);

export const runSql = (q: string, allowFullScan: boolean, limit: number, signal?: AbortSignal) =>
  post<SqlAnswer>('events/sql', { q, allowFullScan, limit, format: 'columnar' }, signal);

export const sqlCsv = async (q: string, allowFullScan: boolean, limit: number) =>
  (await send('events/sql', { method: 'POST', json: { q, allowFullScan, limit, format: 'csv' } })).text();

const ofType = (service: string, type: string) => [`{service=${quote(service)}, event_type=${quote(type)}}`];

/** Names and labels of the series that metrics of a type are. The catalogue does not list metrics. */
export async function getTypeSeries(service: string, type: string, signal?: AbortSignal): Promise<{ names: string[]; labels: string[] }> {
  const params = { 'match[]': ofType(service, type) };
  const [names, labels] = await Promise.all([
    get<string[]>('api/v1/label/__name__/values', params, signal),
    get<string[]>('api/v1/labels', params, signal),
  ]);
  return { names, labels };
}

/** What is registered of a service. Browsers are refused unless there is access control. */
export const getDocuments = (service: string, signal?: AbortSignal) =>
  text(`api/admin/config/service/${encodeURIComponent(service)}`, { headers: { Accept: 'application/yaml' }, signal });
