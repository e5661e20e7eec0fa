import type { Labels } from '../format/labels';
import { call, get } from './client';

export type Health = 'up' | 'down' | 'unknown';

export interface Target {
  discoveredLabels: Labels;
  labels: Labels;
  scrapePool: string;
  scrapeUrl: string;
  globalUrl: string;
  lastError: string;
  /** RFC 3339; the year 1 before the first scrape. */
  lastScrape: string;
  lastScrapeDuration: number;
  health: Health;
  scrapeInterval: string;
  scrapeTimeout: string;
}

export interface DroppedTarget {
  discoveredLabels: Labels;
  scrapePool?: string;
}

interface Targets {
  activeTargets: Target[];
  droppedTargets: DroppedTarget[];
  droppedTargetCounts: Record<string, number> | null;
}

/** The targets that are scraped, and one message for each job or discovery that is left out because it is not supported. */
export async function getTargets(signal?: AbortSignal): Promise<{ targets: Target[]; leftOut: string[] }> {
  const { data, warnings } = await call<Targets>('api/v1/targets', { params: { state: 'active' }, signal });
  return { targets: data.activeTargets, leftOut: warnings };
}

export async function getDroppedTargets(signal?: AbortSignal): Promise<{ targets: DroppedTarget[]; counts: Record<string, number> }> {
  const { droppedTargets, droppedTargetCounts } = await get<Targets>('api/v1/targets', { state: 'dropped' }, signal);
  return { targets: droppedTargets, counts: droppedTargetCounts ?? {} };
}
