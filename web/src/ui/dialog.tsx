import type { ComponentChildren } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import { IconButton } from './button';

/** A modal dialog. The browser traps the focus, gives it back, and closes on Escape. */
export function Dialog(props: { title: string; onClose: () => void; children: ComponentChildren; class?: string; bare?: boolean }) {
  const ref = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const dialog = ref.current;
    dialog?.showModal();
    return () => dialog?.close();
  }, []);
  return (
    <dialog
      ref={ref}
      class={props.class}
      aria-label={props.title}
      onCancel={(event) => {
        event.preventDefault();
        props.onClose();
      }}
      // A click on the dialog itself is one on its backdrop: its content fills it.
      onMouseDown={(event) => event.target === ref.current && props.onClose()}
    >
      <div class="dialog-body">
        {!props.bare && (
          <header class="dialog-head">
            <h2>{props.title}</h2>
            <IconButton icon="close" label="Close" onClick={props.onClose} />
          </header>
        )}
        {props.children}
      </div>
    </dialog>
  );
}
