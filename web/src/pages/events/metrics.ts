// Metrics of an event type, found by the names of their series:
//
//   counter    orders_total                      orders:5s … orders:7d
//   histogram  latency_bucket, _sum, _count      latency_bucket:5s …
//   gauge      stock                             stock:5s …

export interface EventMetric {
  name: string;
  kind: 'counter' | 'histogram' | 'gauge';
  /** PromQL that shows it. */
  promql: string;
}

export function metricsOf(names: readonly string[]): EventMetric[] {
  const all = new Set(names);
  const windowed = new Set(names.flatMap((name) => /^(.+):(?:5s|1m|1h|1d|7d)$/.exec(name)?.[1] ?? []));
  const found = new Map<string, EventMetric>();
  for (const base of windowed) {
    const part = /^(.+)_(?:bucket|sum|count)$/.exec(base)?.[1];
    const metric = part !== undefined && windowed.has(`${part}_bucket`) ? histogram(part) : all.has(totalOf(base)) ? counter(base) : gauge(base);
    found.set(metric.name, metric);
  }
  return [...found.values()].sort((a, b) => a.name.localeCompare(b.name));
}

const totalOf = (name: string) => (name.endsWith('_total') ? name : `${name}_total`);

const counter = (name: string): EventMetric => ({ name, kind: 'counter', promql: `sum(rate(${totalOf(name)}[5m]))` });
const gauge = (name: string): EventMetric => ({ name, kind: 'gauge', promql: name });
const histogram = (name: string): EventMetric => ({
  name,
  kind: 'histogram',
  promql: `histogram_quantile(0.9, sum by (le) (rate(${name}_bucket[5m])))`,
});

/** Attributes that series of a type are split by. Labels have other characters than paths. */
export function dimensionsOf(labels: readonly string[], paths: readonly string[]): string[] {
  const own = new Set(['__name__', 'service', 'event_type', 'outcome', 'le']);
  const byLabel = new Map(paths.map((path) => [path.replaceAll(/[^a-zA-Z0-9_]/g, '_'), path]));
  return labels.filter((label) => !own.has(label)).map((label) => byLabel.get(label) ?? label);
}
