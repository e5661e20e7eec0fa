/** A few choices next to each other, one of them chosen. */
export function Segmented<T extends string>(props: {
  label: string;
  value: T;
  choices: readonly { value: T; text: string; title?: string }[];
  onChange: (value: T) => void;
}) {
  return (
    <div class="segmented" role="group" aria-label={props.label}>
      {props.choices.map(({ value, text, title }) => (
        <button
          key={value}
          type="button"
          title={title ?? ''}
          aria-pressed={value === props.value}
          onClick={() => props.onChange(value)}
        >
          {text}
        </button>
      ))}
    </div>
  );
}
