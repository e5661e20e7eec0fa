// Keys of the whole page. What is registered is also what `?` shows.
import { signal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';

export interface Key {
  /** As it is shown: `/`, `?`, `Ctrl-K`, `Ctrl-Enter`. Ctrl also stands for Cmd. */
  key: string;
  help: string;
  run: () => void;
}

/** Keys that are in effect now, the latest first: a page's go before the shell's. */
export const keys = signal<readonly Key[]>([]);

export function useKeys(list: readonly Key[]): void {
  // The functions may be new with every render; registering them once is enough.
  const latest = useRef(list);
  latest.current = list;
  const names = list.map((key) => `${key.key} ${key.help}`).join('\n');
  useEffect(() => {
    const mine = list.map((key, i) => ({ ...key, run: () => latest.current[i]?.run() }));
    keys.value = [...mine, ...keys.value];
    return () => {
      keys.value = keys.value.filter((key) => !mine.includes(key));
    };
  }, [names]);
}

export function startKeys(): void {
  document.addEventListener('keydown', (event) => {
    if (event.defaultPrevented || event.isComposing) return;
    const name = nameOf(event);
    // The editor lives in a shadow tree; seen from here, the target would be its host.
    const typing = isTyping(event.composedPath()[0] ?? null);
    if (typing && !name.startsWith('Ctrl-')) return;
    // A dialog has the keyboard to itself.
    if (document.querySelector('dialog[open]')) return;
    const key = keys.value.find((candidate) => candidate.key === name);
    if (!key) return;
    event.preventDefault();
    key.run();
  });
}

export function nameOf(event: Pick<KeyboardEvent, 'key' | 'ctrlKey' | 'metaKey' | 'altKey'>): string {
  const key = event.key.length === 1 && (event.ctrlKey || event.metaKey) ? event.key.toUpperCase() : event.key;
  return `${event.ctrlKey || event.metaKey ? 'Ctrl-' : ''}${event.altKey ? 'Alt-' : ''}${key}`;
}

function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));
}
