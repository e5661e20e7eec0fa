// At which times a range is evaluated.
import type { Grid } from '../../api/query';
import { parseDuration } from '../../format/duration';
import { bounds, type Span } from '../../ui/time-range';

const points = 480;
const pointsMax = 11_000;
const nice = [0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400];

/** A round step that gives at most so many points. */
export function autoStep(range: number): number {
  const least = range / points;
  return nice.find((step) => step >= least) ?? Math.ceil(least / 86400) * 86400;
}

/** The step that the text asks for; never one that gives more points than the server allows. */
export function stepOf(text: string, range: number): number {
  const wanted = parseDuration(text) || autoStep(range);
  return Math.max(wanted, Math.ceil((range / pointsMax) * 1000) / 1000);
}

/**
 * Ends with the second that has begun, so that a sample is seen as soon as it is sent. While the page refreshes
 * itself (`steady`), the end is rounded to the step instead: the same times are asked for again, and
 * lines do not tremble. A step of more than a minute is not rounded to, or the newest would be missing.
 */
export function gridOf(span: Span, step: string, now: number, steady: boolean): Grid {
  const seconds = stepOf(step, span.range);
  const { end } = bounds(span, now);
  const last = span.end !== null ? end : steady && seconds <= 60 ? Math.floor(end / seconds) * seconds : Math.ceil(end);
  const count = Math.floor(span.range / seconds);
  return { start: ms(last - count * seconds), end: ms(last), step: seconds };
}

const ms = (seconds: number) => Math.round(seconds * 1000) / 1000;
