// A real server and a real browser for the tests of `browser`.
//
// ICECORE_BIN: the server's binary. CHROMIUM: the browser, /usr/bin/chromium if not set. Where one of
// them is missing, tests are skipped and say so. The pages are those of the binary; below a prefix, and
// where UI_DIST names another build, a proxy serves ../dist or that build.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test from 'node:test';
import { chromium } from 'playwright-core';
import { serve } from '../scripts/serve.mjs';

/** How long anything may take. Nothing waits for this long where all is well; a busy machine is not a fault. */
const patience = 60_000;

const binary = process.env.ICECORE_BIN;
export const browserPath = process.env.CHROMIUM ?? '/usr/bin/chromium';

const missing = !binary
  ? 'ICECORE_BIN is not set'
  : !existsSync(binary)
    ? `there is no ${binary}`
    : !existsSync(browserPath)
      ? `there is no ${browserPath}; CHROMIUM may name another one`
      : false;

/** A test with a server of its own: `run({server, ui, open})`. */
export function browserTest(name, run, { prefix = '', webConfig = null } = {}) {
  test(name, { skip: missing, timeout: 5 * patience }, async (t) => {
    const server = await startServer(webConfig);
    t.after(() => server.remove());
    const isProxied = prefix !== '' || process.env.UI_DIST;
    const front = isProxied ? await serve({ api: server.url, prefix, ...(process.env.UI_DIST ? { dist: process.env.UI_DIST } : {}) }) : null;
    if (front) t.after(() => closeFront(front));
    const browser = await chromium.launch({ executablePath: browserPath, args: ['--no-sandbox'] });
    t.after(() => browser.close());
    const ui = front ? `http://127.0.0.1:${front.address().port}${prefix}/ui/` : `${server.url}/ui/`;
    const problems = [];
    const open = async (hash = '', options = {}) => {
      const page = await browser.newPage({ viewport: { width: 1280, height: 800 }, ...options });
      page.setDefaultTimeout(patience);
      page.on('pageerror', (error) => problems.push(String(error)));
      page.on('console', (message) => /Content Security Policy/.test(message.text()) && problems.push(message.text()));
      await page.goto(ui + hash);
      return page;
    };
    await run({ server, ui, open });
    assert.deepEqual(problems, [], 'errors in the page, or something that the CSP forbids');
  });
}

export async function startServer(webConfig = null) {
  const directory = await mkdtemp(join(tmpdir(), 'icecore-web-'));
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const access = webConfig === null ? [] : ['--web.config.file', join(directory, 'web.yml')];
  if (webConfig !== null) await writeFile(join(directory, 'web.yml'), webConfig);
  let child;
  const start = async () => {
    const args = ['serve', '--storage', join(directory, 'data'), '--listen', `127.0.0.1:${port}`, '--otlp.grpc.listen', 'off', ...access];
    child = spawn(binary, args, { cwd: directory, stdio: ['ignore', 'ignore', 'pipe'] });
    let log = '';
    child.stderr.on('data', (data) => (log = (log + data).slice(-4000)));
    await until(async () => {
      assert.equal(child.exitCode, null, `the server ended:\n${log}`);
      return (await fetch(`${url}/-/ready`)).ok;
    }, 'the server is ready');
  };
  const stop = async () => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    const ended = new Promise((done) => child.once('exit', done));
    child.kill('SIGKILL');
    await ended;
  };
  await start();
  return {
    url,
    /** Of the process that runs now. */
    pid: () => child.pid,
    start,
    stop,
    /** Sends samples in Prometheus' text format. */
    async send(text) {
      const answer = await fetch(`${url}/api/v1/import/prometheus`, { method: 'POST', body: text });
      assert.ok(answer.ok, await answer.text());
    },
    async remove() {
      await stop();
      await rm(directory, { recursive: true, force: true });
    },
  };
}

function closeFront(front) {
  front.closeAllConnections();
  return new Promise((done) => front.close(done));
}

function freePort() {
  return new Promise((done) => {
    const probe = createServer().listen(0, '127.0.0.1', () => {
      const { port } = probe.address();
      probe.close(() => done(port));
    });
  });
}

export async function until(check, what) {
  const end = Date.now() + patience;
  for (;;) {
    try {
      if (await check()) return;
    } catch (error) {
      if (error instanceof assert.AssertionError) throw error;
    }
    assert.ok(Date.now() < end, `not within ${patience / 1000} s: ${what}`);
    await new Promise((done) => setTimeout(done, 50));
  }
}

/** Goes to the search or editor of the page with `/`, which works as soon as the page listens. */
export async function focusWithSlash(page, selector) {
  const isFocused = () => page.evaluate((wanted) => document.activeElement?.matches(wanted) ?? false, selector);
  await until(async () => {
    if (!(await isFocused())) await page.keyboard.press('/');
    return isFocused();
  }, '/ goes to the search');
}

/** Does something that makes the panel ask the server, and waits until its answer is shown. */
export async function answered(page, act) {
  const response = page.waitForResponse((one) => /api\/v1\/query(_range)?$/.test(new URL(one.url()).pathname));
  await act();
  await (await response).finished();
  await until(async () => (await page.getAttribute('.panel', 'aria-busy')) === 'false', 'the answer is shown');
}

/** Writes into the editor and runs it. */
export async function ask(page, expr) {
  await page.click('.cm-content');
  await page.keyboard.press('Control+a');
  await page.keyboard.insertText(expr);
  await page.keyboard.press('Control+Enter');
}
