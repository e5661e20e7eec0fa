// The search in the hash: `w=` for each condition.
import { navigate, route } from '../../router';
import { decodeCondition, encodeCondition, type Condition } from './conditions';

export function readConditions(params: URLSearchParams): Condition[] {
  return params.getAll('w').flatMap((text) => decodeCondition(text) ?? []);
}

export function writeConditions(conditions: readonly Condition[], any: boolean): void {
  const params = new URLSearchParams(route.value.params);
  params.delete('w');
  params.delete('any');
  for (const condition of conditions) if (condition.name !== '') params.append('w', encodeCondition(condition));
  if (any) params.set('any', '1');
  navigate(route.value.page, params);
}

/** Back to the search, with one more condition. */
export function addCondition(condition: string): void {
  const params = new URLSearchParams(route.value.params);
  params.delete('id');
  if (!params.getAll('w').includes(condition)) params.append('w', condition);
  navigate(route.value.page, params);
}
