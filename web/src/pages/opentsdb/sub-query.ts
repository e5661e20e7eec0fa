// A sub query as the form has it, as OpenTSDB's `m=`, and as its JSON:
//
//   sum:1m-avg-none:rate{counter}:explicit_tags:sys.cpu{host=*}{dc=literal_or(lga)}

export interface TagFilter {
  tagk: string;
  type: string;
  filter: string;
  /** Whether the result is split by the tag's values. */
  groupBy: boolean;
}

export type Rate = '' | 'rate' | 'counter' | 'dropcounter';

export interface SubQuery {
  aggregator: string;
  /** `1m-avg` or `1m-avg-zero`; empty for none. */
  downsample: string;
  rate: Rate;
  /** Of counters: where they begin anew, and from which rate on it is taken for a restart. */
  counterMax: string;
  resetValue: string;
  explicitTags: boolean;
  metric: string;
  filters: TagFilter[];
}

export const newSubQuery: SubQuery = {
  aggregator: 'sum',
  downsample: '',
  rate: '',
  counterMax: '',
  resetValue: '',
  explicitTags: false,
  metric: '',
  filters: [],
};

export const filterTypes = ['literal_or', 'iliteral_or', 'wildcard', 'iwildcard', 'regexp', 'not_literal_or', 'not_iliteral_or', 'not_key'] as const;

export function formatM(query: SubQuery): string {
  const parts = [query.aggregator];
  if (query.downsample) parts.push(query.downsample);
  if (query.rate) parts.push(formatRate(query));
  if (query.explicitTags) parts.push('explicit_tags');
  const braces = (groupBy: boolean) => {
    const list = query.filters.filter((filter) => filter.groupBy === groupBy && filter.tagk !== '');
    return list.map(({ tagk, type, filter }) => `${tagk}=${type}(${filter})`).join(',');
  };
  const [grouping, plain] = [braces(true), braces(false)];
  const tags = plain ? `{${grouping}}{${plain}}` : grouping ? `{${grouping}}` : '';
  return [...parts, query.metric + tags].join(':');
}

function formatRate({ rate, counterMax, resetValue }: SubQuery): string {
  if (rate === 'rate') return 'rate';
  const options = [rate as string];
  if (counterMax || resetValue) options.push(counterMax);
  if (resetValue) options.push(resetValue);
  return `rate{${options.join(',')}}`;
}

const isOption = (part: string) => /^(rate(\{[^}]*\})?|explicit_tags|\d+(ms|s|m|h|d|w|n|y|all)c?-.+)$/.test(part);

/** Names of Prometheus may have colons, so that options end with the first part that is none. */
export function parseM(text: string): SubQuery {
  const [aggregator = '', ...rest] = text.split(':');
  const query: SubQuery = { ...newSubQuery, aggregator, filters: [] };
  while (rest.length > 1 && isOption(rest[0]!)) {
    const option = rest.shift()!;
    if (option === 'explicit_tags') query.explicitTags = true;
    else if (option.startsWith('rate')) Object.assign(query, parseRate(option));
    else query.downsample = option;
  }
  const found = /^([^{]*)(?:\{([^]*)\})?$/.exec(rest.join(':'));
  query.metric = found?.[1] ?? rest.join(':');
  const [grouping = '', plain = ''] = (found?.[2] ?? '').split('}{');
  query.filters = [...parseFilters(grouping, true), ...parseFilters(plain, false)];
  return query;
}

function parseRate(option: string): Partial<SubQuery> {
  const [kind, counterMax = '', resetValue = ''] = option.slice('rate{'.length, -1).split(',');
  return { rate: kind === 'counter' || kind === 'dropcounter' ? kind : 'rate', counterMax, resetValue };
}

function parseFilters(text: string, groupBy: boolean): TagFilter[] {
  // A comma within parentheses belongs to the filter.
  const list = text.match(/(?:\([^]*?\)(?=,|$)|[^,])+/g) ?? [];
  return list.map((part) => {
    const at = part.indexOf('=');
    const tagk = part.slice(0, Math.max(at, 0));
    const value = part.slice(at + 1);
    const call = /^([a-z_]+)\(([^]*)\)$/.exec(value);
    if (call) return { tagk, type: call[1]!, filter: call[2]!, groupBy };
    return { tagk, type: value.includes('*') ? 'wildcard' : 'literal_or', filter: value, groupBy };
  });
}

/** As `POST /api/query` takes it: any name fits in there. */
export function toJson(query: SubQuery): Record<string, unknown> {
  const json: Record<string, unknown> = {
    aggregator: query.aggregator,
    metric: query.metric,
    filters: query.filters.filter(({ tagk }) => tagk !== ''),
    explicitTags: query.explicitTags,
    rate: query.rate !== '',
  };
  if (query.downsample) json['downsample'] = query.downsample;
  if (query.rate === 'counter' || query.rate === 'dropcounter') {
    json['rateOptions'] = {
      counter: true,
      dropResets: query.rate === 'dropcounter',
      ...(query.counterMax ? { counterMax: Number(query.counterMax) } : {}),
      ...(query.resetValue ? { resetValue: Number(query.resetValue) } : {}),
    };
  }
  return json;
}

export interface Downsample {
  interval: string;
  aggregator: string;
  fill: string;
}

export function parseDownsample(text: string): Downsample {
  const [interval = '', aggregator = '', fill = ''] = text.split('-');
  return { interval, aggregator, fill };
}

export function formatDownsample({ interval, aggregator, fill }: Downsample): string {
  if (interval === '') return '';
  return [interval, aggregator || 'avg', ...(fill ? [fill] : [])].join('-');
}
