import type { Signal } from '@preact/signals';
import { useMemo, useState } from 'preact/hooks';
import { matches } from '../../format/search';
import { formatCount, formatShort } from '../../format/number';
import { dark } from '../../state/theme';
import { Button } from '../../ui/button';
import { Copy } from '../../ui/copy';
import { Search } from '../../ui/field';
import { Table, type Column } from '../../ui/table';
import { seriesColor } from '../../format/colors';
import type { Hover } from './graph-plot';
import { commonLabels, shortName } from './naming';
import { summary, type Lines, type Summary } from './series';

interface Row {
  line: number;
  name: string;
  full: string;
  /** Made when a row is shown, or all are sorted: of a thousand rows a few are. */
  summary: () => Summary;
}

interface Props {
  lines: Lines;
  names: readonly string[];
  hidden: ReadonlySet<string>;
  onHidden: (hidden: ReadonlySet<string>) => void;
  hover: Signal<Hover | null>;
  onHighlight: (line: number) => void;
}

const searchFrom = 8;

/** The series with their values. A click on a name shows only that one, and again shows all. */
export function Legend({ lines, names, hidden, onHidden, hover, onHighlight }: Props) {
  const [text, setText] = useState('');
  const rows = useMemo(() => {
    const common = commonLabels(lines.lines.map(({ labels }) => labels));
    return lines.lines.map(({ labels, values }, line): Row => ({ line, name: shortName(labels, common), full: names[line] ?? '', summary: once(() => summary(values)) }));
  }, [lines]);
  const found = useMemo(() => rows.filter(({ full }) => matches(full, text.trim())), [rows, text]);
  const toggle = (name: string) => {
    const next = new Set(hidden);
    if (!next.delete(name)) next.add(name);
    onHidden(next);
  };
  const isolate = (name: string) => {
    const alone = hidden.size === names.length - 1 && !hidden.has(name);
    onHidden(new Set(alone ? [] : names.filter((other) => other !== name)));
  };
  const columns = useMemo(
    (): readonly Column<Row>[] => [
      {
        id: 'series',
        title: 'Series',
        sort: ({ full }) => full,
        cell: (row) => (
          <span class="legend-name" onMouseEnter={() => onHighlight(row.line)} onMouseLeave={() => onHighlight(-1)}>
            <button
              type="button"
              class="swatch"
              role="checkbox"
              aria-checked={!hidden.has(row.full)}
              aria-label={`Show ${row.name}`}
              title="Show or hide"
              style={{ background: hidden.has(row.full) ? 'transparent' : seriesColor(row.line, dark.value), borderColor: seriesColor(row.line, dark.value) }}
              onClick={() => toggle(row.full)}
            />
            <button
              type="button"
              class={hidden.has(row.full) ? 'legend-link off' : 'legend-link'}
              title={`${row.full}\nClick: only this one. Ctrl-click: show or hide.`}
              onClick={(event) => (event.ctrlKey || event.metaKey ? toggle(row.full) : isolate(row.full))}
            >
              {row.name}
            </button>
            <Copy text={row.full} label="Copy the selector" />
          </span>
        ),
      },
      { id: 'now', title: 'Value', number: true, sort: (row) => row.summary().last, cell: (row) => <ValueNow row={row} lines={lines} hover={hover} /> },
      { id: 'min', title: 'Min', number: true, class: 'when-wide', sort: (row) => row.summary().min, cell: (row) => formatShort(row.summary().min, 4) },
      { id: 'mean', title: 'Mean', number: true, class: 'when-wide', sort: (row) => row.summary().mean, cell: (row) => formatShort(row.summary().mean, 4) },
      { id: 'max', title: 'Max', number: true, sort: (row) => row.summary().max, cell: (row) => formatShort(row.summary().max, 4) },
    ],
    [lines, hidden, names, dark.value],
  );
  return (
    <div class="legend">
      {(rows.length > searchFrom || hidden.size > 0) && (
        <div class="row">
          <Search label="Search series" value={text} onInput={setText} />
          <span class="muted">
            {text.trim() === '' ? `${formatCount(rows.length)} series` : `${formatCount(found.length)} of ${formatCount(rows.length)}`}
          </span>
          {text.trim() !== '' && found.length > 0 && (
            <Button kind="plain" onClick={() => onHidden(new Set(names.filter((name) => !matches(name, text.trim()))))}>
              Only these
            </Button>
          )}
          {hidden.size > 0 && (
            <Button kind="plain" onClick={() => onHidden(new Set())}>
              Show all
            </Button>
          )}
        </div>
      )}
      <Table label="Series" columns={columns} rows={found} rowKey={({ full }) => full} />
    </div>
  );
}

/** The value under the crosshair, else the last one. A component of its own, so that only it follows the pointer. */
function ValueNow({ row, lines, hover }: { row: Row; lines: Lines; hover: Signal<Hover | null> }) {
  const at = hover.value?.at;
  const value = at === undefined ? row.summary().last : (lines.lines[row.line]?.values[at] ?? NaN);
  return <>{Number.isFinite(value) ? formatShort(value, 4) : '–'}</>;
}

function once<T>(make: () => T): () => T {
  let made: T | undefined;
  return () => (made ??= make());
}
