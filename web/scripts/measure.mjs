// How long a graph takes, and what an hour of refreshes leaves in memory.
//
//   ICECORE_BIN=../target/release/icecore node scripts/measure.mjs [--only graphs|memory]
//
// Graphs of 10, 100 and 1 000 series with 1 000 points each: from the click on Run until the frame after
// the lines are drawn, and how much of it is the query (from its request to the last byte of its answer). The
// median of seven, with the least and the most.
// Memory is what is left after a collection: at first, and after as many refreshes as an hour has at one
// every five seconds, of a graph of 100 series.
import { parseArgs } from 'node:util';
import { chromium } from 'playwright-core';
import { ask, browserPath, startServer, until } from '../test/harness.mjs';

const { values: chosen } = parseArgs({ options: { only: { type: 'string', default: '' } } });
const points = 1000;
const step = 15;
const rounds = 7;
const refreshes = 720;

/** Lines of JSON as they are imported: series `i` of a thousand is in the groups that are larger than `i`. */
function data(end) {
  const timestamps = Array.from({ length: points }, (_, i) => (end - (points - 1 - i) * step) * 1000);
  return Array.from({ length: 1000 }, (_, i) => {
    const metric = { __name__: 'measured', instance: `host-${i}:9100`, job: 'node', in: i < 10 ? '10' : i < 100 ? '100' : '1000' };
    const values = timestamps.map((_, t) => Math.sin((t + i * 7) / 40) * 50 + i / 10);
    return JSON.stringify({ metric, values, timestamps });
  }).join('\n');
}

const queries = { 10: 'measured{in="10"}', 100: 'measured{in=~"10|100"}', 1000: 'measured' };

/** Clicks on Run, in the page: milliseconds until the lines are drawn, and those of the query. */
function clickAndWait() {
  const frame = () => new Promise(requestAnimationFrame);
  const isDrawn = () => {
    const canvas = document.querySelector('.plot canvas');
    if (!canvas || !document.querySelector('.legend td')) return false;
    const { data } = canvas.getContext('2d').getImageData(0, canvas.height >> 1, canvas.width, 1);
    return data.some((byte) => byte !== 0);
  };
  return (async () => {
    const began = performance.now();
    [...document.querySelectorAll('button')].find((it) => it.textContent.trim() === 'Run').click();
    while (!isDrawn()) await frame();
    await frame();
    const total = performance.now() - began;
    const asked = performance.getEntriesByType('resource').filter(({ name }) => name.includes('query_range')).at(-1);
    return { total, query: asked.responseEnd - asked.startTime, bytes: asked.decodedBodySize, sent: asked.encodedBodySize };
  })();
}

const median = (numbers) => numbers.toSorted((a, b) => a - b)[numbers.length >> 1];

async function graphs(browser, url, end) {
  for (const [series, expr] of Object.entries(queries)) {
    const runs = [];
    for (let i = 0; i < rounds; i++) {
      const page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
      const params = new URLSearchParams({ 'g0.expr': '', 'g0.tab': 'graph', 'g0.range_input': `${(points - 1) * step}s`, 'g0.step_input': `${step}s`, 'g0.end_input': new Date(end * 1000).toISOString().slice(0, 19).replace('T', ' ') });
      await page.goto(`${url}/ui/#/query?${params}`);
      await page.click('.cm-content');
      await page.keyboard.insertText(expr);
      await page.keyboard.press('Escape');
      runs.push(await page.evaluate(clickAndWait));
      await page.close();
    }
    const all = (of) => {
      const sorted = runs.map(of).toSorted((a, b) => a - b);
      return `${median(sorted).toFixed(0)} ms (${sorted[0].toFixed(0)}–${sorted.at(-1).toFixed(0)})`;
    };
    const mib = (bytes) => `${(bytes / 2 ** 20).toFixed(2)} MiB`;
    console.log(`${series} series × ${points} points: ${all((run) => run.total)} from the click to the graph, ${all((run) => run.total - run.query)} of them beyond the query; ${mib(runs[0].bytes)}, ${mib(runs[0].sent)} as sent`);
  }
}

async function memory(browser, url) {
  const page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
  const session = await page.context().newCDPSession(page);
  const used = async () => {
    await session.send('HeapProfiler.collectGarbage');
    const { metrics } = await session.send('Performance.getMetrics');
    const of = (name) => metrics.find((it) => it.name === name).value;
    return { mib: of('JSHeapUsedSize') / 2 ** 20, nodes: of('Nodes'), listeners: of('JSEventListeners') };
  };
  await session.send('Performance.enable');
  await page.goto(`${url}/ui/#/query?g0.range_input=4h`);
  await page.waitForSelector('.cm-content');
  await ask(page, queries[100]);
  await page.waitForSelector('.legend td');
  const answers = () => page.evaluate(() => performance.getEntriesByType('resource').length);
  let asked = 0;
  page.on('response', (response) => (asked += response.url().includes('query_range') ? 1 : 0));
  for (const count of [0, 60, 360, refreshes]) {
    while (asked < count) {
      const before = asked;
      await page.click('role=button[name="Run"]');
      await until(async () => asked > before && (await page.getAttribute('section.panel', 'aria-busy')) === 'false', 'an answer');
    }
    const { mib, nodes, listeners } = await used();
    console.log(`after ${count} refreshes: ${mib.toFixed(1)} MiB of JavaScript, ${nodes} nodes, ${listeners} listeners, ${await answers()} entries of timing`);
  }
  await page.close();
}

const server = await startServer();
const end = Math.floor(Date.now() / 1000 / step) * step;
const imported = await fetch(`${server.url}/api/v1/import`, { method: 'POST', body: data(end) });
if (!imported.ok) throw new Error(await imported.text());
const browser = await chromium.launch({ executablePath: browserPath, args: ['--no-sandbox'] });
try {
  if (chosen.only !== 'memory') await graphs(browser, server.url, end);
  if (chosen.only !== 'graphs') await memory(browser, server.url);
} finally {
  await browser.close();
  await server.remove();
}
