import assert from 'node:assert/strict';
import { browserTest, focusWithSlash, until } from '../harness.mjs';

const hostile = '<img src=x onerror=alert(1)>';

const target = (i, patch = {}) => ({
  discoveredLabels: { __address__: `host${i}:9100` },
  labels: { instance: `host${i}:9100`, job: i % 2 ? 'node' : 'db' },
  scrapePool: i % 2 ? 'node' : 'db',
  scrapeUrl: `http://host${i}:9100/metrics`,
  globalUrl: `http://host${i}:9100/metrics`,
  lastError: '',
  lastScrape: new Date().toISOString(),
  lastScrapeDuration: 0.01,
  health: 'up',
  scrapeInterval: '15s',
  scrapeTimeout: '10s',
  ...patch,
});

const serveTargets = (page, targets, more = {}) =>
  page.route(/api\/v1\/targets/, (route) =>
    route.fulfill({ json: { status: 'success', data: { activeTargets: targets, droppedTargets: [], droppedTargetCounts: {} }, ...more } }),
  );

browserTest('the server scrapes itself', async ({ open }) => {
  const page = await open('#/targets');
  await page.waitForSelector('tbody tr');
  assert.match(await page.textContent('tbody'), /\/metrics/);
  await until(async () => {
    await page.reload();
    await page.waitForSelector('tbody tr');
    return (await page.locator('tbody .badge.good').count()) === 1;
  }, 'it is up');
  await page.click('role=tab[name="Dropped by relabelling"]');
  await page.waitForSelector('text=Relabelling drops no target.');
});

browserTest('failing ones come first, and thousands stay quick', async ({ open }) => {
  const page = await open('#/status');
  const many = Array.from({ length: 5000 }, (_, i) => target(i));
  many[4321] = target(4321, { health: 'down', lastError: 'connection refused' });
  await serveTargets(page, many);
  await page.evaluate(() => (location.hash = '#/targets'));
  await page.waitForSelector('tbody tr');
  assert.match(await page.textContent('tbody tr:first-child'), /failing.*host4321.*connection refused/s);
  assert.ok((await page.locator('tbody tr').count()) <= 200, 'not all of them are in the page');
  await focusWithSlash(page, '.search');
  await page.keyboard.insertText('host4999');
  await page.waitForSelector('text=1 of 5');
  await until(async () => page.url().includes('q=host4999'), 'the link has the search');
  await page.fill('.search', '');
  await page.click('role=button[name=/Failing 1/]');
  await until(async () => (await page.locator('tbody tr').count()) === 1, 'only the failing one');
  await page.reload();
  await until(async () => (await page.locator('tbody tr').count()) === 1, 'the link keeps the filter');
});

browserTest('jobs that are left out are named', async ({ open }) => {
  const page = await open('#/status');
  const warning = `kubernetes_sd_configs is not supported: the job "${hostile}" is left out`;
  await serveTargets(page, [target(1)], { warnings: [warning] });
  await page.evaluate(() => (location.hash = '#/targets'));
  await page.waitForSelector('tbody tr');
  assert.equal(await page.innerText('main .box.warning'), warning);
  assert.equal(await page.locator('main img').count(), 0);
});

browserTest('names from outside stay text', async ({ open }) => {
  const page = await open('#/status');
  const bad = target(1, { scrapePool: hostile, labels: { [hostile]: hostile }, scrapeUrl: hostile, globalUrl: 'javascript:alert(1)', lastError: hostile, health: 'down' });
  await serveTargets(page, [bad, target(2)]);
  await page.evaluate(() => (location.hash = '#/targets'));
  await page.waitForSelector('tbody tr');
  const row = page.locator('tbody tr').first();
  assert.ok((await row.innerText()).includes(hostile));
  assert.equal(await page.locator('main img').count(), 0);
  assert.equal(await page.locator('a[href^="javascript"]').count(), 0);
});

browserTest('configuration and flags', async ({ open }) => {
  const page = await open('#/status');
  await page.waitForSelector('.facts');
  await page.click('role=tab[name="Configuration"]');
  await page.waitForSelector('pre');
  assert.match(await page.textContent('pre'), /icecore:/);
  await page.click('role=tab[name="Flags"]');
  await page.waitForSelector('tbody tr');
  await page.fill('.search', 'listen');
  await page.waitForSelector('code:has-text("--listen")');
  const row = page.locator('tr', { has: page.locator('code', { hasText: /^--listen$/ }) });
  assert.match(await row.innerText(), /--listen\s+127\.0\.0\.1:\d+\s+--listen/);
});
