import { formatDuration, formatElapsed } from '../../format/duration';
import { formatCount, formatCountOf } from '../../format/number';
import { formatTime } from '../../format/time';
import { zone } from '../../state/zone';
import type { Run } from './use-run';

/** One line about the answer: how much, how long, how fine. */
export function RunSummary({ run }: { run: Run }) {
  const { data, tab, grid, took } = run;
  const parts: string[] = [];
  if (data.resultType !== 'scalar' && data.resultType !== 'string') parts.push(`${formatCount(data.result.length)} series`);
  parts.push(tab === 'table' ? `at ${formatTime(Math.round(run.at), zone.value)}` : `step ${formatDuration(grid.step)}`);
  const read = data.stats?.samples.samplesRead;
  if (read !== undefined) parts.push(`${formatCountOf(read, 'sample')} read`);
  const server = data.stats?.timings['execTotalTime'];
  parts.push(server === undefined ? formatElapsed(took) : `${formatElapsed(server)} on the server, ${formatElapsed(took)} in all`);
  return <>{parts.join(' · ')}</>;
}
