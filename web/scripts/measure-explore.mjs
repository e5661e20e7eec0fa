// How long the pages about what is stored take with 100 000 metrics and 1 000 000 series.
//
//   ICECORE_BIN=../target/release/icecore node scripts/measure-explore.mjs [--names 100000] [--series 10]
//
// Feeds a server of its own, then opens the pages and does in them what people do: from the click or key
// until the answer is in the page, the median of five with the longest in brackets, and what the server's
// CPU spent on all five. What is first is measured first: the server knows nothing yet.
import { readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { chromium } from 'playwright-core';
import { browserPath, focusWithSlash, startServer } from '../test/harness.mjs';

const { values } = parseArgs({ options: { names: { type: 'string', default: '100000' }, series: { type: 'string', default: '10' } } });
const names = Number(values.names);
const seriesEach = Number(values.series);
const rounds = 5;
const namesPerRequest = 2000;
const areas = ['http', 'queue', 'disk', 'cache', 'billing', 'search', 'login', 'mail', 'proxy', 'store'];
const kinds = ['gauge', 'counter'];

const nameOf = (i) => `${areas[i % areas.length]}_${String(i).padStart(6, '0')}_${i % 2 ? 'requests_total' : 'bytes'}`;

/** A gauge for each round. */
const looked = (i) => (7918 * (i + 1)) % names;

/** Samples of some metrics in Prometheus' text format. */
function text(from, to, at) {
  const lines = [];
  for (let i = from; i < to; i++) {
    const name = nameOf(i);
    lines.push(`# HELP ${name} What ${areas[i % areas.length]} number ${i} counts.`, `# TYPE ${name} ${kinds[i % 2]}`);
    for (let k = 0; k < seriesEach; k++) lines.push(`${name}{instance="host-${k}:9100",job="${areas[i % areas.length]}",zone="z${k % 3}"} ${i + k} ${at}`);
  }
  return lines.join('\n') + '\n';
}

/** Bytes that the server has in memory, and seconds that its threads ran. */
function spent(pid) {
  const [, resident] = readFileSync(`/proc/${pid}/statm`, 'utf8').split(' ').map(Number);
  const after = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1].split(' ');
  return { mib: (resident * 4096) / 2 ** 20, seconds: (Number(after[11]) + Number(after[12])) / 100 };
}

const report = (what, times, cpu) => {
  const sorted = times.toSorted((a, b) => a - b);
  console.log(`${what}: ${sorted[sorted.length >> 1].toFixed(0)} ms (${sorted.at(-1).toFixed(0)}), ${cpu.toFixed(2)} s of the server's CPU`);
};

const server = await startServer();
const browser = await chromium.launch({ executablePath: browserPath, args: ['--no-sandbox'] });
try {
  const began = performance.now();
  for (let from = 0; from < names; from += namesPerRequest) await server.send(text(from, Math.min(from + namesPerRequest, names), Date.now()));
  // Those that are looked at have a line.
  for (let i = 0; i < rounds; i++) await server.send(text(looked(i), looked(i) + 1, Date.now() - 120_000));
  const fed = spent(server.pid());
  console.log(`${names} metrics, ${names * seriesEach} series: imported in ${((performance.now() - began) / 1000).toFixed(1)} s; the server has ${fed.mib.toFixed(0)} MiB`);

  const page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
  page.setDefaultTimeout(120_000);
  const row = (label) => `[role=region][aria-label="${label}"] tbody tr`;
  /** Looks in every frame: waiting for a locator looks twice a second. */
  const shown = (selector, text = '') =>
    page.waitForFunction(([where, part]) => document.querySelector(where)?.textContent.includes(part), [selector, text], { polling: 'raf' });
  /** Leaves the page, then does something until something is seen. */
  const measured = async (what, act, seen, times = rounds) => {
    const before = spent(server.pid());
    const took = [];
    for (let i = 0; i < times; i++) {
      await page.goto('about:blank');
      await page.goto(`${server.url}/ui/#/status`);
      await page.waitForSelector('.facts');
      const prepared = await act.prepare?.(i);
      const start = performance.now();
      await (act.run ?? act)(i, prepared);
      await seen(i);
      took.push(performance.now() - start);
    }
    report(what, took, spent(server.pid()).seconds - before.seconds);
  };
  const go = (hash) => page.evaluate((to) => (location.hash = to), hash);
  const firstRow = () => shown(row('Metrics'));

  await measured('the list of metrics, for the first time', () => go('#/explore'), firstRow, 1);
  await measured('the list of metrics', () => go('#/explore'), firstRow);
  await measured('its page 1 000', () => go('#/explore?page=1000'), firstRow);
  await measured('sorted by series', () => go('#/explore?sort=series'), firstRow);
  await measured('counters only', () => go('#/explore?type=counter'), firstRow);
  await measured('never read only', () => go('#/explore?read=never'), firstRow);
  await measured(
    'a search, from the last key',
    {
      prepare: async () => {
        await go('#/explore');
        await firstRow();
        await focusWithSlash(page, 'input');
      },
      run: (i) => page.keyboard.insertText(`disk_0${i}2`),
    },
    (i) => shown(row('Metrics'), `disk_0${i}2`),
  );
  const metricSeen = async () => {
    await shown('.sparkline path');
    await shown(row('Labels'));
    await shown(row('Last values'));
  };
  await measured('a metric', (i) => go(`#/explore?metric=${nameOf(looked(i))}`), metricSeen);
  await measured('the storage page, for the first time', () => go('#/storage'), firstRow, 1);
  await measured('the storage page', () => go('#/storage'), firstRow);
  for (const [tab, seen] of [
    ['buckets', '[role=tabpanel] .empty'],
    ['retention', '[role=tabpanel] p:not(.spinner)'],
    ['maintenance', '[role=tabpanel] .stats'],
    ['requests', row('Requests to the object store')],
  ]) {
    await measured(`the storage page, ${tab}`, () => go(`#/storage?tab=${tab}`), () => shown(seen));
  }
  await measured(
    'the palette finds a metric, from the last key',
    {
      prepare: async () => {
        await page.keyboard.press('Control+k');
        await page.waitForFunction(() => document.activeElement?.closest('.palette') !== null, null, { polling: 'raf' });
      },
      run: () => page.keyboard.insertText(nameOf(4242).slice(0, -2)),
    },
    () => shown('.palette li', nameOf(4242)),
  );
  const end = spent(server.pid());
  console.log(`the server has ${end.mib.toFixed(0)} MiB at the end`);
} finally {
  await browser.close();
  await server.remove();
}
