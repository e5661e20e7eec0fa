// How a query was evaluated: where the time went, what was read, and the plan.
import type { QueryData, Stats as QueryStats } from '../../api/query';
import { formatElapsed } from '../../format/duration';
import { formatCount, formatShort } from '../../format/number';
import { Copy } from '../../ui/copy';
import { Empty } from '../../ui/feedback';
import { Bar, Stat, Stats } from '../../ui/stat';

const phases: readonly [keyof QueryStats['timings'] & string, string][] = [
  ['execQueueTime', 'waiting for its turn'],
  ['queryPreparationTime', 'parsing and planning'],
  ['innerEvalTime', 'reading and evaluating'],
];

export function Explain({ data, took }: { data: QueryData; took: number }) {
  const { stats, explain } = data;
  if (!stats && !explain) return <Empty title="The server says nothing about this query." />;
  return (
    <div class="stack">
      {stats && <Costs stats={stats} took={took} />}
      {stats?.samples.samplesReadPerStep && <PerStep title="Samples read at each step" counts={stats.samples.samplesReadPerStep} />}
      {explain && (
        <section>
          <div class="row">
            <h3>Plan</h3>
            <Copy text={explain} label="Copy the plan" />
          </div>
          <pre class="plan">{explain}</pre>
        </section>
      )}
    </div>
  );
}

function Costs({ stats: { timings, samples }, took }: { stats: QueryStats; took: number }) {
  const total = timings['execTotalTime'] ?? 0;
  return (
    <>
      <Stats>
        <Stat label="Time on the server">{formatElapsed(total)}</Stat>
        <Stat label="Until the answer was here">{formatElapsed(took)}</Stat>
        <Stat label="Samples read" title="A sample that several steps use counts once">
          {formatCount(samples.samplesRead ?? 0)}
        </Stat>
        <Stat label="Samples used" title="A sample counts at each step that uses it">
          {formatCount(samples.totalQueryableSamples)}
        </Stat>
        <Stat label="Peak memory" title="In samples of eight bytes">
          {formatShort(samples.peakSamples)} samples
        </Stat>
      </Stats>
      <table class="phases">
        <tbody>
          {phases.map(([key, text]) => (
            <tr key={key}>
              <td>{text}</td>
              <td class="number">{formatElapsed(timings[key] ?? 0)}</td>
              <td>
                <Bar part={total > 0 ? (timings[key] ?? 0) / total : 0} label={`part of the time: ${text}`} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </>
  );
}

const barsMax = 120;

/** A small chart without axes: where in the range most is read. */
function PerStep({ title, counts }: { title: string; counts: readonly [number, number][] }) {
  if (counts.length < 2) return null;
  const every = Math.ceil(counts.length / barsMax);
  const bars = counts.filter((_, i) => i % every === 0).map((_, i) => Math.max(...counts.slice(i * every, (i + 1) * every).map(([, n]) => n)));
  const most = Math.max(...bars, 1);
  return (
    <section>
      <h3>{title}</h3>
      <p class="muted">
        at most {formatCount(most)} in a step, {formatCount(counts.length)} steps
      </p>
      <svg class="steps" viewBox={`0 0 ${bars.length} 20`} preserveAspectRatio="none" role="img" aria-label={title}>
        {bars.map((n, i) => (
          <rect key={i} x={i} width="0.85" y={20 - (20 * n) / most} height={(20 * n) / most} />
        ))}
      </svg>
    </section>
  );
}
