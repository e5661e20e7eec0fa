/** Of which time series and labels are counted. The last hour is quick; all of time reads every bucket's index. */
export const withins = [
  { id: '1h', text: 'last hour', seconds: 3600 },
  { id: '1d', text: 'day', seconds: 86400 },
  { id: '1w', text: 'week', seconds: 7 * 86400 },
  { id: 'all', text: 'all time', seconds: null },
] as const;

export type Within = (typeof withins)[number]['id'];

export function readWithin(text: string | null): Within {
  return withins.find(({ id }) => id === text)?.id ?? '1h';
}

/** The first second of it, null for all of time. */
export function since(within: Within, now: number): number | null {
  const { seconds } = withins.find(({ id }) => id === within)!;
  return seconds === null ? null : Math.floor(now - seconds);
}
