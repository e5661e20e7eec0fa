// Positions in messages of the server: line and column, both from 1, columns in bytes.

export interface Place {
  from: number;
  to: number;
}

/** Where `1:7: parse error: …` or `PromQL warning: … (1:7)` points to, as offsets into the query. */
export function placeOf(message: string, query: string): Place | null {
  const found = /(\d+):(\d+): parse error/.exec(message) ?? /\((\d+):(\d+)\)\s*$/.exec(message);
  if (!found) return null;
  const line = Number(found[1]);
  const lines = query.split('\n');
  const text = lines[line - 1];
  if (text === undefined) return null;
  const before = lines.slice(0, line - 1).reduce((sum, one) => sum + one.length + 1, 0);
  const from = before + columnOf(text, Number(found[2]) - 1);
  return { from, to: Math.max(from, endOfWord(query, from)) };
}

/** The message without the position that is shown by a mark. */
export function withoutPlace(message: string): string {
  return message
    .replace(/^invalid parameter "query": /, '')
    .replace(/^\d+:\d+: parse error: /, '')
    .replace(/ \(\d+:\d+\)\s*$/, '');
}

/** The index of the character that the byte belongs to. */
function columnOf(text: string, bytes: number): number {
  const encoder = new TextEncoder();
  let passed = 0;
  let index = 0;
  for (const character of text) {
    if (passed >= bytes) break;
    passed += encoder.encode(character).length;
    index += character.length;
  }
  return index;
}

function endOfWord(query: string, from: number): number {
  const word = /^(?:[\w:]+|"[^"]*"?|.)/s.exec(query.slice(from));
  return from + (word?.[0].length ?? 0);
}
