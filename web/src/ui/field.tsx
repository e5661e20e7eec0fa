import type { ComponentChildren } from 'preact';
import { useRef } from 'preact/hooks';
import { useKeys } from './keys';

/** A label around its control. */
export function Field({ label, hint, children }: { label: string; hint?: string | undefined; children: ComponentChildren }) {
  return (
    <label class="field">
      <span class="field-label">{label}</span>
      {children}
      {hint && <span class="field-hint">{hint}</span>}
    </label>
  );
}

/** A search box. `main` makes it the one that `/` focuses. */
export function Search(props: { label: string; value: string; onInput: (value: string) => void; main?: boolean; placeholder?: string }) {
  const ref = useRef<HTMLInputElement>(null);
  useKeys(props.main ? [{ key: '/', help: props.label, run: () => ref.current?.focus() }] : []);
  return (
    <input
      ref={ref}
      type="search"
      class="search"
      aria-label={props.label}
      placeholder={props.placeholder ?? props.label}
      value={props.value}
      spellcheck={false}
      autocomplete="off"
      onInput={(event) => props.onInput(event.currentTarget.value)}
      onKeyDown={(event) => {
        if (event.key === 'Escape') event.currentTarget.blur();
      }}
    />
  );
}

export function Select<T extends string>(props: {
  label: string;
  value: T;
  choices: readonly { value: T; text: string }[];
  onChange: (value: T) => void;
}) {
  return (
    <select aria-label={props.label} title={props.label} value={props.value} onChange={(event) => props.onChange(event.currentTarget.value as T)}>
      {props.choices.map(({ value, text }) => (
        <option key={value} value={value}>
          {text}
        </option>
      ))}
    </select>
  );
}
