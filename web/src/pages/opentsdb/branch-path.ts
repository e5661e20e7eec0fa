import type { Branch } from '../../api/opentsdb';

/** The branches above one, and it: an id has four digits of the tree, then eight for each level. */
export function crumbs({ branchId, path }: Pick<Branch, 'branchId' | 'path'>): { id: string; name: string }[] {
  const depths = Object.keys(path)
    .map(Number)
    .sort((a, b) => a - b);
  return depths.map((depth) => ({ id: branchId.slice(0, 4 + 8 * depth), name: path[String(depth)] ?? '' }));
}

/** The UIDs in a series' id, of the widths that OpenTSDB has unless it is told otherwise. */
export function uidsOf(tsuid: string, width = 6): { type: 'metric' | 'tagk' | 'tagv'; uid: string }[] {
  const parts = tsuid.match(new RegExp(`.{${width}}`, 'g')) ?? [];
  return parts.map((uid, i) => ({ uid, type: i === 0 ? 'metric' : i % 2 === 1 ? 'tagk' : 'tagv' }));
}
