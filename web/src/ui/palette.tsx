// Ctrl-K: go to a page, do something, or find a metric.
import { signal } from '@preact/signals';
import { useEffect, useRef, useState } from 'preact/hooks';
import { findMetrics } from '../api/status';
import { matches } from '../format/search';
import { Dialog } from './dialog';
import { useApi, useSettled } from './use-api';

export interface Action {
  title: string;
  /** Shown at the right: `page`, `action`, `metric`. */
  kind: string;
  run: () => void;
}

export const paletteOpen = signal(false);

const actions = signal<readonly Action[]>([]);

/** Adds a page's actions to the palette while it is shown. */
export function useActions(list: readonly { title: string; run: () => void }[]): void {
  const latest = useRef(list);
  latest.current = list;
  const titles = list.map((action) => action.title).join('\n');
  useEffect(() => {
    const mine = list.map(({ title }, i) => ({ title, kind: 'action', run: () => latest.current[i]?.run() }));
    actions.value = [...mine, ...actions.value];
    return () => {
      actions.value = actions.value.filter((action) => !mine.includes(action));
    };
  }, [titles]);
}

const metricsShown = 30;

export function Palette({ pages, onMetric }: { pages: readonly Action[]; onMetric: (name: string) => void }) {
  const [text, setText] = useState('');
  const [at, setAt] = useState(0);
  const list = useRef<HTMLUListElement>(null);
  const settled = useSettled(text.trim());
  const metrics = useApi((signal) => findMetrics(settled, metricsShown, signal), [settled]);
  const close = () => (paletteOpen.value = false);

  const found: Action[] = [...pages, ...actions.value]
    .filter((action) => matches(action.title, text))
    .concat((metrics.data ?? []).filter(({ name }) => matches(name, text)).map(({ name }) => ({ title: name, kind: 'metric', run: () => onMetric(name) })));
  const chosen = Math.min(at, found.length - 1);
  useEffect(() => {
    list.current?.children[chosen]?.scrollIntoView({ block: 'nearest' });
  }, [chosen]);

  const run = (action: Action | undefined) => {
    if (!action) return;
    close();
    action.run();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === 'ArrowDown') setAt(Math.min(chosen + 1, found.length - 1));
    else if (event.key === 'ArrowUp') setAt(Math.max(chosen - 1, 0));
    else if (event.key === 'Enter') run(found[chosen]);
    else return;
    event.preventDefault();
  };
  return (
    <Dialog title="Go to" class="palette" bare onClose={close}>
      <input
        class="palette-input"
        role="combobox"
        aria-label="A page, an action or a metric"
        aria-expanded="true"
        aria-controls="palette-list"
        aria-activedescendant={found[chosen] ? `palette-${chosen}` : ''}
        placeholder="A page, an action or a metric"
        autofocus
        spellcheck={false}
        autocomplete="off"
        value={text}
        onInput={(event) => {
          setText(event.currentTarget.value);
          setAt(0);
        }}
        onKeyDown={onKeyDown}
      />
      <ul id="palette-list" role="listbox" aria-label="Found" ref={list}>
        {found.map((action, i) => (
          <li
            key={`${action.kind} ${action.title}`}
            id={`palette-${i}`}
            role="option"
            aria-selected={i === chosen}
            onMouseDown={(event) => {
              event.preventDefault();
              run(action);
            }}
          >
            <span class="palette-title">{action.title}</span>
            <span class="palette-kind">{action.kind}</span>
          </li>
        ))}
      </ul>
      {found.length === 0 && <p class="palette-none">{metrics.loading ? 'Searching…' : 'Nothing has this in its name.'}</p>}
    </Dialog>
  );
}
