// Answers as files: tables for spreadsheets (RFC 4180), and JSON as Prometheus has it.
import { isAbsent, type ColumnMatrix } from '../../api/columns';
import type { Matrix, Result } from '../../api/query';
import { seriesName } from '../../format/labels';
import { formatExact } from '../../format/number';
import { timesOf } from './series';

export function toCsv(data: Result): string {
  if (data.resultType === 'matrix') return rangeCsv(data);
  if (data.resultType === 'columns') return columnsCsv(data);
  if (data.resultType === 'vector') return vectorCsv(data);
  return csv([['time', 'value'], [iso(data.result[0]), data.result[1]]]);
}

/** A column for each label, then time and value. Histograms have count and sum. */
function vectorCsv({ result }: Extract<Result, { resultType: 'vector' }>): string {
  const names = [...new Set(result.flatMap(({ metric }) => Object.keys(metric)))].sort();
  const histograms = result.some(({ histogram }) => histogram);
  const head = [...names, 'time', 'value', ...(histograms ? ['count', 'sum'] : [])];
  const rows = result.map(({ metric, value, histogram }) => [
    ...names.map((name) => metric[name] ?? ''),
    iso((value ?? histogram)?.[0] ?? NaN),
    value?.[1] ?? '',
    ...(histograms ? [histogram?.[1].count ?? '', histogram?.[1].sum ?? ''] : []),
  ]);
  return csv([head, ...rows]);
}

/** A row for each time, a column for each series. */
function rangeCsv({ result }: Matrix): string {
  const rows = new Map<number, string[]>();
  result.forEach(({ values }, i) => {
    for (const [at, text] of values ?? []) {
      let row = rows.get(at);
      if (!row) rows.set(at, (row = new Array<string>(result.length).fill('')));
      row[i] = text;
    }
  });
  const sorted = [...rows].sort(([a], [b]) => a - b);
  return csv([['time', ...result.map(({ metric }) => seriesName(metric))], ...sorted.map(([at, row]) => [iso(at), ...row])]);
}

/** The same; a time at which no series has a value has no row. */
function columnsCsv({ result, ...grid }: ColumnMatrix): string {
  const rows = timesOf(grid)
    .map((at, i) => [iso(at), ...result.map(({ values }) => textAt(values, i) ?? '')])
    .filter(([, ...texts]) => texts.some((text) => text !== ''));
  return csv([['time', ...result.map(({ metric }) => seriesName(metric))], ...rows]);
}

export function toJson(data: Result): string {
  const { resultType, result } = data.resultType === 'columns' ? asMatrix(data) : data;
  return JSON.stringify({ resultType, result });
}

function asMatrix({ result, ...grid }: ColumnMatrix): Matrix {
  const times = timesOf(grid);
  const pairs = (values: Float64Array) =>
    times.flatMap((at, i): [number, string][] => {
      const text = textAt(values, i);
      return text === null ? [] : [[at, text]];
    });
  return { resultType: 'matrix', result: result.map(({ metric, values }) => ({ metric, values: pairs(values) })) };
}

/** A value as JSON has it, null where there is none. */
function textAt(values: Float64Array, i: number): string | null {
  return isAbsent(values, i) ? null : formatExact(values[i] ?? NaN);
}

function iso(at: number): string {
  return Number.isFinite(at) ? new Date(Math.round(at * 1000)).toISOString() : '';
}

function csv(rows: readonly (readonly string[])[]): string {
  return rows.map((row) => row.map(cell).join(',') + '\r\n').join('');
}

function cell(text: string): string {
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
