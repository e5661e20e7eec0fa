// A time range in the hash: `range=1h`, and `end=` in UNIX seconds unless it follows now.
import { formatDuration, parseDuration } from '../format/duration';
import type { Span } from './time-range';

export function readSpan(params: URLSearchParams, fallback = 3600): Span {
  const range = parseDuration(params.get('range') ?? '');
  const end = Number(params.get('end'));
  return { range: range || fallback, end: end > 0 ? end : null };
}

export function spanParams(span: Span): { range: string; end: string | null } {
  return { range: formatDuration(span.range), end: span.end === null ? null : String(span.end) };
}
