// What the kinds of jobs do, for people.
import type { RunResult } from '../../api/storage';
import { formatBytes } from '../../format/bytes';
import { formatElapsed } from '../../format/duration';
import { formatCount } from '../../format/number';

const kinds: Record<string, string> = {
  coarsen: 'Building a larger bucket',
  roll_up: 'Rolling up to windows',
  outdated: 'Retiring windows that are made again',
  cull: 'Deleting what is too old',
  fold: 'Folding late samples in',
  clean: 'Removing deleted samples',
  repair: 'Merging a bucket into the one around it',
};

export function kindText(kind: string): string {
  return kinds[kind] ?? kind;
}

/** What a run has done, only what it did at all. */
export function resultText(result: RunResult): string {
  const counts: [number, string][] = [
    [result.coarsened, 'built'],
    [result.rolledUp, 'rolled up'],
    [result.retired, 'replaced'],
    [result.folded, 'folded'],
    [result.merged, 'merged into windows'],
    [result.repaired, 'repaired'],
    [result.remnants, 'made of series that are kept for longer'],
    [result.culled, 'deleted for their age'],
  ];
  const done = counts.filter(([n]) => n > 0).map(([n, what]) => `${formatCount(n)} ${what}`);
  const took = `${formatElapsed(result.seconds)}, ${formatBytes(result.bytesRead)} read and ${formatBytes(result.bytesWritten)} written`;
  return done.length === 0 ? `There was nothing to do (${took}).` : `Buckets: ${done.join(', ')} (${took}).`;
}
