// The range of the y axis.

/** A range that shows all values with a little room, and zero where it is near. */
export function yRange(min: number | null, max: number | null, log: boolean): [number, number] {
  if (min === null || max === null || !Number.isFinite(min) || !Number.isFinite(max)) return log ? [0.1, 1] : [0, 1];
  if (log) return logRange(min, max);
  if (min === max) return flatRange(min);
  const room = (max - min) * 0.05;
  // A line between 10 and 100 is easier to judge from zero; one between 90 and 100 would be flattened.
  const low = min >= 0 && min <= (max - min) / 2 ? 0 : min - room;
  const high = max <= 0 && -max <= (max - min) / 2 ? 0 : max + room;
  return [low, high];
}

function flatRange(value: number): [number, number] {
  if (value === 0) return [-1, 1];
  const room = Math.abs(value) * 0.5;
  return [value - room, value + room];
}

function logRange(min: number, max: number): [number, number] {
  if (max <= 0) return [0.1, 1];
  // What is not positive has no place on this axis.
  const least = min > 0 ? min : max / 1e6;
  const low = 10 ** Math.floor(Math.log10(least));
  const high = 10 ** Math.ceil(Math.log10(max));
  return low === high ? [low / 10, high * 10] : [low, high];
}
