// What of the list's view is in the hash.
import type { Sorting } from '../../ui/table';

export const pageSize = 50;
export const types = ['counter', 'gauge', 'histogram', 'gaugehistogram', 'summary', 'info', 'stateset', 'unknown'] as const;
export const sorts = ['name', 'series', 'queries', 'last_queried'] as const;
export type Sort = (typeof sorts)[number];

export interface View {
  search: string;
  type: string;
  /** Only metrics that nobody has read. */
  unread: boolean;
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
    unread: params.get('read') === 'never',
    sort,
    down: params.get('order') === 'desc',
    page: Number.isSafeInteger(page) && page > 0 ? page : 0,
  };
}

/** The change of parameters for another order; the default leaves none. */
export function sortParams({ column, down }: Sorting): Record<string, string | null> {
  return { sort: column === 'name' ? null : column, order: down ? 'desc' : null, page: null };
}
