// Text has a contrast of 4.5:1 in both themes, lines and borders that mean something 3:1 (WCAG AA).
import { describe, expect, test } from 'vitest';
import { seriesColor } from '../../src/format/colors';
import css from '../../src/styles/tokens.css?raw';

const tokens = new Map([...css.matchAll(/(--[\w-]+): light-dark\((#\w{6}), (#\w{6})\)/g)].map(([, name, light, dark]) => [name!, [light!, dark!] as const]));

type Rgb = [number, number, number];

const fromHex = (hex: string): Rgb => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16) / 255) as Rgb;

function fromHsl(text: string): Rgb {
  const [h = 0, s = 0, l = 0] = text.match(/[\d.]+/g)!.map(Number);
  const a = (s / 100) * Math.min(l / 100, 1 - l / 100);
  const channel = (n: number) => l / 100 - a * Math.max(-1, Math.min(((n + h / 30) % 12) - 3, 9 - ((n + h / 30) % 12), 1));
  return [channel(0), channel(8), channel(4)];
}

function luminance(rgb: Rgb): number {
  const [r, g, b] = rgb.map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)) as Rgb;
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

function contrast(a: Rgb, b: Rgb): number {
  const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y) as [number, number];
  return (high + 0.05) / (low + 0.05);
}

const of = (name: string, theme: 0 | 1) => fromHex(tokens.get(name)![theme]);

describe.each([
  ['light', 0],
  ['dark', 1],
] as const)('%s', (_, theme) => {
  const backgrounds = ['--bg', '--bg-raised', '--bg-input'];

  test.each(['--text', '--text-muted', '--accent', '--good', '--bad', '--warn'])('%s is readable', (name) => {
    for (const background of backgrounds) expect(contrast(of(name, theme), of(background, theme)), background).toBeGreaterThanOrEqual(4.5);
  });

  test.each([...tokens.keys()].filter((name) => name.startsWith('--code-')))('%s is readable', (name) =>
    expect(contrast(of(name, theme), of('--bg-input', theme))).toBeGreaterThanOrEqual(4.5),
  );

  test.each([
    ['--text', '--bad-bg'],
    ['--bad', '--bad-bg'],
    ['--text', '--warn-bg'],
    ['--text', '--info-bg'],
    ['--text', '--bg-chosen'],
    ['--text-muted', '--bg-chosen'],
    ['--text', '--bg-hover'],
    ['--on-accent', '--accent'],
  ])('%s on %s is readable', (name, background) => expect(contrast(of(name, theme), of(background, theme))).toBeGreaterThanOrEqual(4.5));

  test.each(['--border-strong', '--focus'])('%s is seen', (name) => expect(contrast(of(name, theme), of('--bg', theme))).toBeGreaterThanOrEqual(3));

  test('lines of series are seen', () => {
    for (let i = 0; i < 200; i++) expect(contrast(fromHsl(seriesColor(i, theme === 1)), of('--bg', theme)), seriesColor(i, theme === 1)).toBeGreaterThanOrEqual(3);
  });
});
