// Series as PromQL writes them.

export type Labels = Record<string, string>;

const plainName = /^[a-zA-Z_:][a-zA-Z0-9_:]*$/;
const plainLabel = /^[a-zA-Z_][a-zA-Z0-9_]*$/;

/** A string in PromQL's quotes. */
export function quote(text: string): string {
  return `"${text.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n')}"`;
}

/** A label's name, in quotes where it has other characters than old names have. */
export function labelName(name: string): string {
  return plainLabel.test(name) ? name : quote(name);
}

/** A selector for this metric: `up`, or `{"http.status"}`. */
export function metricSelector(name: string): string {
  return plainName.test(name) ? name : `{${quote(name)}}`;
}

/** A selector that matches exactly these labels, also the name of the series: `up{job="a"}`. */
export function seriesName(labels: Labels): string {
  const name = labels['__name__'];
  const plain = name !== undefined && plainName.test(name);
  const inside = Object.keys(labels)
    .filter((label) => label !== '__name__')
    .sort()
    .map((label) => `${labelName(label)}=${quote(labels[label] ?? '')}`);
  if (name !== undefined && !plain) inside.unshift(quote(name));
  if (plain) return inside.length === 0 ? name : `${name}{${inside.join(', ')}}`;
  return `{${inside.join(', ')}}`;
}
