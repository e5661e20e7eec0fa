// Times on the page follow the time zone switch.
import { formatAgo } from '../format/duration';
import { formatTime } from '../format/time';
import { zone } from '../state/zone';

export function Time({ at }: { at: number }) {
  return <time dateTime={iso(at)}>{formatTime(at, zone.value)}</time>;
}

/** How long ago, with the time itself as tooltip. */
export function Ago({ at, now = Date.now() / 1000 }: { at: number; now?: number }) {
  return (
    <time dateTime={iso(at)} title={formatTime(at, zone.value)}>
      {formatAgo(at, now)}
    </time>
  );
}

function iso(at: number): string {
  const date = new Date(at * 1000);
  return Number.isNaN(date.getTime()) ? '' : date.toISOString();
}
