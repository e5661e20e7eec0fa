// Which targets are shown, and in which order. There may be many thousands, so that what is
// searched is put together once for each answer of the server.
import type { Health, Target } from '../../api/targets';
import { parseDuration } from '../../format/duration';

export interface Row {
  target: Target;
  /** UNIX seconds, null before the first scrape. */
  lastScrape: number | null;
  /** How much of the timeout the last scrape took. */
  partOfTimeout: number;
  searched: string;
}

export interface Job {
  name: string;
  up: number;
  down: number;
  unknown: number;
}

const rank: Record<Health, number> = { down: 0, unknown: 1, up: 2 };

/** Failing targets first, then by job and address. */
export function toRows(targets: readonly Target[]): Row[] {
  const words = new Intl.Collator('en', { numeric: true });
  return targets.map(toRow).sort(
    (a, b) =>
      rank[a.target.health] - rank[b.target.health] ||
      words.compare(a.target.scrapePool, b.target.scrapePool) ||
      words.compare(a.target.scrapeUrl, b.target.scrapeUrl),
  );
}

function toRow(target: Target): Row {
  const at = Date.parse(target.lastScrape) / 1000;
  const timeout = parseDuration(target.scrapeTimeout) ?? 0;
  const labels = Object.entries(target.labels).map(([name, value]) => `${name}=${value}`);
  return {
    target,
    lastScrape: at > 0 ? at : null,
    partOfTimeout: timeout > 0 ? target.lastScrapeDuration / timeout : 0,
    searched: [target.scrapePool, target.scrapeUrl, target.lastError, ...labels].join(' ').toLowerCase(),
  };
}

export function selectRows(rows: readonly Row[], by: { text: string; health: Health | ''; job: string }): Row[] {
  const wanted = by.text.toLowerCase().split(/\s+/).filter(Boolean);
  return rows.filter(
    ({ target, searched }) =>
      (by.health === '' || target.health === by.health) &&
      (by.job === '' || target.scrapePool === by.job) &&
      wanted.every((word) => searched.includes(word)),
  );
}

/** Jobs with how their targets are, those with failing ones first. */
export function toJobs(targets: readonly Target[]): Job[] {
  const jobs = new Map<string, Job>();
  for (const { scrapePool: name, health } of targets) {
    const job = jobs.get(name) ?? { name, up: 0, down: 0, unknown: 0 };
    job[health] += 1;
    jobs.set(name, job);
  }
  return [...jobs.values()].sort((a, b) => Number(b.down > 0) - Number(a.down > 0) || a.name.localeCompare(b.name));
}
