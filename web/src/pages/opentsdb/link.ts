// The view in the hash: `m=` for each sub query, as OpenTSDB writes them, and the time.
import { formatDuration } from '../../format/duration';
import { buildHash, navigate, route } from '../../router';
import { bounds, type Span } from '../../ui/time-range';
import { readSpan, spanParams } from '../../ui/span-params';
import { formatM, newSubQuery, parseM, type SubQuery } from './sub-query';

export interface View {
  queries: SubQuery[];
  span: Span;
}

export function readView(params: URLSearchParams): View {
  const queries = params.getAll('m').map(parseM);
  return { queries: queries.length > 0 ? queries : [{ ...newSubQuery }], span: readSpan(params) };
}

function viewParams({ queries, span }: View): URLSearchParams {
  const params = new URLSearchParams();
  for (const query of queries) params.append('m', formatM(query));
  const { range, end } = spanParams(span);
  params.set('range', range);
  if (end !== null) params.set('end', end);
  return params;
}

export function writeView(view: View, how: { replace?: boolean } = {}): void {
  navigate(route.value.page, viewParams(view), how);
}

/** The graph of one series: every tag with its value. */
export function seriesHref(metric: string, tags: Record<string, string>): string {
  const filters = Object.entries(tags).map(([tagk, filter]) => ({ tagk, type: 'literal_or', filter, groupBy: true }));
  return buildHash('opentsdb', viewParams({ queries: [{ ...newSubQuery, metric, filters }], span: { range: 3600, end: null } }));
}

/** The query page with these expressions over the same time. */
export function promqlHref(expressions: readonly string[], span: Span, step: string): string {
  const params = new URLSearchParams();
  const { end } = bounds(span, Date.now() / 1000);
  expressions.forEach((expr, i) => {
    params.set(`g${i}.expr`, expr);
    params.set(`g${i}.tab`, 'graph');
    params.set(`g${i}.range_input`, formatDuration(span.range));
    if (span.end !== null) params.set(`g${i}.end_input`, new Date(Math.round(end * 1000)).toISOString().replace('T', ' ').replace(/(\.\d+)?Z$/, ''));
    if (step !== '') params.set(`g${i}.step_input`, step);
  });
  return buildHash('query', params);
}
