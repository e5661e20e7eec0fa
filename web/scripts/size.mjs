// What a browser loads for the first page (the shell and the query page), in bytes after gzip.
// Fails when that is more than allowed.
import { readFileSync, readdirSync } from 'node:fs';
import { gzipSync } from 'node:zlib';

const limit = 350 * 1024;
const dist = new URL('../dist/', import.meta.url);
const size = (name) => gzipSync(readFileSync(new URL(name, dist)), { level: 9 }).length;

const first = new Set(['index.html']);
const html = readFileSync(new URL('index.html', dist), 'utf8');
for (const [, name] of html.matchAll(/(?:src|href)="\.\/([^"]+)"/g)) first.add(name);

// Chunks that the query page needs, its editor and graph included: the dependencies that vite lists, and static imports.
const assets = readdirSync(new URL('assets/', dist)).map((name) => `assets/${name}`);
for (const name of assets) if (/\/(query|graph|editor|heatmap)-[^/]+\.(js|css)$/.test(name)) first.add(name);
for (const name of first) {
  if (!name.endsWith('.js')) continue;
  const text = readFileSync(new URL(name, dist), 'utf8');
  for (const [, found] of text.matchAll(/(?:from|import)\s*["']\.\/([^"']+)["']/g)) first.add(`assets/${found}`);
}

// A chunk's styles have its name.
const stem = (name) => name.replace(/-[^-]{8}\.\w+$/, '');
for (const name of [...first]) for (const style of assets) if (style.endsWith('.css') && stem(style) === stem(name)) first.add(style);

let total = 0;
for (const name of [...first].sort()) {
  total += size(name);
  console.log(String(size(name)).padStart(8), name);
}
console.log(String(total).padStart(8), `first page, gzip (at most ${limit})`);
const rest = assets.filter((name) => !first.has(name));
for (const name of rest) console.log(String(size(name)).padStart(8), name, '(on demand)');
if (total > limit) process.exit(1);
