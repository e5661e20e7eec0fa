// Every request of the interface goes through here.
import { lost, suspect } from '../state/connection';
import { askForLogin, credential } from '../state/session';
import { ApiError, errorOf, isAbort } from './error';
import { apiRoot } from './root';

export type Param = string | number | boolean | null | undefined | readonly string[];
export type Params = Record<string, Param>;

export interface Options {
  method?: 'GET' | 'POST' | 'PUT' | 'DELETE';
  /** In the URL; with `POST` and no other body, as a form in the body, so that queries may be long. */
  params?: Params;
  json?: unknown;
  body?: BodyInit;
  headers?: Record<string, string>;
  signal?: AbortSignal | undefined;
  /** Do not open the login dialog and do not raise the banner: for what runs in the background. */
  quiet?: boolean;
}

export interface Answer<T> {
  data: T;
  warnings: string[];
  infos: string[];
}

/** A request below the API root, `path` without a leading slash. Throws `ApiError` unless the status is 2xx. */
export async function send(path: string, options: Options = {}): Promise<Response> {
  const answer = await attempt(path, options);
  if (answer.ok) return answer;
  const error = errorOf(answer.status, answer.statusText, await answer.text());
  if (answer.status === 401 && !options.quiet) {
    if (await askForLogin(error.message)) return send(path, options);
  }
  if (answer.status === 502 || answer.status === 504) lost('gone', error.message);
  if (answer.status === 503 && !options.quiet) void suspect();
  throw error;
}

async function attempt(path: string, options: Options): Promise<Response> {
  const { method = 'GET', params, json, body, signal, quiet } = options;
  const url = new URL(path, apiRoot);
  const headers = new Headers(options.headers);
  headers.set('X-Requested-With', 'icecore-ui');
  if (credential.value !== null) headers.set('Authorization', credential.value);

  let content = body;
  if (json !== undefined) {
    headers.set('Content-Type', 'application/json');
    content = JSON.stringify(json);
  }
  if (params) {
    const form = encode(params);
    if (method === 'POST' && content === undefined) content = form;
    else for (const [name, value] of form) url.searchParams.append(name, value);
  }
  const init: RequestInit = { method, headers, credentials: 'same-origin', cache: 'no-store' };
  if (content !== undefined) init.body = content;
  if (signal) init.signal = signal;
  try {
    return await fetch(url, init);
  } catch (error) {
    if (isAbort(error)) throw error;
    if (!quiet) lost('gone', 'no connection');
    throw new ApiError('The server does not answer.', 0, 'gone');
  }
}

/** Parameters as a form; undefined, null and empty text are left out. */
export function encode(params: Params): URLSearchParams {
  const form = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) {
    if (value === undefined || value === null || value === '') continue;
    if (Array.isArray(value)) for (const one of value as readonly string[]) form.append(name, one);
    else form.append(name, String(value));
  }
  return form;
}

/** An answer in Prometheus' envelope. */
export async function call<T>(path: string, options: Options = {}): Promise<Answer<T>> {
  return enveloped<T>(await send(path, options));
}

export async function enveloped<T>(response: Response): Promise<Answer<T>> {
  const { data, warnings = [], infos = [] } = await json<{ data: T; warnings?: string[]; infos?: string[] }>(response);
  return { data, warnings, infos };
}

/** `GET` in Prometheus' envelope, only the data. */
export async function get<T>(path: string, params?: Params, signal?: AbortSignal): Promise<T> {
  const options: Options = { signal };
  if (params) options.params = params;
  return (await call<T>(path, options)).data;
}

/** JSON without an envelope: OpenTSDB, events. */
export async function plain<T>(path: string, options: Options = {}): Promise<T> {
  return json<T>(await send(path, options));
}

/** Text: `/-/reload`, `/metrics`. */
export async function text(path: string, options: Options = {}): Promise<string> {
  return (await send(path, options)).text();
}

function json<T>(response: Response): Promise<T> {
  return whole(response, async () => (await response.json()) as T, 'is not JSON');
}

/** Reads the body of an answer, which may break off or be something else. */
export async function whole<T>(response: Response, read: () => Promise<T>, problem: string): Promise<T> {
  try {
    return await read();
  } catch (error) {
    if (isAbort(error)) throw error;
    throw new ApiError(`The answer ended early or ${problem}.`, response.status, 'http');
  }
}
