// Durations in seconds, written as Prometheus writes them: `1h30m`, `500ms`.

const units: [string, number][] = [
  ['y', 365 * 86400],
  ['w', 7 * 86400],
  ['d', 86400],
  ['h', 3600],
  ['m', 60],
  ['s', 1],
  ['ms', 0.001],
];

const pattern = /^(?:(\d+)y)?(?:(\d+)w)?(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?(?:(\d+)ms)?$/;

/** Seconds, or null when it is not a duration. A bare number means seconds. */
export function parseDuration(text: string): number | null {
  const trimmed = text.trim();
  if (/^\d+(\.\d+)?$/.test(trimmed)) return Number(trimmed);
  const found = pattern.exec(trimmed);
  if (!trimmed || !found) return null;
  const total = units.reduce((sum, [, seconds], i) => sum + Number(found[i + 1] ?? 0) * seconds, 0);
  return Math.round(total * 1000) / 1000;
}

/** The exact duration, such that `parseDuration` gives it back. */
export function formatDuration(seconds: number): string {
  let rest = Math.round(seconds * 1000);
  if (rest === 0) return '0s';
  let text = rest < 0 ? '-' : '';
  rest = Math.abs(rest);
  for (const [unit, size] of units) {
    // `y` and `w` only where nothing is left, because `1w3d` is harder to read than `10d`.
    const ms = Math.round(size * 1000);
    if ((unit === 'y' || unit === 'w') && rest % ms !== 0) continue;
    const n = Math.floor(rest / ms);
    if (n > 0) text += `${n}${unit}`;
    rest -= n * ms;
  }
  return text;
}

/** A measured time, three digits: `1.23 ms`, `45.6 s`, `2h 5m`. */
export function formatElapsed(seconds: number): string {
  const size = Math.abs(seconds);
  if (size === 0) return '0 s';
  if (size < 1e-6) return `${Number((seconds * 1e9).toPrecision(3))} ns`;
  if (size < 1e-3) return `${Number((seconds * 1e6).toPrecision(3))} µs`;
  if (size < 1) return `${Number((seconds * 1e3).toPrecision(3))} ms`;
  if (size < 60) return `${Number(seconds.toPrecision(3))} s`;
  if (size < 3600) return pair(seconds, 60, 'm', 1, 's');
  if (size < 2 * 86400) return pair(seconds, 3600, 'h', 60, 'm');
  return pair(seconds, 86400, 'd', 3600, 'h');
}

function pair(seconds: number, big: number, bigUnit: string, small: number, smallUnit: string): string {
  const total = Math.round(seconds / small);
  const ratio = big / small;
  const rest = total % ratio;
  const head = `${Math.trunc(total / ratio)}${bigUnit}`;
  return rest === 0 ? head : `${head} ${Math.abs(rest)}${smallUnit}`;
}

/** How long ago, for people: `just now`, `12 s ago`, `in 5m`. */
export function formatAgo(at: number, now: number): string {
  const seconds = Math.round(now - at);
  if (Math.abs(seconds) < 1) return 'just now';
  return seconds > 0 ? `${formatElapsed(seconds)} ago` : `in ${formatElapsed(-seconds)}`;
}
