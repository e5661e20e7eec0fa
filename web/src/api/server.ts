// How the server is configured and runs.
import { get } from './client';

export interface RuntimeInfo {
  startTime: string;
  serverTime?: string;
  CWD: string;
  hostname?: string;
  reloadConfigSuccess: boolean;
  lastConfigTime: string;
  corruptionCount: number;
  goroutineCount: number;
  GOMAXPROCS: number;
  storageRetention: string;
}

export const getConfig = async (signal?: AbortSignal) => (await get<{ yaml: string }>('api/v1/status/config', undefined, signal)).yaml;
export const getFlags = (signal?: AbortSignal) => get<Record<string, string>>('api/v1/status/flags', undefined, signal);
export const getRuntimeInfo = (signal?: AbortSignal) => get<RuntimeInfo>('api/v1/status/runtimeinfo', undefined, signal);
