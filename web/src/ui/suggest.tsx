import { useId } from 'preact/hooks';
import { useApi, useSettled } from './use-api';

/** A text field with suggestions of the server, which are asked for while somebody types. */
export function Suggest(props: {
  label: string;
  value: string;
  onInput: (value: string) => void;
  ask: (text: string, signal: AbortSignal) => Promise<readonly string[]>;
  /** What else the suggestions depend on. */
  of?: string;
  placeholder?: string;
  size?: number;
}) {
  const id = useId();
  const settled = useSettled(props.value);
  // Without suggestions the field is still of use, so that failures are not shown.
  const { data = [] } = useApi((signal) => props.ask(settled, signal).catch(() => []), [settled, props.of]);
  return (
    <>
      <input
        list={id}
        aria-label={props.label}
        placeholder={props.placeholder ?? ''}
        value={props.value}
        size={props.size ?? 20}
        spellcheck={false}
        autocomplete="off"
        onInput={(event) => props.onInput(event.currentTarget.value)}
      />
      <datalist id={id}>
        {data.map((text) => (
          <option key={text} value={text} />
        ))}
      </datalist>
    </>
  );
}
