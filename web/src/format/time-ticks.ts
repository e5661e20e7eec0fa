// Labels of the time axis.
import { formatClock, formatDay, formatTime, type Zone } from './time';

const day = 86400;

/** A label for each tick: the clock, and the day where it changes; only the day where ticks are days apart. */
export function timeTicks(ticks: readonly number[], distance: number, zone: Zone): string[] {
  let shown = '';
  return ticks.map((at) => {
    const date = formatDay(at, zone);
    if (distance >= day) return date;
    const clock = distance < 1 ? formatTime(at, zone).split(' ')[1]! : formatClock(at, zone);
    if (date === shown) return clock;
    shown = date;
    return `${clock}\n${date}`;
  });
}
