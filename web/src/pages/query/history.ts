// Queries that were run, the latest first.
import { signal } from '@preact/signals';
import { matches } from '../../format/search';
import { read, write } from '../../state/stored';

const key = 'icecore.history';
const entriesMax = 200;
const lengthMax = 10_000;

export const history = signal<readonly string[]>(load());

function load(): string[] {
  try {
    const kept: unknown = JSON.parse(read(key) ?? '[]');
    return Array.isArray(kept) ? kept.filter((entry) => typeof entry === 'string').slice(0, entriesMax) : [];
  } catch {
    return [];
  }
}

export function remember(expr: string): void {
  // Another tab may have added to it.
  save(added(load(), expr));
}

export function forget(expr: string | null): void {
  save(expr === null ? [] : load().filter((entry) => entry !== expr));
}

function save(entries: readonly string[]): void {
  history.value = entries;
  write(key, entries.length === 0 ? null : JSON.stringify(entries));
}

/** The entries with this one first, and never more than are kept. */
export function added(entries: readonly string[], expr: string): string[] {
  const text = expr.trim();
  if (text === '' || text.length > lengthMax) return [...entries];
  return [text, ...entries.filter((entry) => entry !== text)].slice(0, entriesMax);
}

export function searchHistory(entries: readonly string[], text: string): string[] {
  return entries.filter((entry) => matches(entry, text.trim()));
}
