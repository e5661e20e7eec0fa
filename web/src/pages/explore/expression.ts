// Which query a metric is most likely wanted for, by its type or, where nobody told it, its name.
import { metricSelector, quote } from '../../format/labels';

export type Kind = 'counter' | 'gauge' | 'buckets' | 'sum' | 'native';

/** What the series of this name hold. `type` is that of the metric's family. */
export function kindOf(name: string, type: string | null): Kind {
  const described = type !== null && type !== '' && type !== 'unknown';
  if (type === 'counter') return 'counter';
  if (type === 'histogram' || type === 'summary' || !described) {
    if (name.endsWith('_bucket')) return 'buckets';
    if (name.endsWith('_sum')) return 'sum';
    if (name.endsWith('_count') || name.endsWith('_total')) return 'counter';
  }
  // A histogram whose series have no suffix is a native one.
  return type === 'histogram' ? 'native' : 'gauge';
}

export interface Suggestion {
  title: string;
  expr: string;
}

/** Queries for a metric, the most useful first. */
export function suggestions(name: string, type: string | null): Suggestion[] {
  const x = metricSelector(name);
  const rate = `rate(${ranged(name, '5m')})`;
  const plain = { title: 'As stored', expr: x };
  switch (kindOf(name, type)) {
    case 'counter':
      return [{ title: 'Per second', expr: rate }, { title: 'Per second, total', expr: `sum(${rate})` }, plain];
    case 'buckets':
      return [
        { title: '90th percentile', expr: `histogram_quantile(0.9, sum by (le) (${rate}))` },
        { title: 'Median', expr: `histogram_quantile(0.5, sum by (le) (${rate}))` },
        { title: 'Buckets, per second', expr: `sum by (le) (${rate})` },
      ];
    case 'native':
      return [
        { title: '90th percentile', expr: `histogram_quantile(0.9, sum(${rate}))` },
        { title: 'Average', expr: `histogram_avg(sum(${rate}))` },
        { title: 'Observations per second', expr: `histogram_count(sum(${rate}))` },
      ];
    case 'sum':
      return [{ title: 'Average', expr: `sum(${rate}) / sum(rate(${ranged(name.replace(/_sum$/, '_count'), '5m')}))` }, plain];
    case 'gauge':
      return [plain, { title: 'Average', expr: `avg(${x})` }, { title: 'Largest', expr: `topk(10, ${x})` }];
  }
}

const fewSeries = 10;

export interface Drawn {
  expr: string;
  /** What the line is, in words. */
  what: string;
}

/** What is drawn of it: each series while they are few, else one line for all of them. */
export function drawn(name: string, type: string | null, series: number): Drawn {
  const x = metricSelector(name);
  const few = series <= fewSeries;
  const rate = `rate(${ranged(name, '5m')})`;
  switch (kindOf(name, type)) {
    case 'counter':
      return few ? { expr: rate, what: 'per second, each series' } : { expr: `sum(${rate})`, what: 'per second, sum of all series' };
    case 'gauge':
      return few ? { expr: x, what: 'each series' } : { expr: `avg(${x})`, what: 'average of all series' };
    default: {
      const first = suggestions(name, type)[0]!;
      return { expr: first.expr, what: `${first.title.toLowerCase()}, all series together` };
    }
  }
}

/** The metric where a label has a value. */
export function selectorOf(name: string, label: string, value: string): string {
  const inside = `${/^[a-zA-Z_]\w*$/.test(label) ? label : quote(label)}=${quote(value)}`;
  const plain = metricSelector(name);
  return plain.endsWith('}') ? `${plain.slice(0, -1)}, ${inside}}` : `${plain}{${inside}}`;
}

function ranged(name: string, range: string): string {
  return `${metricSelector(name)}[${range}]`;
}
