import type { Buckets } from '../../api/storage';
import { sumOf } from '../../format/exposition';
import { formatBytes } from '../../format/bytes';
import { formatCount, formatShort } from '../../format/number';
import { KnownStat } from '../../ui/explain';
import { Stats } from '../../ui/stat';
import type { Readings } from './index';
import { totalsOf } from './lanes';
import { rateOf } from './rates';

/** Memory and store in a few numbers, above every tab. */
export function HeadStats({ buckets, readings }: { buckets: Buckets | null; readings: Readings }) {
  const { now, before } = readings;
  const own = (name: string) => now && sumOf(now.samples, name);
  const rate = now && rateOf(now, before, 'icecore_ingested_samples_total');
  const created = now && rateOf(now, before, 'icecore_series_created_total');
  const series = own('icecore_active_series') ?? buckets?.head.series;
  const raw = buckets && totalsOf(buckets.buckets.filter((bucket) => bucket.resolution === 'raw'));
  const all = buckets && totalsOf(buckets.buckets);
  return (
    <Stats>
      <KnownStat
        label="Series in memory"
        help="Series that got samples lately. Each takes memory until it has been silent for head.series_idle_max; this number, not that of samples, decides how much memory the server needs."
      >
        {count(series)}
      </KnownStat>
      <KnownStat label="New series" help="Series that appeared, per second, over the last minute at most. This is churn: a high rate, for example by pods that come and go, costs memory and index.">
        {created === null ? '…' : `${formatShort(created)}/s`}
      </KnownStat>
      <KnownStat label="Ingested" help="Samples that were stored and acknowledged, per second, over the last minute at most.">
        {rate === null ? '…' : `${formatShort(rate)}/s`}
      </KnownStat>
      <KnownStat
        label="Samples in memory"
        help="Memory of samples that are in no bucket yet. They are safe: the journal in the object store has them, too. Hours are flushed into buckets at head.flush_bytes; at head.bytes_max writes get 503."
      >
        {bytes(own('icecore_head_sample_bytes') ?? buckets?.head.bytes)}
      </KnownStat>
      <KnownStat
        label="Memory of series"
        help="Labels and index of the series in memory. Flushes do not free it; new series are refused at head.series_bytes_max."
      >
        {bytes(own('icecore_head_series_bytes'))}
      </KnownStat>
      <KnownStat label="In buckets" help="Size of all buckets in the object store, as far as it is known, compressed. Files that wait to be deleted are not in it.">
        {all ? bytes(all.bytes) : '…'}
      </KnownStat>
      <KnownStat
        label="Bytes per sample"
        help="Size of raw buckets divided by their samples, index included. Fresh hours take more, coarse buckets less. One to two bytes are usual for regular samples."
      >
        {raw?.bytesPerSample == null ? '–' : formatShort(raw.bytesPerSample)}
      </KnownStat>
    </Stats>
  );
}

const count = (n: number | null | undefined) => (n == null ? '…' : formatCount(n));
const bytes = (n: number | null | undefined) => (n == null ? '…' : formatBytes(n));
