// Numbers for people. PromQL's values arrive as strings, because JSON has no NaN and no infinity.

export function parseValue(text: string): number {
  if (text === '+Inf' || text === 'Inf') return Infinity;
  if (text === '-Inf') return -Infinity;
  return Number(text);
}

const groups = new Intl.NumberFormat('en-US', { maximumFractionDigits: 0 });

/** A count with thousands apart: `1 234 567`. */
export function formatCount(n: number): string {
  return groups.format(n).replaceAll(',', '\u202f');
}

/** `1 sample`, `2 samples`. */
export function formatCountOf(n: number, one: string, many = `${one}s`): string {
  return `${formatCount(n)} ${n === 1 ? one : many}`;
}

const scales: [number, string][] = [
  [1e12, 'T'],
  [1e9, 'G'],
  [1e6, 'M'],
  [1e3, 'k'],
];

/** At most `digits` significant digits, large numbers with a unit: `12.3M`. */
export function formatShort(n: number, digits = 3): string {
  if (!Number.isFinite(n)) return formatExact(n);
  const size = Math.abs(n);
  if (size !== 0 && (size < 1e-4 || size >= 1e15)) return trimZeros(n.toExponential(digits - 1));
  // 999 999 rounds up to a thousand thousands, so the scale is chosen after rounding.
  const rounded = Math.abs(Number(n.toPrecision(digits)));
  for (const [scale, unit] of scales) {
    if (rounded >= scale) return trimZeros((n / scale).toPrecision(digits)) + unit;
  }
  return trimZeros(n.toPrecision(digits));
}

/** Every digit, as Prometheus writes it. */
export function formatExact(n: number): string {
  if (n === Infinity) return '+Inf';
  if (n === -Infinity) return '-Inf';
  if (Object.is(n, -0)) return '-0';
  // Go's exponents have two digits.
  return String(n).replace(/(e[+-])(\d)$/, '$10$2');
}

export function formatPercent(part: number): string {
  return `${formatShort(part * 100)} %`;
}

function trimZeros(text: string): string {
  const [mantissa = '', exponent] = text.split('e');
  const short = mantissa.includes('.') ? mantissa.replace(/\.?0+$/, '') : mantissa;
  return exponent === undefined ? short : `${short}e${exponent.replace('+', '')}`;
}
