import './text-area.css';

/** Several lines of text. Ctrl-Enter reaches the page, Escape leaves the field. */
export function TextArea(props: { label: string; value: string; rows: number; onInput: (value: string) => void; code?: boolean; placeholder?: string; focus?: (field: HTMLTextAreaElement | null) => void }) {
  return (
    <textarea
      ref={props.focus ?? null}
      class={props.code ? 'text-area mono' : 'text-area'}
      aria-label={props.label}
      placeholder={props.placeholder ?? ''}
      rows={props.rows}
      value={props.value}
      spellcheck={!props.code}
      onInput={(event) => props.onInput(event.currentTarget.value)}
      onKeyDown={(event) => {
        if (event.key === 'Escape') event.currentTarget.blur();
      }}
    />
  );
}
