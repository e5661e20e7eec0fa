// What the object store is asked, from two reads of `/metrics`.
import { sumOf, type Sample } from '../../format/exposition';

export interface Reading {
  /** UNIX seconds. */
  at: number;
  samples: Sample[];
}

/** Growth per second; null without an earlier read, or when the process restarted in between. */
export function rateOf(now: Reading, before: Reading | null, name: string): number | null {
  if (!before || now.at <= before.at) return null;
  const grown = (sumOf(now.samples, name) ?? 0) - (sumOf(before.samples, name) ?? 0);
  return grown < 0 ? null : grown / (now.at - before.at);
}

export interface RequestRow {
  /** What was asked: `put`, `get_range`, `list`. */
  api: string;
  /** Which part asked: `db`, `compactor`, `gc`, `reader`. */
  component: string;
  total: number;
  errors: number;
  rate: number | null;
  /** Mean seconds between the reads, or since the start while there was nothing between them. */
  seconds: number | null;
}

const prefix = 'slatedb_object_store_';
const count = `${prefix}request_count_total`;
const errors = `${prefix}error_count_total`;
const durations = `${prefix}request_duration_seconds`;

/** Requests by what was asked and who asked; kinds that never occurred are left out. */
export function requestRows(now: Reading, before: Reading | null): RequestRow[] {
  const kinds = new Map<string, { api: string; component: string }>();
  for (const { name, labels, value } of now.samples) {
    if (name !== count || value === 0) continue;
    const { api = '', component = '' } = labels;
    kinds.set(`${component} ${api}`, { api, component });
  }
  return [...kinds.values()].map((labels) => {
    const mine = (sample: Sample) => sample.labels['api'] === labels.api && sample.labels['component'] === labels.component;
    const pick = (reading: Reading): Reading => ({ at: reading.at, samples: reading.samples.filter(mine) });
    const here = pick(now);
    const there = before && pick(before);
    return {
      ...labels,
      total: sumOf(here.samples, count) ?? 0,
      errors: sumOf(here.samples, errors) ?? 0,
      rate: rateOf(here, there, count),
      seconds: mean(here, there) ?? mean(here, null),
    };
  });
}

function mean(now: Reading, before: Reading | null): number | null {
  const grown = (name: string) => (sumOf(now.samples, name) ?? 0) - ((before && sumOf(before.samples, name)) ?? 0);
  const n = grown(`${durations}_count`);
  return n > 0 ? grown(`${durations}_sum`) / n : null;
}
