// What a search asks for, as rows of a form and as `match` and `filter` of its body.
import type { Attribute, SearchBody } from '../../api/events';

export interface Condition {
  /** The path of an attribute, or the name of a column such as `outcome`. */
  name: string;
  op: Op;
  value: string;
}

export const ops = ['=', '!=', '>', '>=', '<', '<=', 'like', 'ilike', 'in', 'exists'] as const;
export type Op = (typeof ops)[number];

/** Columns of events by their names in answers. */
export const columns = [
  'outcome',
  'kind',
  'name',
  'event_id',
  'parent_event_id',
  'duration_nanos',
  'error_code',
  'error_message',
  'trace_id',
  'span_id',
  'parent_span_id',
  'correlation_id',
  'synthetic',
];

/** Those of them that several events may share. */
export const searchable = columns.filter((name) => name !== 'event_id' && name !== 'duration_nanos');

/** In the hash each condition is a list of three: names may have any character. */
export function encodeCondition({ name, op, value }: Condition): string {
  return JSON.stringify([name, op, value]);
}

export function decodeCondition(text: string): Condition | null {
  try {
    const [name, op, value] = JSON.parse(text) as unknown[];
    if (typeof name !== 'string' || typeof value !== 'string' || !ops.includes(op as Op)) return null;
    return { name, op: op as Op, value };
  } catch {
    return null;
  }
}

/** Indexed attributes go into `match`, which is quick; with `any` everything is a `filter`. */
export function toBody(conditions: readonly Condition[], any: boolean, attributes: readonly Attribute[]): SearchBody {
  const match: unknown[] = [];
  const filter: unknown[] = [];
  for (const { name, op, value } of conditions) {
    if (name === '') continue;
    const known = attributes.find(({ path }) => path === name);
    const clause = op === 'exists' ? { op } : { op, value: toValue(value, op, known?.type) };
    if (known?.indexed && !any) match.push({ attribute: name, ...clause });
    else filter.push({ path: !known && columns.includes(name) ? name : `attributes.${name}`, ...clause });
  }
  return {
    ...(match.length > 0 ? { match: { and: match } } : {}),
    ...(filter.length > 0 ? { filter: { [any ? 'or' : 'and']: filter } } : {}),
  };
}

function toValue(text: string, op: Op, type: string | undefined): unknown {
  if (op === 'in') return text.split(',').map((part) => toScalar(part.trim(), type));
  return op === 'like' || op === 'ilike' ? text : toScalar(text, type);
}

/** As the attribute's type says; of others what it looks like, and text in quotes is text. */
function toScalar(text: string, type: string | undefined): string | number | boolean {
  if (type?.includes('string') || type?.includes('timestamp')) return text;
  if (/^-?\d+(\.\d+)?([eE][+-]?\d+)?$/.test(text)) return Number(text);
  if (text === 'true' || text === 'false') return text === 'true';
  return type === undefined ? (/^"([^]*)"$/.exec(text)?.[1] ?? text) : text;
}

/** Nested attributes as paths, so that they can be shown in a line: `{a: {b: 1}}` is `a.b`. */
export function flatten(value: Record<string, unknown>, prefix = ''): [string, unknown][] {
  return Object.entries(value).flatMap(([name, inner]): [string, unknown][] => {
    const path = prefix + name;
    return isObject(inner) ? flatten(inner, `${path}.`) : [[path, inner]];
  });
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

export function shown(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value);
}
