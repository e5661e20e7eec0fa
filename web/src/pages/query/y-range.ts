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
  const [low, high] = [roundBelow(least), -roundBelow(-max)];
  return low === high ? [low / 10, high * 10] : [low, high];
}

/** The largest of 1, 2 and 5 times a power of ten that is not above the number; for a negative one, likewise. */
function roundBelow(n: number): number {
  const power = 10 ** Math.floor(Math.log10(Math.abs(n)) + 1e-9);
  const steps = n > 0 ? [5, 2, 1] : [-1, -2, -5, -10];
  // Powers of ten are not exact below one, so that "not above" needs a grain of salt.
  return (steps.find((step) => step * power <= n + Math.abs(n) * 1e-9) ?? Math.sign(n)) * power;
}
