import { describe, expect, test } from 'vitest';
import type { Target } from '../../src/api/targets';
import { selectRows, toJobs, toRows } from '../../src/pages/targets/select';

const target = (patch: Partial<Target>): Target => ({
  discoveredLabels: {},
  labels: { job: 'node', instance: 'a:1' },
  scrapePool: 'node',
  scrapeUrl: 'http://a:1/metrics',
  globalUrl: 'http://a:1/metrics',
  lastError: '',
  lastScrape: '2026-11-09T10:00:00Z',
  lastScrapeDuration: 0.5,
  health: 'up',
  scrapeInterval: '15s',
  scrapeTimeout: '10s',
  ...patch,
});

const all = [
  target({}),
  target({ scrapePool: 'db', scrapeUrl: 'http://z:1/', health: 'up' }),
  target({ scrapeUrl: 'http://b:10/', health: 'unknown', lastScrape: '0001-01-01T00:00:00Z' }),
  target({ scrapeUrl: 'http://b:9/', health: 'down', lastError: 'connection refused', lastScrapeDuration: 9 }),
];

describe('targets', () => {
  test('failing ones come first', () => {
    const rows = toRows(all);
    expect(rows.map((row) => row.target.scrapeUrl)).toEqual(['http://b:9/', 'http://b:10/', 'http://z:1/', 'http://a:1/metrics']);
    expect(rows.map((row) => row.lastScrape === null)).toEqual([false, true, false, false]);
    expect(rows[0]!.partOfTimeout).toBeCloseTo(0.9);
  });

  test('are found by health, job, labels and errors', () => {
    const found = (by: Partial<Parameters<typeof selectRows>[1]>) => selectRows(toRows(all), { text: '', health: '', job: '', ...by }).length;
    expect(found({})).toBe(4);
    expect(found({ health: 'down' })).toBe(1);
    expect(found({ job: 'db' })).toBe(1);
    expect(found({ text: 'REFUSED b:9' })).toBe(1);
    expect(found({ text: 'instance=a:1', job: 'node' })).toBe(3);
    expect(found({ text: 'nothing' })).toBe(0);
  });

  test('jobs with failing targets come first', () => {
    expect(toJobs(all)).toEqual([
      { name: 'node', up: 1, down: 1, unknown: 1 },
      { name: 'db', up: 1, down: 0, unknown: 0 },
    ]);
  });

  test('ten thousand are searched quickly', () => {
    const rows = toRows(Array.from({ length: 10_000 }, (_, i) => target({ scrapeUrl: `http://host${i}:9100/metrics` })));
    const begin = performance.now();
    expect(selectRows(rows, { text: 'host9999', health: '', job: '' })).toHaveLength(1);
    expect(performance.now() - begin).toBeLessThan(200);
  });
});
