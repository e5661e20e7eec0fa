import type { ComponentChildren, TargetedToggleEvent } from 'preact';
import { useId, useRef } from 'preact/hooks';
import { Stat } from './stat';
import './explain.css';

/**
 * A small question mark that says what a number means, for those who do not know it yet. The browser's
 * own popover lies above everything, so a table that scrolls does not cut it off.
 */
export function Explain({ what, children }: { what: string; children: ComponentChildren }) {
  const id = useId();
  const button = useRef<HTMLButtonElement>(null);
  const place = (event: TargetedToggleEvent<HTMLElement>) => {
    if (event.newState !== 'open' || !button.current) return;
    const box = event.currentTarget;
    const { left, bottom } = button.current.getBoundingClientRect();
    box.style.left = `${Math.max(8, Math.min(left, innerWidth - box.offsetWidth - 8))}px`;
    box.style.top = `${Math.max(8, Math.min(bottom + 4, innerHeight - box.offsetHeight - 8))}px`;
  };
  return (
    <>
      <button ref={button} type="button" class="explain" aria-label={`What is “${what}”?`} popovertarget={id}>
        ?
      </button>
      <span id={id} class="explain-box" popover="auto" onToggle={place}>
        {children}
      </span>
    </>
  );
}

/** A number with its explanation at hand. */
export function KnownStat({ label, help, children }: { label: string; help: ComponentChildren; children: ComponentChildren }) {
  return (
    <Stat label={label}>
      {children} <Explain what={label}>{help}</Explain>
    </Stat>
  );
}
