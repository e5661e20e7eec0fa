/** `host=web01 dc=*`, also with commas: pairs of which either side may be `*`. */
export function parseTags(text: string): { key: string; value: string }[] {
  return text
    .split(/[\s,]+/)
    .filter(Boolean)
    .map((pair) => {
      const at = pair.indexOf('=');
      return at < 0 ? { key: pair, value: '*' } : { key: pair.slice(0, at) || '*', value: pair.slice(at + 1) || '*' };
    });
}
