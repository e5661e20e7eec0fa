// Rankings of two days beside each other.
import type { Count } from '../../api/storage';

export interface Compared {
  name: string;
  value: number;
  /** Null when nobody knows: it was not among the largest of that day. */
  before: number | null;
  /** Series that the day before did not have; null when that cannot be told. */
  added: number | null;
}

/**
 * Joins the rankings of a day, of the day before and, for new series, of both days together: what both
 * days have less what the day before had is what is new. A ranking with less than `limit` entries is
 * complete, so what it does not name was not there.
 */
export function compare(day: readonly Count[], before: readonly Count[], both: readonly Count[] | null, limit: number): Compared[] {
  const old = valuesOf(before, limit);
  const union = both && valuesOf(both, limit);
  const row = (name: string, value: number): Compared => {
    const was = old(name);
    const together = union?.(name) ?? null;
    return { name, value, before: was, added: together === null || was === null ? null : Math.max(0, together - was) };
  };
  const rows = day.map(({ name, value }) => row(name, value));
  if (day.length < limit) {
    const present = new Set(day.map(({ name }) => name));
    for (const { name } of before) if (!present.has(name)) rows.push(row(name, 0));
  }
  return rows;
}

function valuesOf(counts: readonly Count[], limit: number): (name: string) => number | null {
  const values = new Map(counts.map(({ name, value }) => [name, value]));
  return (name) => values.get(name) ?? (counts.length < limit ? 0 : null);
}

export interface Churn {
  added: number;
  gone: number;
}

/** Series that came and went from one day to the next, out of the counts of each day and of both together. */
export function churn(day: number, before: number, both: number): Churn {
  return { added: Math.max(0, both - before), gone: Math.max(0, both - day) };
}
