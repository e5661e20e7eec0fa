// When what is stored goes, by the retention policy.
import type { Bucket, Policy } from '../../api/storage';
import { endOf } from './lanes';

export interface Expiry {
  bucket: Bucket;
  /** When its last sample is too old. It is deleted some time after, with its neighbors. */
  at: number;
}

/** Buckets in the order in which they go; those that are kept for ever are left out. */
export function expiries(buckets: readonly Bucket[], policy: Policy | null): Expiry[] {
  const kept = new Map(policy?.levels.map((level) => [level.resolution, level.retainMs]));
  return buckets
    .flatMap((bucket) => {
      const retainMs = kept.get(bucket.resolution);
      return retainMs === undefined || retainMs === null ? [] : [{ bucket, at: endOf(bucket) + retainMs / 1000 }];
    })
    .sort((a, b) => a.at - b.at);
}

export interface Going {
  /** Seconds from now until which it goes. */
  within: number;
  buckets: number;
  bytes: number;
}

/** How much goes within each of these times, summed up. */
export function goingWithin(list: readonly Expiry[], now: number, times: readonly number[]): Going[] {
  return times.map((within) => {
    const gone = list.filter(({ at }) => at <= now + within);
    return { within, buckets: gone.length, bytes: gone.reduce((sum, { bucket }) => sum + (bucket.bytes ?? 0), 0) };
  });
}
