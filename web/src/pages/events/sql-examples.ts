import type { EventType } from '../../api/events';

/** A name as SQL has it in quotes. */
export const quoted = (name: string) => `"${name.replaceAll('"', '""')}"`;

/** Queries that are right for what is registered. */
export function examples(types: readonly EventType[]): { title: string; sql: string }[] {
  const list = [
    {
      title: 'events of the last hour by type',
      sql: "SELECT event_type, outcome, count(*) AS n\nFROM events\nWHERE started_at > now() - INTERVAL '1 hour'\nGROUP BY 1, 2 ORDER BY n DESC",
    },
    {
      title: 'counted by the minute',
      sql: "SELECT interval_start, metric, sum(count) AS n\nFROM rollup_1m\nWHERE interval_start > now() - INTERVAL '1 hour'\nGROUP BY 1, 2 ORDER BY 1 DESC",
    },
  ];
  const type = types.find(({ attributes }) => attributes.some(({ indexed }) => indexed));
  const path = type?.attributes.find(({ indexed }) => indexed)?.path;
  if (type && path !== undefined) {
    list.push({
      title: `${type.name} by ${path}`,
      sql: `SELECT ${quoted(`attr.${path}`)}, count(*) AS n\nFROM ${quoted(type.service)}.${quoted(type.name)}\nWHERE started_at > now() - INTERVAL '1 day'\nGROUP BY 1 ORDER BY n DESC LIMIT 100`,
    });
  }
  return list;
}
