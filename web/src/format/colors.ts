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

// From few to many: one hue, ever further from the background.
const heat = {
  light: [
    [221, 238, 248],
    [109, 180, 221],
    [11, 101, 144],
    [4, 34, 52],
  ],
  dark: [
    [20, 52, 70],
    [27, 108, 150],
    [92, 184, 230],
    [236, 249, 255],
  ],
} as const;

/** The color of a heatmap's cell: `part` of the fullest cell, 0 to 1. */
export function heatColor(part: number, dark: boolean): string {
  const stops = dark ? heat.dark : heat.light;
  // The root, because single observations must be seen beside thousands.
  const at = Math.sqrt(Math.max(0, Math.min(part, 1))) * (stops.length - 1);
  const below = Math.min(Math.floor(at), stops.length - 2);
  const [from, to] = [stops[below]!, stops[below + 1]!];
  const mixed = from.map((channel, i) => Math.round(channel + (to[i]! - channel) * (at - below)));
  return `rgb(${mixed.join(' ')})`;
}
