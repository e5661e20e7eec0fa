import { expect, test } from 'vitest';
import { timeTicks } from '../../src/format/time-ticks';

const at = Date.UTC(2024, 4, 1, 23, 0, 0) / 1000;

test('the day is named where it begins', () =>
  expect(timeTicks([at, at + 1800, at + 3600, at + 5400], 1800, 'utc')).toEqual(['23:00\n2024-05-01', '23:30', '00:00\n2024-05-02', '00:30']));

test('ticks that are days apart are days', () => expect(timeTicks([at, at + 86400], 86400, 'utc')).toEqual(['2024-05-01', '2024-05-02']));

test('seconds and less', () => {
  expect(timeTicks([at + 1, at + 2], 1, 'utc')).toEqual(['23:00:01\n2024-05-01', '23:00:02']);
  expect(timeTicks([at + 0.5], 0.5, 'utc')).toEqual(['23:00:00.500\n2024-05-01']);
});
