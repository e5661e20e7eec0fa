import assert from 'node:assert/strict';
import { browserTest, until } from '../harness.mjs';

const hostile = '<img src=x onerror=alert(1)>';

async function api(server, path, body) {
  const answer = await fetch(`${server.url}/opentsdb/api/${path}`, body ? { method: 'POST', body: JSON.stringify(body) } : {});
  assert.ok(answer.ok, `${path}: ${await answer.text()}`);
}

/** Points of the last ten minutes of two hosts, and a series with names that OpenTSDB would not take. */
async function fill(server) {
  await api(server, 'uid/assign?metric=sys.cpu.user');
  const now = Math.floor(Date.now() / 1000);
  const points = ['web01', 'web02'].flatMap((host, k) => Array.from({ length: 10 }, (_, i) => ({ metric: 'sys.cpu.user', timestamp: now - 60 * (10 - i), value: i + 100 * k, tags: { host } })));
  await api(server, 'put', points);
  await server.send(`{${JSON.stringify(hostile)}, ${JSON.stringify(hostile)}=${JSON.stringify(hostile)}} 1\n`);
}

const isPainted = (page) =>
  page.evaluate(() => {
    const canvas = document.querySelector('.line-chart canvas');
    return canvas !== null && canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data.some((byte) => byte !== 0);
  });

browserTest('a query is built, drawn and shared', async ({ server, open }) => {
  await fill(server);
  const page = await open('#/opentsdb');
  await page.fill('input[aria-label="Metric"]', 'sys.cpu');
  await page.waitForSelector('datalist option[value="sys.cpu.user"]', { state: 'attached' });
  await page.fill('input[aria-label="Metric"]', 'sys.cpu.user');
  await page.click('text=Add a tag');
  await page.fill('input[aria-label="Tag"]', 'host');
  await page.keyboard.press('Control+Enter');
  await page.waitForSelector('.chart-legend li');
  assert.deepEqual(await page.locator('.chart-legend-name').allInnerTexts(), ['sys.cpu.user host=web01', 'sys.cpu.user host=web02']);
  await until(() => isPainted(page), 'the lines are drawn');
  assert.match(decodeURIComponent(page.url()), /m=sum:sys\.cpu\.user\{host=wildcard\(\*\)\}/);
  assert.match(await page.textContent('.opentsdb-words'), /m=sum:sys\.cpu\.user/);

  const other = await open(page.url().slice(page.url().indexOf('#')));
  await other.waitForSelector('.chart-legend li');
  assert.equal(await other.inputValue('input[aria-label="Metric"]'), 'sys.cpu.user');
});

browserTest('a wrong query says why', async ({ open }) => {
  const page = await open('#/opentsdb?m=sum:no.such.metric');
  await page.waitForSelector('.box.error');
  assert.match(await page.textContent('.box.error'), /No such name for 'metrics': 'no.such.metric'/);
});

browserTest('annotations are written, seen and deleted', async ({ server, open }) => {
  await fill(server);
  const page = await open('#/opentsdb?tab=annotations');
  await page.waitForSelector('text=No annotations in that time.');
  await page.click('text=Write one');
  await page.fill('dialog input >> nth=0', hostile);
  await page.click('dialog >> text=Save');
  await page.waitForSelector('tbody tr');
  assert.ok((await page.textContent('tbody tr')).includes(hostile));
  await page.click('role=button[name="Delete"]');
  await page.click('dialog >> role=button[name="Delete"]');
  await page.waitForSelector('text=No annotations in that time.');
});

browserTest('trees are browsed down to a graph', async ({ open }) => {
  const page = await open('#/status');
  const path = { 0: 'ROOT', 1: 'web' };
  const leaf = { metric: 'sys.cpu.user', tags: { host: hostile }, tsuid: '000001000001000001', displayName: hostile };
  const branch = (patch) => ({ branchId: '0001', displayName: 'ROOT', treeId: 1, depth: 0, path: { 0: 'ROOT' }, branches: null, leaves: null, ...patch });
  await page.route(/opentsdb\/api\/tree$/, (route) => route.fulfill({ json: [{ treeId: 1, name: 'hosts', description: '', notes: '', enabled: true }] }));
  await page.route(/opentsdb\/api\/tree\/branch/, (route) => {
    const inside = route.request().url().includes('branch=00010001BECD');
    const web = branch({ branchId: '00010001BECD', displayName: 'web', depth: 1, path, leaves: [leaf] });
    return route.fulfill({ json: inside ? web : branch({ branches: [web] }) });
  });
  await page.evaluate(() => (location.hash = '#/opentsdb?tab=trees'));
  await page.click('.branches >> text=web');
  await page.waitForSelector('tbody tr');
  assert.equal(await page.textContent('nav[aria-label="Path"]'), 'ROOT / web');
  assert.equal(await page.locator('main img').count(), 0);
  await page.click('tbody a');
  await until(async () => (await page.inputValue('input[aria-label="Metric"]')) === 'sys.cpu.user', 'the query of the leaf');
});

browserTest('series and UIDs are looked up; names from outside stay text', async ({ server, open }) => {
  await fill(server);
  const page = await open('#/opentsdb?tab=names&metric=sys.cpu.user');
  await page.waitForSelector('tbody tr');
  assert.equal(await page.locator('tbody tr').count(), 2);
  await page.click('tbody tr:first-child button >> nth=0');
  await until(async () => (await page.locator('section[aria-label="UIDs"] pre').count()) === 1, 'the UID is looked up');
  assert.match(await page.textContent('section[aria-label="UIDs"] pre'), /"name": "sys.cpu.user"/);

  await page.goto(page.url().replace(/#.*/, `#/opentsdb?m=${encodeURIComponent(`none:${hostile}`)}`));
  await page.waitForSelector('.chart-legend li');
  assert.ok((await page.textContent('.chart-legend')).includes(hostile));
  assert.equal(await page.locator('main img').count(), 0);
});
