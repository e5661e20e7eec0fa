// A signal that survives a reload. Storage may be forbidden or full; then it lasts as long as the page.
import { effect, signal, type Signal } from '@preact/signals';

export function read(key: string, store: () => Storage = () => localStorage): string | null {
  try {
    return store().getItem(key);
  } catch {
    return null;
  }
}

export function write(key: string, value: string | null, store: () => Storage = () => localStorage): void {
  try {
    if (value === null) store().removeItem(key);
    else store().setItem(key, value);
  } catch {
    // Nothing to be done: the value is still in memory.
  }
}

/** One of `choices`, kept in localStorage; the first is the default. */
export function storedChoice<T extends string>(key: string, choices: readonly [T, ...T[]]): Signal<T> {
  const kept = read(key) as T | null;
  const state = signal<T>(kept !== null && choices.includes(kept) ? kept : choices[0]);
  effect(() => write(key, state.value === choices[0] ? null : state.value));
  return state;
}
