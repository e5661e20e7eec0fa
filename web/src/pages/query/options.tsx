// How finely and how far back a panel evaluates.
import { useState } from 'preact/hooks';
import { formatDuration, parseDuration } from '../../format/duration';
import { Button } from '../../ui/button';
import { Field } from '../../ui/field';
import { Icon } from '../../ui/icons';
import { Popover } from '../../ui/popover';
import { autoStep } from './grid';
import type { Panel } from './link';

type Choice = Pick<Panel, 'step' | 'lookback' | 'resolution'>;

export function Options({ panel, range, onChange }: { panel: Panel; range: number; onChange: (choice: Choice) => void }) {
  const parts = [panel.step && `step ${panel.step}`, panel.lookback && `lookback ${panel.lookback}`, panel.resolution && `windows ≤ ${panel.resolution}`].filter(Boolean);
  return (
    <Popover
      label="Step, lookback and resolution"
      class={parts.length > 0 ? 'normal' : 'plain'}
      button={
        <>
          <Icon name="clock" />
          {parts.length > 0 ? parts.join(', ') : 'Step auto'}
        </>
      }
    >
      {(close) => (
        <Form
          panel={panel}
          range={range}
          onChange={(choice) => {
            onChange(choice);
            close();
          }}
        />
      )}
    </Popover>
  );
}

function Form({ panel, range, onChange }: { panel: Panel; range: number; onChange: (choice: Choice) => void }) {
  const [choice, setChoice] = useState<Choice>({ step: panel.step, lookback: panel.lookback, resolution: panel.resolution });
  const wrong = Object.values(choice).some((text) => text !== '' && parseDuration(text) === null);
  const input = (name: keyof Choice, placeholder: string) => (
    <input
      size={12}
      spellcheck={false}
      value={choice[name]}
      placeholder={placeholder}
      aria-invalid={choice[name] !== '' && parseDuration(choice[name]) === null}
      onInput={(event) => setChoice({ ...choice, [name]: event.currentTarget.value.trim() })}
    />
  );
  return (
    <form
      class="options"
      onSubmit={(event) => {
        event.preventDefault();
        if (!wrong) onChange(choice);
      }}
    >
      <Field label="Step" hint="Time between two points">
        {input('step', `auto: ${formatDuration(autoStep(range))}`)}
      </Field>
      <Field label="Lookback" hint="How far back the latest sample may be">
        {input('lookback', "the server's")}
      </Field>
      <Field label="Widest windows" hint="That may stand for samples; 0s for samples only">
        {input('resolution', 'auto')}
      </Field>
      <div class="row">
        <Button type="submit" kind="primary" disabled={wrong}>
          Apply
        </Button>
        <Button onClick={() => onChange({ step: '', lookback: '', resolution: '' })}>Defaults</Button>
      </div>
      {wrong && <p class="field-hint wrong">A duration is 30s, 5m or 1h30m.</p>}
    </form>
  );
}
