import { expect, test } from 'vitest';
import { errorOf } from '../../src/api/error';
import { buildHash, parseHash } from '../../src/router';
import { matches } from '../../src/format/search';
import { nameOf } from '../../src/ui/keys';
import { sortRows, type Column } from '../../src/ui/table';

test('a hash and back', () => {
  const { page, params } = parseHash(buildHash('query', { 'g0.expr': 'a + b{c="d&e"}', empty: '' }));
  expect(page).toBe('query');
  expect(params.get('g0.expr')).toBe('a + b{c="d&e"}');
  expect(params.get('empty')).toBe('');
  expect(parseHash('')).toMatchObject({ page: '' });
  expect(parseHash('#/storage/')).toMatchObject({ page: 'storage' });
});

test('errors of all parts of the server', () => {
  expect(errorOf(400, 'Bad Request', '{"status":"error","errorType":"bad_data","error":"no"}')).toMatchObject({ message: 'no', type: 'bad_data', status: 400 });
  expect(errorOf(400, '', '{"error":{"code":400,"message":"No such name"}}')).toMatchObject({ message: 'No such name', type: 'opentsdb' });
  expect(errorOf(422, '', '{"type":"x","title":"Bad event","detail":"no id"}')).toMatchObject({ message: 'Bad event: no id', type: 'x' });
  expect(errorOf(500, 'Internal', '<html>')).toMatchObject({ message: '<html>' });
  expect(errorOf(502, 'Bad Gateway', '')).toMatchObject({ message: '502 Bad Gateway' });
  expect(errorOf(403, '', '{"status":"error","errorType":"forbidden","error":"the credential does not have the role admin"}').missingRole).toBe('admin');
});

test('the palette finds words in any order', () => {
  expect(matches('http_requests_total', 'total http')).toBe(true);
  expect(matches('http_requests_total', 'grpc')).toBe(false);
});

test('names of keys', () => {
  const plain = { ctrlKey: false, metaKey: false, altKey: false };
  expect(nameOf({ ...plain, key: '/' })).toBe('/');
  expect(nameOf({ ...plain, key: 'k', metaKey: true })).toBe('Ctrl-K');
  expect(nameOf({ ...plain, key: 'Enter', ctrlKey: true })).toBe('Ctrl-Enter');
});

test('rows are sorted by number with NaN below everything', () => {
  const columns: Column<number>[] = [{ id: 'n', title: 'n', cell: String, sort: (n) => n }];
  expect(sortRows([3, NaN, 1, 2], columns, { column: 'n', down: true })).toEqual([3, 2, 1, NaN]);
  expect(sortRows([3, NaN, 1, 2], columns, { column: 'n', down: false })).toEqual([NaN, 1, 2, 3]);
});
