// Answers of OpenTSDB as lines.
import type { Annotation, ResultSeries } from '../../api/opentsdb';
import type { Line } from '../../format/align';

export function toLines(answer: readonly ResultSeries[]): Line[] {
  return answer
    .filter(({ dps }) => dps.length > 0)
    .map((series) => ({
      name: nameOf(series),
      points: series.dps.map(([at, value]) => [seconds(at), typeof value === 'number' ? value : null] as const),
    }));
}

export function nameOf({ metric, tags }: Pick<ResultSeries, 'metric' | 'tags'>): string {
  const pairs = Object.keys(tags).sort();
  return pairs.length === 0 ? metric : `${metric} ${pairs.map((key) => `${key}=${tags[key]}`).join(' ')}`;
}

/** Times of OpenTSDB are seconds, or milliseconds where they have more digits. */
export function seconds(at: number): number {
  return at > 0xffffffff ? at / 1000 : at;
}

/** Annotations of the answer by time, each once: global ones come with every series. */
export function toNotes(answer: readonly ResultSeries[]): Annotation[] {
  const all = new Map<string, Annotation>();
  for (const { annotations = [], globalAnnotations = [] } of answer) {
    for (const note of [...annotations, ...globalAnnotations]) all.set(`${note.tsuid ?? ''} ${note.startTime}`, note);
  }
  return [...all.values()].sort((a, b) => seconds(a.startTime) - seconds(b.startTime));
}
