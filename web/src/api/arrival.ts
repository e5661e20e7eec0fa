// Whether there is any data yet. Asked often by a page that waits, so it has to cost little.
import { call, type Options } from './client';
import { ApiError } from './error';
import type { Features } from './status';

export async function hasData(signal?: AbortSignal): Promise<boolean> {
  const options: Options = { signal, quiet: true };
  try {
    return (await call<Features>('api/v1/status/features', options)).data.data;
  } catch (error) {
    if (!(error instanceof ApiError && error.missing)) throw error;
  }
  // An older server. One name of a metric is enough, and unlike a query it also finds old data.
  const names = await call<string[]>('api/v1/label/__name__/values', { ...options, params: { limit: 1 } });
  return names.data.length > 0;
}

/** Values of `job`: who sends. Data without that label is not named. */
export const getJobs = async (signal?: AbortSignal) =>
  (await call<string[]>('api/v1/label/job/values', { signal, quiet: true, params: { limit: 20 } })).data;
