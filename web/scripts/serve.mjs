// Serves `dist` at `<prefix>/ui/` with the headers that the server will send, and passes everything
// else on to a running Icecore. For development and for the browser tests; needs nothing but node.
//
//   node scripts/serve.mjs --api http://127.0.0.1:9090 --port 8080 --prefix /metrics-db
import { createServer, request } from 'node:http';
import { readFile } from 'node:fs/promises';
import { extname, join, normalize } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';

export const csp =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; " +
  "font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const types = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
};

export function serve({ api, port = 0, prefix = '', dist = fileURLToPath(new URL('../dist', import.meta.url)) }) {
  const server = createServer(async (incoming, answer) => {
    const path = decodeURIComponent(new URL(incoming.url, 'http://x').pathname);
    if (!path.startsWith(prefix)) return answer.writeHead(404).end();
    const below = path.slice(prefix.length);
    if (below === '/ui') return answer.writeHead(307, { location: `${prefix}/ui/` }).end();
    if (below.startsWith('/ui/')) return file(answer, dist, below.slice('/ui/'.length) || 'index.html');
    proxy(incoming, answer, api, incoming.url.slice(prefix.length));
  });
  return new Promise((done) => server.listen(port, '127.0.0.1', () => done(server)));
}

async function file(answer, dist, name) {
  const path = normalize(join(dist, name));
  const body = path.startsWith(dist) && (await readFile(path).catch(() => null));
  if (!body) return answer.writeHead(404).end();
  answer.writeHead(200, {
    'content-type': types[extname(path)] ?? 'application/octet-stream',
    'content-security-policy': csp,
    'x-content-type-options': 'nosniff',
    'referrer-policy': 'same-origin',
    'cache-control': name.startsWith('assets/') ? 'max-age=31536000, immutable' : 'no-cache',
  });
  answer.end(body);
}

function proxy(incoming, answer, api, url) {
  const target = new URL(url, api);
  const onward = request(target, { method: incoming.method, headers: { ...incoming.headers, host: target.host } });
  onward.on('response', (response) => {
    // As the server does for the interface: without this header the browser does not ask for a login itself.
    if (incoming.headers['x-requested-with'] === 'icecore-ui') delete response.headers['www-authenticate'];
    answer.writeHead(response.statusCode, response.headers);
    response.pipe(answer);
  });
  // The interface must see a dead server as what it is: a connection that breaks.
  onward.on('error', () => answer.destroy());
  answer.on('close', () => onward.destroy());
  incoming.pipe(onward);
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  const { values } = parseArgs({
    options: {
      api: { type: 'string', default: 'http://127.0.0.1:9090' },
      port: { type: 'string', default: '8080' },
      prefix: { type: 'string', default: '' },
      dist: { type: 'string', default: fileURLToPath(new URL('../dist', import.meta.url)) },
    },
  });
  await serve({ ...values, port: Number(values.port) });
  console.log(`http://127.0.0.1:${values.port}${values.prefix}/ui/ with the API of ${values.api}`);
}
