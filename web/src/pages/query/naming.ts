// How series are told apart: by the labels that differ.
import { seriesName, type Labels } from '../../format/labels';

/** Labels that all have with the same value; none of a single series, which would have nothing left. */
export function commonLabels(all: readonly Labels[]): Labels {
  const [first, ...rest] = all;
  if (!first || rest.length === 0) return {};
  return Object.fromEntries(Object.entries(first).filter(([name, value]) => rest.every((labels) => labels[name] === value)));
}

/** Names of the labels that differ, the metric's name first. */
export function differingLabels(all: readonly Labels[]): string[] {
  const common = commonLabels(all);
  const names = new Set<string>();
  for (const labels of all) for (const name of Object.keys(labels)) if (!(name in common)) names.add(name);
  return [...names].sort((a, b) => Number(b === '__name__') - Number(a === '__name__') || (a < b ? -1 : 1));
}

/** The series without what all have in common. */
export function shortName(labels: Labels, common: Labels): string {
  const own = Object.fromEntries(Object.entries(labels).filter(([name]) => !(name in common)));
  return Object.keys(own).length === 0 ? seriesName(labels) : seriesName(own);
}
