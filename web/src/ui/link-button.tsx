import type { ComponentChildren } from 'preact';
import './link-button.css';

/** A button that looks like a link: it changes the view and has no address of its own. */
export function LinkButton({ title, onClick, children }: { title?: string; onClick: () => void; children: ComponentChildren }) {
  return (
    <button type="button" class="link-button" title={title ?? ''} onClick={onClick}>
      {children}
    </button>
  );
}
