// Where buckets lie on the time line: a lane per resolution, in each a box per bucket.
import type { Bucket } from '../../api/storage';
import { parseDuration } from '../../format/duration';
import { formatClock, formatDay, type Zone } from '../../format/time';

export interface Box {
  bucket: Bucket;
  /** Parts of the lane's width and height, from 0 to 1. */
  x: number;
  width: number;
  height: number;
}

export interface Lane {
  resolution: string;
  boxes: Box[];
  /** Of all buckets of the resolution, also of those outside of the range. */
  total: Totals;
}

export interface Totals {
  buckets: number;
  bytes: number;
  samples: number;
  /** Null when sizes or numbers of samples are not known. */
  bytesPerSample: number | null;
}

export const endOf = (bucket: Bucket): number => bucket.start + bucket.hours * 3600;

/** The least part of the height: an empty bucket can still be seen and pointed at. */
const least = 0.12;

/** Boxes are as high as their bytes per hour, so that their area is their size. */
export function layOut(buckets: readonly Bucket[], start: number, end: number): Lane[] {
  const length = end - start;
  return resolutionsOf(buckets).map((resolution) => {
    const all = buckets.filter((bucket) => bucket.resolution === resolution);
    const densest = Math.max(...all.map(density));
    const boxes = all
      .filter((bucket) => endOf(bucket) > start && bucket.start < end)
      .sort((a, b) => a.start - b.start || b.hours - a.hours)
      .map((bucket) => {
        const left = Math.max(bucket.start, start);
        const part = densest > 0 ? density(bucket) / densest : 0;
        return { bucket, x: (left - start) / length, width: (Math.min(endOf(bucket), end) - left) / length, height: least + (1 - least) * part };
      });
    return { resolution, boxes, total: totalsOf(all) };
  });
}

const density = (bucket: Bucket): number => (bucket.bytes ?? 0) / bucket.hours;

/** Raw samples first, then windows from fine to coarse. */
export function resolutionsOf(buckets: readonly Bucket[]): string[] {
  const width = (resolution: string) => (resolution === 'raw' ? 0 : (parseDuration(resolution) ?? Infinity));
  return [...new Set(buckets.map((bucket) => bucket.resolution))].sort((a, b) => width(a) - width(b));
}

export function totalsOf(buckets: readonly Bucket[]): Totals {
  let bytes = 0;
  let samples = 0;
  // Only buckets of which both are known tell how large a sample is.
  let known = { bytes: 0, samples: 0 };
  for (const bucket of buckets) {
    bytes += bucket.bytes ?? 0;
    samples += bucket.samples ?? 0;
    if (bucket.bytes !== null && bucket.samples !== null) {
      known = { bytes: known.bytes + bucket.bytes, samples: known.samples + bucket.samples };
    }
  }
  return { buckets: buckets.length, bytes, samples, bytesPerSample: known.samples > 0 ? known.bytes / known.samples : null };
}

/** The box at this part of the width; where boxes overlap, the smallest. Near is good enough: an hour in a year is thin. */
export function boxAt(boxes: readonly Box[], x: number, near: number): Box | null {
  let best: { box: Box; away: number } | null = null;
  for (const box of boxes) {
    const away = Math.max(box.x - x, x - (box.x + box.width), 0);
    if (away > near) continue;
    if (!best || away < best.away || (away === best.away && box.width < best.box.width)) best = { box, away };
  }
  return best?.box ?? null;
}

const hour = 3600;
const day = 24 * hour;
const steps = [hour, 3 * hour, 6 * hour, 12 * hour, day, 2 * day, 7 * day, 14 * day, 30 * day, 91 * day, 182 * day, 365 * day, 1825 * day];

export interface Tick {
  x: number;
  text: string;
}

/** At most `count` marks at round times. */
export function ticks(start: number, end: number, zone: Zone, count: number): Tick[] {
  const step = steps.find((size) => (end - start) / size <= count) ?? (end - start) / count;
  const offset = zone === 'local' ? -new Date(end * 1000).getTimezoneOffset() * 60 : 0;
  const marks: Tick[] = [];
  for (let at = Math.ceil((start + offset) / step) * step - offset; at < end; at += step) {
    const midnight = (at + offset) % day === 0;
    marks.push({ x: (at - start) / (end - start), text: step < day && !midnight ? formatClock(at, zone) : formatDay(at, zone) });
  }
  return marks;
}
