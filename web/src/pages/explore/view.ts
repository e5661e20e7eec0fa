// What of the list's view is in the hash.
import { useEffect, useRef, useState } from 'preact/hooks';
import { route, setParams } from '../../router';
import type { Sorting } from '../../ui/table';
import { useSettled } from '../../ui/use-api';

export const pageSize = 50;
export const types = ['counter', 'gauge', 'histogram', 'gaugehistogram', 'summary', 'info', 'stateset', 'unknown'] as const;
export const sorts = ['name', 'series', 'queries', 'last_queried'] as const;
export type Sort = (typeof sorts)[number];

export interface View {
  search: string;
  type: string;
  sort: Sort;
  down: boolean;
  page: number;
}

/** Reads a view; what makes no sense counts as missing. */
export function readView(params: URLSearchParams): View {
  const sort = sorts.find((name) => name === params.get('sort')) ?? 'name';
  const page = Number(params.get('page') ?? 1) - 1;
  return {
    search: params.get('search') ?? '',
    type: types.find((name) => name === params.get('type')) ?? '',
    sort,
    down: params.get('order') === 'desc',
    page: Number.isSafeInteger(page) && page > 0 ? page : 0,
  };
}

/** The change of parameters for another order; the default leaves none. */
export function sortParams({ column, down }: Sorting): Record<string, string | null> {
  return { sort: column === 'name' ? null : column, order: down ? 'desc' : null, page: null };
}

/** Never read comes first when the smallest number of reads does. */
export const neverReadFirst: Sorting = { column: 'queries', down: false };

/**
 * A text that is typed here and kept in the hash. It goes there when it stands still, so that the
 * history does not get an entry per letter, and comes from there when somebody goes back.
 */
export function useTextParam(name: string, alsoReset: readonly string[] = []): [string, (text: string) => void] {
  const inHash = route.value.params.get(name) ?? '';
  const [text, setText] = useState(inHash);
  const written = useRef(inHash);
  const settled = useSettled(text);
  useEffect(() => {
    if (settled === written.current) return;
    written.current = settled;
    const reset = Object.fromEntries(alsoReset.map((other) => [other, null]));
    setParams({ ...reset, [name]: settled === '' ? null : settled }, { replace: true });
  }, [settled]);
  useEffect(() => {
    if (inHash === written.current) return;
    written.current = inHash;
    setText(inHash);
  }, [inHash]);
  return [text, setText];
}
