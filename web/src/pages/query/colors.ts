// Colors of series: a few that are easy to tell apart, then ever new hues by the golden angle.

// Hue and saturation; the lightness depends on the theme, so that lines keep a contrast of 3:1.
const first: readonly [number, number][] = [
  [205, 80],
  [25, 90],
  [140, 60],
  [350, 70],
  [265, 60],
  [45, 85],
  [180, 70],
  [315, 60],
  [90, 55],
  [10, 45],
];

const golden = 137.508;

export function seriesColor(index: number, dark: boolean): string {
  const known = first[index];
  if (known) return hsl(known[0], known[1], dark ? 64 : lightness(known[0]));
  const hue = Math.round((index * golden) % 360);
  // Later rounds of the wheel are told apart by strength as well.
  const saturation = 50 + ((index >> 3) % 3) * 17;
  return hsl(hue, saturation, dark ? 64 : lightness(hue));
}

// Yellows and greens look brighter than blues of the same lightness.
const lightness = (hue: number) => (hue > 35 && hue < 200 ? 33 : 43);

const hsl = (hue: number, saturation: number, light: number) => `hsl(${hue} ${saturation}% ${light}%)`;

/** The color of a heatmap's cell: `part` of the fullest cell, 0 to 1. */
export function heatColor(part: number, dark: boolean): string {
  // Single observations must be seen beside thousands.
  const strength = part <= 0 ? 0 : 0.12 + 0.88 * Math.sqrt(Math.min(part, 1));
  const hue = Math.round(210 - 170 * strength);
  const light = dark ? 18 + 52 * strength : 92 - 52 * strength;
  return hsl(hue, Math.round(55 + 35 * strength), Math.round(light));
}
