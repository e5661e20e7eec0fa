// Points in time: seconds since the UNIX epoch, shown in local time or UTC.

import { parseDuration } from './duration';

export type Zone = 'local' | 'utc';

interface Fields {
  year: number;
  month: number;
  day: number;
  hour: number;
  minute: number;
  second: number;
  ms: number;
}

function fields(at: number, zone: Zone): Fields {
  const date = new Date(Math.round(at * 1000));
  return zone === 'utc'
    ? {
        year: date.getUTCFullYear(),
        month: date.getUTCMonth() + 1,
        day: date.getUTCDate(),
        hour: date.getUTCHours(),
        minute: date.getUTCMinutes(),
        second: date.getUTCSeconds(),
        ms: date.getUTCMilliseconds(),
      }
    : {
        year: date.getFullYear(),
        month: date.getMonth() + 1,
        day: date.getDate(),
        hour: date.getHours(),
        minute: date.getMinutes(),
        second: date.getSeconds(),
        ms: date.getMilliseconds(),
      };
}

const two = (n: number) => String(n).padStart(2, '0');

/** `2024-05-01 13:45:00`, with milliseconds only where there are some. */
export function formatTime(at: number, zone: Zone): string {
  if (!Number.isFinite(at)) return '–';
  const f = fields(at, zone);
  const ms = f.ms === 0 ? '' : `.${String(f.ms).padStart(3, '0')}`;
  return `${formatDay(at, zone)} ${two(f.hour)}:${two(f.minute)}:${two(f.second)}${ms}`;
}

export function formatDay(at: number, zone: Zone): string {
  const f = fields(at, zone);
  return `${String(f.year).padStart(4, '0')}-${two(f.month)}-${two(f.day)}`;
}

/** Hour and minute; with seconds where they are not zero. */
export function formatClock(at: number, zone: Zone): string {
  const f = fields(at, zone);
  return `${two(f.hour)}:${two(f.minute)}${f.second === 0 ? '' : `:${two(f.second)}`}`;
}

/** The name of the zone at that time: `UTC`, `UTC+02:00`. */
export function zoneName(at: number, zone: Zone): string {
  if (zone === 'utc') return 'UTC';
  const minutes = -new Date(at * 1000).getTimezoneOffset();
  if (minutes === 0) return 'UTC';
  const size = Math.abs(minutes);
  return `UTC${minutes < 0 ? '-' : '+'}${two(Math.floor(size / 60))}:${two(size % 60)}`;
}

const written = /^(\d{4})-(\d{1,2})-(\d{1,2})(?:[ T](\d{1,2}):(\d{2})(?::(\d{2})(\.\d+)?)?)?\s*(Z|[+-]\d{2}:?\d{2})?$/;

/**
 * Understands what `formatTime` writes, the same without seconds or clock, RFC 3339, UNIX seconds
 * (or milliseconds, from 13 digits on) and `now`, `now-1h`, `-1h`.
 */
export function parseTime(text: string, zone: Zone, now: number): number | null {
  const trimmed = text.trim();
  const relative = /^(?:now)?(?:\s*([+-])\s*(\S+))?$/.exec(trimmed);
  if (trimmed && relative) return relativeTime(relative[1], relative[2], now);
  if (/^\d{9,}(\.\d+)?$/.test(trimmed)) {
    const n = Number(trimmed);
    return n >= 1e12 ? n / 1000 : n;
  }
  const found = written.exec(trimmed);
  if (!found) return null;
  const [, year, month, day, hour = '0', minute = '0', second = '0', fraction = '0', offset] = found;
  const parts = [Number(year), Number(month) - 1, Number(day), Number(hour), Number(minute), Number(second)] as const;
  if (parts[1] > 11 || parts[2] < 1 || parts[2] > 31 || parts[3] > 23 || parts[4] > 59 || parts[5] > 60) return null;
  const ms = Math.round(Number(`0${fraction.replace(/^0/, '')}`) * 1000);
  if (zone === 'local' && offset === undefined) return new Date(...parts, ms).getTime() / 1000;
  return (Date.UTC(...parts, ms) - offsetMs(offset)) / 1000;
}

function offsetMs(offset: string | undefined): number {
  if (offset === undefined || offset === 'Z') return 0;
  const minutes = Number(offset.slice(1, 3)) * 60 + Number(offset.slice(-2));
  return (offset.startsWith('-') ? -1 : 1) * minutes * 60_000;
}

function relativeTime(sign: string | undefined, duration: string | undefined, now: number): number | null {
  if (sign === undefined || duration === undefined) return now;
  const seconds = parseDuration(duration);
  return seconds === null ? null : sign === '-' ? now - seconds : now + seconds;
}
