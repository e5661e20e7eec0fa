// Ranges as columns: numbers that are used where they lie. docs/http-api.md has the layout.
import type { Labels } from '../format/labels';
import type { Answer } from './client';
import type { Matrix, QueryData } from './query';

export const columnsType = 'application/vnd.icecore.matrix';

/** A matrix of floats alone, over steps that all series have. */
export interface ColumnMatrix {
  resultType: 'columns';
  /** Seconds. */
  start: number;
  step: number;
  count: number;
  result: ColumnSeries[];
}

export interface ColumnSeries {
  metric: Labels;
  /** A value for each step; NaN where there is none. `isAbsent` tells that from a NaN that is one. */
  values: Float64Array;
}

const magic = 'ICEMTRX1';
const headBytes = 32;

/** Throws where the bytes are not what they should be. */
export function decodeColumns(body: ArrayBuffer): Answer<QueryData> {
  const view = new DataView(body);
  const text = (from: number, to: number) => new TextDecoder().decode(new Uint8Array(body, from, to - from));
  if (body.byteLength < headBytes || text(0, magic.length) !== magic) throw new Error('not an answer in columns');
  const start = Number(view.getBigInt64(8, true)) / 1000;
  const step = Number(view.getBigInt64(16, true)) / 1000;
  const count = view.getUint32(24, true);
  const series = view.getUint32(28, true);
  const end = headBytes + 8 * count * series;
  if (end > body.byteLength) throw new Error('the columns end early');
  const { data, warnings = [], infos = [] } = JSON.parse(text(end, body.byteLength)) as Rest;
  if (data.result.length !== series) throw new Error('not as many labels as columns');
  const result = data.result.map(({ metric }, i) => ({ metric, values: new Float64Array(body, headBytes + 8 * count * i, count) }));
  return { data: { ...data, resultType: 'columns', start, step, count, result }, warnings, infos };
}

/** The answer without its values. */
interface Rest {
  data: QueryData & Matrix;
  warnings?: string[];
  infos?: string[];
}

/** Whether a series has no value here: the bits are those of the staleness marker. */
export function isAbsent(values: Float64Array, i: number): boolean {
  if (!Number.isNaN(values[i])) return false;
  const [low, high] = new Uint32Array(values.buffer, values.byteOffset + 8 * i, 2);
  return low === 2 && high === 0x7ff0_0000;
}
