import assert from 'node:assert/strict';
import { browserTest, focusWithSlash, until } from '../harness.mjs';

const hostile = '<img src=x onerror=alert(1)>';

const documents = `
apiVersion: obsinity/v1
kind: Event
metadata: { service: shop, name: order.placed }
spec:
  schema:
    type: object
    properties:
      order:
        type: object
        properties:
          channel: { type: string, index: true }
          items: { type: integer, index: true }
          total: { type: number }
---
apiVersion: obsinity/v1
kind: MetricCounter
metadata: { service: shop, event: order.placed, name: orders }
spec: { key: { dimensions: [order.channel] } }
`;

async function post(server, path, type, body) {
  const answer = await fetch(server.url + path, { method: 'POST', headers: { 'content-type': type }, body });
  assert.ok(answer.ok, `${path}: ${await answer.text()}`);
}

/** 120 events of the last two minutes; the newest has hostile names. */
async function fill(server) {
  await post(server, '/api/admin/config/documents', 'application/yaml', documents);
  const now = Date.now();
  const events = Array.from({ length: 120 }, (_, i) => ({
    event: { name: 'order.placed' },
    resource: { service: { id: 'shop' } },
    time: { startedAt: new Date(now - 1000 * (i + 1)).toISOString() },
    status: { code: i % 10 === 3 ? 'ERROR' : 'OK' },
    attributes: { order: { channel: i % 3 ? 'web' : 'app', items: i % 5, total: i }, ...(i === 0 ? { [hostile]: hostile } : {}) },
  }));
  await post(server, '/events/publish/batch', 'application/json', JSON.stringify(events));
  // Values of attributes are catalogued by a flush.
  await post(server, '/api/admin/flush', 'application/json', '');
}

const at = (params) => `#/events?${params}`;

/** A server may be built without SQL; then nobody is offered it, and this says so. */
async function offersSql(server, open) {
  const { data } = await (await fetch(`${server.url}/api/v1/status/features`)).json();
  if (data.sql) return true;
  const page = await open(at('tab=sql'));
  await page.waitForSelector('role=tab[name="Search"]');
  await until(async () => (await page.locator('role=tab[name="SQL"]').count()) === 0, 'SQL is not offered');
  return false;
}

browserTest('types with their attributes and metrics', async ({ server, open }) => {
  await fill(server);
  const page = await open('#/events');
  await page.waitForSelector('.event-metrics');
  assert.match(await page.textContent('table'), /order\.channel/);
  assert.match(await page.textContent('.event-metrics'), /counter.*orders/);
  await page.click('text=Documents of shop');
  await page.waitForSelector('pre');
  assert.match(await page.textContent('pre'), /icecore events show|MetricCounter/);
});

browserTest('events are searched, paged and looked at one by one', async ({ server, open }) => {
  await fill(server);
  const page = await open(at('tab=search&type=order.placed'));
  await until(async () => (await page.locator('tbody tr').count()) === 50, 'the first page');
  assert.ok((await page.textContent('tbody tr:first-child')).includes(hostile));
  assert.equal(await page.locator('main img').count(), 0);
  await page.click('role=button[name="Older events"]');
  await page.waitForSelector('text=page 2');
  await page.click('role=button[name="Older events"]');
  await until(async () => (await page.locator('tbody tr').count()) === 20, 'the last page');
  assert.ok(await page.isDisabled('role=button[name="Older events"]'));

  await page.click('text=Add a condition');
  await page.fill('input[aria-label="Attribute"]', 'order.channel');
  await page.waitForSelector('datalist option[value="web"]', { state: 'attached' });
  await page.fill('input[aria-label="Value"]', 'app');
  await page.click('text=Add a condition');
  await page.fill('input[aria-label="Attribute"] >> nth=1', 'order.total');
  await page.selectOption('select[aria-label="Operator"] >> nth=1', '<');
  await page.fill('input[aria-label="Value"] >> nth=1', '30');
  await page.keyboard.press('Control+Enter');
  await until(async () => (await page.locator('tbody tr').count()) === 10, 'what matches');

  await page.click('tbody tr:first-child button');
  await page.waitForSelector('h2:has-text("shop · order.placed")');
  assert.ok((await page.locator('tbody').innerText()).includes(`attributes.${hostile}`));
  assert.equal(await page.locator('main img').count(), 0);
  await page.click(`tr:has-text("outcome") >> text=find others`);
  await until(async () => (await page.locator('input[aria-label="Attribute"]').count()) === 3, 'one more condition');
});

browserTest('problems are said with what they are', async ({ server, open }) => {
  await fill(server);
  if (!(await offersSql(server, open))) return;
  const page = await open(at('tab=sql&sql=SELECT%20nonsense%20FROM%20events'));
  await page.waitForSelector('.box.error');
  assert.match(await page.textContent('.box.error'), /\S+: \S+/);
});

browserTest('counters are drawn', async ({ server, open }) => {
  await fill(server);
  const page = await open(at('tab=counters'));
  await page.waitForSelector('.chart-legend li');
  await page.selectOption('select[aria-label="Split by"]', 'order.channel');
  await until(async () => (await page.locator('.chart-legend li').count()) === 2, 'a line for each channel');
  assert.match(await page.textContent('.chart-legend'), /order\.channel=app.*order\.channel=web/s);
});

browserTest('SQL', async ({ server, open }) => {
  await fill(server);
  if (!(await offersSql(server, open))) return;
  const page = await open(at('tab=sql'));
  await page.waitForSelector('textarea');
  await focusWithSlash(page, 'textarea');
  await page.keyboard.insertText(`SELECT outcome, count(*) AS n, '${hostile}' AS "${hostile}" FROM events WHERE started_at > now() - INTERVAL '1 hour' GROUP BY 1 ORDER BY n`);
  await page.keyboard.press('Control+Enter');
  await page.waitForSelector('table');
  assert.equal((await page.locator('tbody').innerText()).replaceAll(/\s+/g, ' ').includes(`FAILURE 12 ${hostile}`), true);
  assert.equal(await page.locator('main img').count(), 0);
  const [download] = await Promise.all([page.waitForEvent('download'), page.click('role=button[name="CSV"]')]);
  assert.equal(download.suggestedFilename(), 'events.csv');
});
