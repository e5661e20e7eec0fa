// Counters by intervals.
import type { Counted } from '../../api/events';
import type { Line } from '../../format/align';
import { formatDuration, parseDuration } from '../../format/duration';

const intervals = ['5s', '10s', '30s', '1m', '5m', '15m', '30m', '1h', '4h', '1d', '7d'];
export const intervalChoices: readonly string[] = intervals;

/** Few enough intervals to be told apart in a graph. */
const intervalsWanted = 200;

export function intervalFor(range: number): string {
  return intervals.find((text) => range / parseDuration(text)! <= intervalsWanted) ?? intervals.at(-1)!;
}

/** A line for each group, named by its values. */
export function countLines(answer: Counted, groupBy: readonly string[], counter: string): Line[] {
  const { data } = answer.data.intervals;
  const lines = new Map<string, [number, number | null][]>();
  const from = data['from'] ?? [];
  for (let i = 0; i < from.length; i += 1) {
    const name = groupBy.map((path) => `${path}=${String(data[path]?.[i] ?? '')}`).join(' ') || counter;
    let points = lines.get(name);
    if (!points) lines.set(name, (points = []));
    const value = data['count']?.[i];
    points.push([Date.parse(String(from[i])) / 1000, typeof value === 'number' ? value : null]);
  }
  return [...lines].map(([name, points]) => ({ name, points }));
}

/** The same as a rate in PromQL, per interval. */
export function countPromql(counter: string, service: string, type: string, groupBy: readonly string[], interval: string): string {
  const labels = groupBy.map((path) => path.replaceAll(/[^a-zA-Z0-9_]/g, '_'));
  const by = labels.length > 0 ? ` by (${labels.join(', ')})` : '';
  const total = counter.endsWith('_total') ? counter : `${counter}_total`;
  const window = formatDuration(Math.max(parseDuration(interval) ?? 60, 10));
  return `sum${by} (increase(${total}{service=${JSON.stringify(service)}, event_type=${JSON.stringify(type)}}[${window}]))`;
}
