import { describe, expect, test } from 'vitest';
import { ownVersion } from '../../src/api/own-version';

describe('the version of Icecore', () => {
  test('is in the revision', () => {
    expect(ownVersion({ version: '3.15.0', revision: 'icecore-0.1.0' })).toBe('0.1.0');
  });

  test('was the version before', () => {
    expect(ownVersion({ version: '0.1.0', revision: '' })).toBe('0.1.0');
    expect(ownVersion({ version: '0.1.0' })).toBe('0.1.0');
  });
});
