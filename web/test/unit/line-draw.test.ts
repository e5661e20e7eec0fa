import { describe, expect, test } from 'vitest';
import { axisOf, place, placeAll, trace, traceArea, type Pen } from '../../src/pages/query/line-draw';

/** What is drawn, as SVG writes it. */
function drawn(draw: (pen: Pen) => void): string {
  const path: string[] = [];
  draw({ moveTo: (x, y) => void path.push(`M${x},${y}`), lineTo: (x, y) => void path.push(`L${x},${y}`) });
  return path.join(' ');
}

const of = (...values: number[]) => Float64Array.from(values);

describe('places', () => {
  test('on a linear axis', () => {
    const axis = axisOf(false, 10, 100, 20, 0);
    expect([place(10, axis), place(15, axis), place(NaN, axis)]).toEqual([100, 50, NaN]);
  });

  test('on a logarithmic one only what is positive has one', () => {
    const axis = axisOf(true, 1, 100, 100, 0);
    expect(place(10, axis)).toBeCloseTo(50);
    expect([0, -1].some((value) => Number.isFinite(place(value, axis)))).toBe(false);
    const ys = of(0, 0, 0);
    placeAll(of(1, 100, -5), axis, ys);
    expect([...ys]).toEqual([100, 0, NaN]);
  });
});

describe('lines', () => {
  test('have gaps, and points stand alone', () => {
    let alone: number[] = [];
    const path = drawn((pen) => (alone = trace(pen, of(0, 10, 20, 30, 40, 50), of(1, NaN, 2, 3, Infinity, 4))));
    expect(path).toBe('M0,1 M20,2 L30,3 M50,4');
    expect(alone).toEqual([0, 5]);
  });

  test('that are finer than the screen keep their highest and lowest', () => {
    const xs = of(0, 1, 1.2, 1.4, 1.6, 2);
    expect(drawn((pen) => trace(pen, xs, of(5, 6, 9, 1, 7, 5)))).toBe('M0,5 L1,6 L1,1 L1,9 L1,7 L2,5');
    expect(drawn((pen) => trace(pen, xs, of(5, 6, NaN, 1, 7, 5)))).toBe('M0,5 L1,6 M1.4,1 L1.6,7 L2,5');
  });
});

test('areas stand on what is below, or on the bottom', () => {
  expect(drawn((pen) => traceArea(pen, of(0, 1), of(5, NaN), null, 9))).toBe('M0,5 L1,9 L1,9 L0,9');
  expect(drawn((pen) => traceArea(pen, of(0, 1), of(5, 4), of(7, -Infinity), 9))).toBe('M0,5 L1,4 L1,9 L0,7');
});
