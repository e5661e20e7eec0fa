/** Every word of the text is somewhere in the title. */
export function matches(title: string, text: string): boolean {
  const lower = title.toLowerCase();
  return text
    .toLowerCase()
    .split(/\s+/)
    .every((word) => lower.includes(word));
}
