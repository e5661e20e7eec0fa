import type { ComponentChildren } from 'preact';
import { useMemo, useState } from 'preact/hooks';
import { formatCount } from '../format/number';
import { Button } from './button';

export interface Column<Row> {
  id: string;
  title: ComponentChildren;
  /** What the cell shows. */
  cell: (row: Row) => ComponentChildren;
  /** What it is sorted by; without it the column cannot be sorted. */
  sort?: (row: Row) => number | string;
  /** Numbers are aligned to the right. */
  number?: boolean;
  class?: string;
}

export interface Sorting {
  column: string;
  down: boolean;
}

/** More than a screen has; laying out a table takes as long as everything else about a graph. */
const pageSize = 50;

/**
 * A table that scrolls in its own box, sorts by its headings, and puts only so many rows into the
 * document: an answer may have a hundred thousand. Give `sorting` and `onSort` when the server sorts.
 */
export function Table<Row>(props: {
  label: string;
  columns: readonly Column<Row>[];
  rows: readonly Row[];
  rowKey: (row: Row, index: number) => string | number;
  sorting?: Sorting | null;
  onSort?: (sorting: Sorting) => void;
  empty?: ComponentChildren;
}) {
  const [own, setOwn] = useState<Sorting | null>(null);
  const [shown, setShown] = useState(pageSize);
  const byServer = props.onSort !== undefined;
  const sorting = byServer ? (props.sorting ?? null) : (own ?? props.sorting ?? null);
  const rows = useMemo(
    () => (byServer || !sorting ? props.rows : sortRows(props.rows, props.columns, sorting)),
    [props.rows, props.columns, sorting?.column, sorting?.down, byServer],
  );
  const sortBy = (column: Column<Row>) => {
    const same = sorting?.column === column.id;
    // Numbers are most often wanted largest first.
    const next = { column: column.id, down: same ? !sorting.down : column.number === true };
    if (props.onSort) props.onSort(next);
    else setOwn(next);
  };
  if (rows.length === 0 && props.empty !== undefined) return <>{props.empty}</>;
  return (
    <div class="table-box" tabIndex={0} role="region" aria-label={props.label}>
      <table>
        <thead>
          <tr>
            {props.columns.map((column) => (
              <Heading key={column.id} column={column} sorting={sorting} onSort={() => sortBy(column)} />
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.slice(0, shown).map((row, i) => (
            <tr key={props.rowKey(row, i)}>
              {props.columns.map((column) => (
                <td key={column.id} class={`${column.number ? 'number' : ''} ${column.class ?? ''}`}>
                  {column.cell(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      {rows.length > shown && (
        <p class="table-more">
          {formatCount(shown)} of {formatCount(rows.length)} rows
          <Button onClick={() => setShown(shown + 20 * pageSize)}>Show more</Button>
        </p>
      )}
    </div>
  );
}

function Heading<Row>({ column, sorting, onSort }: { column: Column<Row>; sorting: Sorting | null; onSort: () => void }) {
  const sorted = sorting?.column === column.id;
  return (
    <th
      scope="col"
      class={`${column.number ? 'number' : ''} ${column.class ?? ''}`}
      {...(sorted ? { 'aria-sort': sorting.down ? 'descending' : 'ascending' } : {})}
    >
      {column.sort ? (
        <button type="button" class="sort" onClick={onSort}>
          {column.title}
          <span aria-hidden="true">{sorted ? (sorting.down ? ' ↓' : ' ↑') : ''}</span>
        </button>
      ) : (
        column.title
      )}
    </th>
  );
}

export function sortRows<Row>(rows: readonly Row[], columns: readonly Column<Row>[], sorting: Sorting): readonly Row[] {
  const key = columns.find((column) => column.id === sorting.column)?.sort;
  if (!key) return rows;
  const sign = sorting.down ? -1 : 1;
  return rows
    .map((row, i) => ({ row, i, key: key(row) }))
    .sort((a, b) => sign * compare(a.key, b.key) || a.i - b.i)
    .map(({ row }) => row);
}

const words = new Intl.Collator('en', { numeric: true });

function compare(a: number | string, b: number | string): number {
  if (typeof a === 'string' || typeof b === 'string') return words.compare(String(a), String(b));
  // NaN is less than everything, so that the order is total.
  if (Number.isNaN(a) || Number.isNaN(b)) return Number(Number.isNaN(b)) - Number(Number.isNaN(a));
  return a < b ? -1 : a > b ? 1 : 0;
}
