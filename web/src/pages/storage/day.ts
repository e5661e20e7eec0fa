// Days of the calendar, `2024-05-01`, in local time or UTC.
import { parseTime, type Zone } from '../../format/time';

/** So many days later. */
export function shiftDay(day: string, by: number): string {
  const [year = 0, month = 1, date = 1] = day.split('-').map(Number);
  return new Date(Date.UTC(year, month - 1, date + by)).toISOString().slice(0, 10);
}

export function isDay(text: string | null): text is string {
  return text !== null && /^\d{4}-\d\d-\d\d$/.test(text) && parseTime(text, 'utc', 0) !== null;
}

/** The first and the last millisecond of a day: the server counts every hour that the range touches. */
export function dayBounds(day: string, zone: Zone): { start: number; end: number } {
  const start = parseTime(day, zone, 0) ?? 0;
  const next = parseTime(shiftDay(day, 1), zone, 0) ?? start + 86400;
  return { start, end: next - 0.001 };
}
