import { useRef, useState } from 'preact/hooks';
import { getCardinality } from '../../api/storage';
import { formatDay } from '../../format/time';
import { route, setParams } from '../../router';
import { zone } from '../../state/zone';
import { Button, IconButton } from '../../ui/button';
import { Explain } from '../../ui/explain';
import { ErrorBox, Spinner } from '../../ui/feedback';
import { useKeys } from '../../ui/keys';
import { useApi } from '../../ui/use-api';
import { ChurnStats } from './churn';
import { dayBounds, isDay, shiftDay } from './day';
import { Focus } from './focus';
import { Rankings } from './rankings';

/** Entries of each ranking that are asked for. The server ranks all series, whatever is asked. */
const limit = 1000;

/** Which metrics, labels and values have most series on a day, beside the day before. */
export function CardinalityTab() {
  const { params } = route.value;
  const today = formatDay(Date.now() / 1000, zone.value);
  const wanted = params.get('day');
  const day = isDay(wanted) ? wanted : today;
  const yesterday = shiftDay(day, -1);
  const match = params.get('match') ?? '';
  const focus = params.get('focus');

  const ask = (start: number, end: number, signal: AbortSignal) =>
    getCardinality({ start, end, limit, 'match[]': match === '' ? undefined : [match], focusLabel: focus }, signal);
  const deps = [day, zone.value, match, focus];
  const of = (name: string) => dayBounds(name, zone.value);
  const now = useApi((signal) => ask(of(day).start, of(day).end, signal), deps);
  const before = useApi((signal) => ask(of(yesterday).start, of(yesterday).end, signal), deps);
  // Both days together tell what is new, by subtraction.
  const both = useApi((signal) => ask(of(yesterday).start, of(day).end, signal), deps);

  const error = now.error ?? before.error ?? both.error;
  const loading = now.loading || before.loading || both.loading;
  return (
    <div class="stack">
      <Choice key={match} day={day} today={today} match={match} />
      {error !== undefined && <ErrorBox error={error} onRetry={() => [now, before, both].forEach((each) => each.reload())} />}
      {loading && <Spinner text="Counting the series of two days" />}
      {now.data && before.data && (
        <div class={loading ? 'stack waiting' : 'stack'}>
          <ChurnStats day={now.data} before={before.data} both={both.data ?? null} />
          {focus !== null && <Focus key={focus} label={focus} day={now.data} before={before.data} both={both.data ?? null} limit={limit} />}
          <Rankings day={now.data} before={before.data} both={both.data ?? null} limit={limit} />
        </div>
      )}
    </div>
  );
}

function Choice({ day, today, match }: { day: string; today: string; match: string }) {
  const [text, setText] = useState(match);
  const input = useRef<HTMLInputElement>(null);
  useKeys([{ key: '/', help: 'Only series that match', run: () => input.current?.focus() }]);
  const choose = (next: string) => setParams({ day: next === today ? null : next });
  // Counting is work, so it begins with Enter and not with every letter.
  const apply = (event: Event) => {
    event.preventDefault();
    setParams({ match: text.trim() === '' ? null : text.trim() });
  };
  return (
    <form class="row" onSubmit={apply}>
      <IconButton icon="left" label="The day before" onClick={() => choose(shiftDay(day, -1))} />
      <input type="date" aria-label="Day" value={day} max={today} onChange={(event) => isDay(event.currentTarget.value) && choose(event.currentTarget.value)} />
      <IconButton icon="right" label="The next day" disabled={day >= today} onClick={() => choose(shiftDay(day, 1))} />
      <input
        ref={input}
        class="search match"
        aria-label="Only series that match this selector"
        placeholder={'Only series that match, like {job="node"}'}
        spellcheck={false}
        autocomplete="off"
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
      />
      {text !== match && <Button type="submit">Apply</Button>}
      <Explain what="Series of a day">
        A series counts for a day when it has a sample in one of its hours. {day === today && 'Today is not over, so it is compared with a whole day. '}
        Days follow the time zone that is chosen at the top.
      </Explain>
    </form>
  );
}
