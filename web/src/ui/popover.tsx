import type { ComponentChildren } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';

/** A button that opens a box below it. Escape, a click outside and `close` close it. */
export function Popover(props: {
  label: string;
  button: ComponentChildren;
  children: (close: () => void) => ComponentChildren;
  class?: string;
  align?: 'left' | 'right';
}) {
  const [open, setOpen] = useState(false);
  const ref = useRef<HTMLDivElement>(null);
  const button = useRef<HTMLButtonElement>(null);
  useEffect(() => {
    if (!open) return;
    const outside = (event: MouseEvent) => {
      if (!ref.current?.contains(event.target as Node)) setOpen(false);
    };
    const escape = (event: KeyboardEvent) => {
      if (event.key !== 'Escape') return;
      event.stopPropagation();
      setOpen(false);
      button.current?.focus();
    };
    document.addEventListener('mousedown', outside);
    const box = ref.current;
    box?.addEventListener('keydown', escape);
    return () => {
      document.removeEventListener('mousedown', outside);
      box?.removeEventListener('keydown', escape);
    };
  }, [open]);
  // A box that would leave the window is moved back into it.
  useLayoutEffect(() => {
    const box = ref.current?.querySelector<HTMLElement>('.popover-box');
    if (!open || !box) return;
    const { left, right } = box.getBoundingClientRect();
    const room = 8;
    const shift = Math.max(room - left, Math.min(0, innerWidth - room - right));
    if (shift !== 0) box.style.translate = `${shift}px`;
  }, [open]);
  const close = () => {
    setOpen(false);
    button.current?.focus();
  };
  return (
    <div class="popover" ref={ref}>
      <button
        ref={button}
        type="button"
        class={`button ${props.class ?? 'normal'}`}
        aria-label={props.label}
        aria-haspopup="dialog"
        aria-expanded={open}
        title={props.label}
        onClick={() => setOpen(!open)}
      >
        {props.button}
      </button>
      {open && (
        <div class={`popover-box ${props.align ?? 'left'}`} role="dialog" aria-label={props.label}>
          {props.children(close)}
        </div>
      )}
    </div>
  );
}
