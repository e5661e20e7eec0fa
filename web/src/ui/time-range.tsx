import { useState } from 'preact/hooks';
import { formatDuration, parseDuration } from '../format/duration';
import { formatTime, parseTime, zoneName } from '../format/time';
import { zone } from '../state/zone';
import { Button, IconButton } from './button';
import { Select } from './field';
import { Popover } from './popover';

/** So many seconds until `end`; null is now, and moves with it. */
export interface Span {
  range: number;
  end: number | null;
}

const quick = ['5m', '15m', '30m', '1h', '3h', '6h', '12h', '1d', '2d', '1w', '4w', '13w', '1y'];
const refreshes = ['off', '5s', '10s', '30s', '1m', '5m'] as const;

/** The first and the last second of it. */
export function bounds(span: Span, now: number): { start: number; end: number } {
  const end = span.end ?? now;
  return { start: end - span.range, end };
}

/** Moves by half a range; past now it follows now again. */
export function shifted(span: Span, direction: -1 | 1, now: number): Span {
  const end = (span.end ?? now) + (direction * span.range) / 2;
  return { range: span.range, end: end >= now ? null : Math.round(end * 1000) / 1000 };
}

export function TimeRange(props: {
  value: Span;
  onChange: (span: Span) => void;
  /** Seconds between refreshes, null for none; leave both out where there is no refresh. */
  refresh?: number | null;
  onRefresh?: (seconds: number | null) => void;
}) {
  const { value, onChange } = props;
  const now = Date.now() / 1000;
  const length = formatDuration(value.range);
  const title = value.end === null ? `Last ${length}` : `${length} until ${formatTime(value.end, zone.value)}`;
  return (
    <div class="time-range" role="group" aria-label="Time range">
      <IconButton icon="left" label="Earlier" onClick={() => onChange(shifted(value, -1, now))} />
      <Popover label="Time range" button={title}>
        {(close) => (
          <Choices
            value={value}
            onChange={(span) => {
              onChange(span);
              close();
            }}
          />
        )}
      </Popover>
      <IconButton icon="right" label="Later" disabled={value.end === null} onClick={() => onChange(shifted(value, 1, now))} />
      {props.onRefresh && (
        <Select
          label="Refresh"
          value={props.refresh ? formatDuration(props.refresh) : 'off'}
          choices={refreshes.map((text) => ({ value: text as string, text: text === 'off' ? 'no refresh' : `every ${text}` }))}
          onChange={(text) => props.onRefresh?.(text === 'off' ? null : parseDuration(text))}
        />
      )}
    </div>
  );
}

function Choices({ value, onChange }: { value: Span; onChange: (span: Span) => void }) {
  const now = Date.now() / 1000;
  const { start, end } = bounds(value, now);
  const [from, setFrom] = useState(formatTime(Math.floor(start), zone.value));
  const [to, setTo] = useState(value.end === null ? 'now' : formatTime(value.end, zone.value));
  const [length, setLength] = useState(formatDuration(value.range));
  const parsed = { from: parseTime(from, zone.value, now), to: parseTime(to, zone.value, now), length: parseDuration(length) };
  const wrong =
    parsed.from === null || parsed.to === null
      ? 'A time is 2024-05-01 13:45, now, now-1h or UNIX seconds.'
      : parsed.to <= parsed.from
        ? 'The end must be after the start.'
        : null;
  const absolute = (event: Event) => {
    event.preventDefault();
    if (wrong !== null) return;
    const follows = /^\s*now\s*$/.test(to);
    onChange({ range: Math.round(parsed.to! - parsed.from!), end: follows ? null : parsed.to! });
  };
  return (
    <div class="time-choices">
      <div class="quick" role="group" aria-label="Quick ranges">
        {quick.map((text) => (
          <Button key={text} kind="plain" aria-pressed={value.end === null && formatDuration(value.range) === text} onClick={() => onChange({ range: parseDuration(text)!, end: null })}>
            {text}
          </Button>
        ))}
      </div>
      <form onSubmit={absolute}>
        <label class="field">
          <span class="field-label">From</span>
          <input value={from} spellcheck={false} onInput={(event) => setFrom(event.currentTarget.value)} />
        </label>
        <label class="field">
          <span class="field-label">To</span>
          <input value={to} spellcheck={false} onInput={(event) => setTo(event.currentTarget.value)} />
        </label>
        <p class={wrong ? 'field-hint wrong' : 'field-hint'}>{wrong ?? zoneName(end, zone.value)}</p>
        <Button type="submit" kind="primary" disabled={wrong !== null}>
          Apply
        </Button>
      </form>
      <form
        class="inline"
        onSubmit={(event) => {
          event.preventDefault();
          if (parsed.length) onChange({ range: parsed.length, end: value.end });
        }}
      >
        <label class="field">
          <span class="field-label">Length</span>
          <input value={length} size={8} spellcheck={false} onInput={(event) => setLength(event.currentTarget.value)} />
        </label>
        <Button type="submit" disabled={!parsed.length}>
          Set
        </Button>
      </form>
    </div>
  );
}
