import type { ComponentChildren } from 'preact';
import { useId } from 'preact/hooks';

export interface Tab<T extends string> {
  id: T;
  title: string;
}

/** Tabs as WAI-ARIA describes them: arrows move between them, only the chosen one is in the tab order. */
export function Tabs<T extends string>(props: {
  label: string;
  tabs: readonly Tab<T>[];
  value: T;
  onChange: (id: T) => void;
  /** Shown at the right end of the row. */
  aside?: ComponentChildren;
  children: ComponentChildren;
}) {
  const base = useId();
  const move = (event: KeyboardEvent) => {
    const step = event.key === 'ArrowRight' ? 1 : event.key === 'ArrowLeft' ? -1 : 0;
    if (step === 0) return;
    const at = props.tabs.findIndex((tab) => tab.id === props.value);
    const next = props.tabs[(at + step + props.tabs.length) % props.tabs.length];
    if (!next) return;
    event.preventDefault();
    props.onChange(next.id);
    document.getElementById(`${base}-${next.id}`)?.focus();
  };
  return (
    <div class="tabs">
      <div class="tab-row">
        <div role="tablist" aria-label={props.label} onKeyDown={move}>
          {props.tabs.map((tab) => (
            <button
              key={tab.id}
              id={`${base}-${tab.id}`}
              type="button"
              role="tab"
              aria-selected={tab.id === props.value}
              aria-controls={`${base}-panel`}
              tabIndex={tab.id === props.value ? 0 : -1}
              onClick={() => props.onChange(tab.id)}
            >
              {tab.title}
            </button>
          ))}
        </div>
        {props.aside && <div class="tab-aside">{props.aside}</div>}
      </div>
      <div id={`${base}-panel`} role="tabpanel" aria-labelledby={`${base}-${props.value}`}>
        {props.children}
      </div>
    </div>
  );
}
