// Prometheus' text format, as `/metrics` has it. Types and help are not needed here, so comments are skipped.
import { parseValue } from './number';
import type { Labels } from './labels';

export interface Sample {
  name: string;
  labels: Labels;
  value: number;
}

export function parseExposition(text: string): Sample[] {
  const samples: Sample[] = [];
  for (const line of text.split('\n')) {
    const found = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)/.exec(line);
    if (found) samples.push({ name: found[1]!, labels: parseLabels(found[2] ?? ''), value: parseValue(found[3]!) });
  }
  return samples;
}

function parseLabels(text: string): Labels {
  const labels: Labels = {};
  for (const [, name, value] of text.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)) {
    labels[name!] = value!.replace(/\\(.)/g, (_, c: string) => (c === 'n' ? '\n' : c));
  }
  return labels;
}

/** The sum over all series of the metric that have these labels; undefined without any. */
export function sumOf(samples: readonly Sample[], name: string, labels: Labels = {}): number | undefined {
  let sum: number | undefined;
  for (const sample of samples) {
    if (sample.name !== name) continue;
    if (Object.entries(labels).every(([label, value]) => sample.labels[label] === value)) sum = (sum ?? 0) + sample.value;
  }
  return sum;
}
