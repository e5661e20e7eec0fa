import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { answered, ask, browserTest, until } from '../harness.mjs';

const minute = 60_000;

/** Samples of the last ten minutes, a minute apart. */
function samples(name, labels, value) {
  const now = Date.now();
  return Array.from({ length: 11 }, (_, i) => `${name}{${labels}} ${value(i)} ${now - (10 - i) * minute}\n`).join('');
}

const isPainted = (page) =>
  page.evaluate(() => {
    const canvas = document.querySelector('.plot canvas');
    if (!canvas) return false;
    const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
    return data.some((byte) => byte !== 0);
  });

browserTest('first start, first sample, query, graph, link, reload', async ({ server, open }) => {
  const page = await open();
  await page.waitForSelector('main');
  await server.send(samples('demo_temperature', 'room="lab"', (i) => 20 + i));
  await page.goto(page.url().replace(/#.*$/, '') + '#/query');
  await page.waitForSelector('.cm-content');
  await ask(page, 'demo_temperature * 2');
  await page.waitForSelector('.legend td');
  assert.match(await page.textContent('.legend'), /room="lab"/);
  assert.equal(await page.textContent('.legend tbody tr td:nth-child(2)'), '60');
  await until(() => isPainted(page), 'the graph is drawn');

  await page.click('role=tab[name="Table"]');
  await page.waitForSelector('td.pinned');
  assert.equal(await page.textContent('td.pinned'), '60');

  const link = page.url();
  const other = await open(link.slice(link.indexOf('#')));
  await other.waitForSelector('td.pinned');
  assert.equal(await other.locator('.cm-content').innerText(), 'demo_temperature * 2');
  await other.click('role=tab[name="Graph"]');
  await other.waitForSelector('.legend td');
  await other.reload();
  await other.waitForSelector('.legend td');
  await until(() => isPainted(other), 'the graph is drawn again');
});

browserTest('a wrong query is shown where it is wrong', async ({ open }) => {
  const page = await open('#/query');
  await page.waitForSelector('.cm-content');
  await ask(page, 'sum(up by job)');
  await page.waitForSelector('.box.error');
  assert.match(await page.textContent('.box.error'), /parse error/);
  const [line, mark] = (await page.textContent('.error-mark')).split('\n');
  assert.equal(line, 'sum(up by job)');
  assert.equal(mark, '       ^^');
  await page.waitForSelector('.cm-lintRange-error');
  assert.equal(await page.textContent('.cm-lintRange-error'), 'by');
});

browserTest('the server goes and comes back', async ({ server, open }) => {
  const page = await open('#/query?g0.expr=vector(1)&g0.tab=table');
  await page.waitForSelector('td.pinned');
  await server.stop();
  await page.click('role=button[name="Run"]');
  await page.waitForSelector('.banner');
  assert.match(await page.textContent('.banner'), /does not answer/);
  await server.start();
  await page.waitForSelector('.banner', { state: 'detached' });
  // Nobody pressed the button again.
  await page.waitForSelector('.box.error', { state: 'detached' });
  assert.equal(await page.textContent('td.pinned'), '1');
});

browserTest('text of the server is only ever text', async ({ server, open }) => {
  const evil = '<img src=x onerror=alert(1)>';
  await server.send(samples('evil', `name="${evil}"`, (i) => i));
  await server.send(samples('evil', 'name="b"', (i) => i));
  const page = await open('#/query?g0.expr=evil&g0.tab=graph');
  await page.waitForSelector('.legend td');
  assert.ok((await page.textContent('.legend')).includes(evil));
  await page.click('role=tab[name="Table"]');
  await page.waitForSelector('td.pinned');
  assert.ok((await page.textContent('table')).includes(evil));
  assert.equal(await page.locator('main img').count(), 0);
});

/** Takes what is offered first, once that is what it should be. */
async function accept(page, offered) {
  const first = page.locator('.cm-tooltip-autocomplete li').first();
  await until(async () => (await first.textContent())?.startsWith(offered), `${offered} is offered`);
  // With the pointer: for a moment after a list has opened, CodeMirror takes Enter for a new line.
  await first.click();
}

browserTest('completion offers metrics, labels and values', async ({ server, open }) => {
  await server.send(Array.from({ length: 2000 }, (_, i) => `many_${i}_total{zone="z${i % 3}"} 1\n`).join(''));
  const page = await open('#/query');
  await page.waitForSelector('.cm-content');
  await page.click('.cm-content');
  await page.keyboard.type('sum(many_1999');
  const text = () => page.locator('.cm-content').innerText();
  await accept(page, 'many_1999_total');
  await until(async () => (await text()) === 'sum(many_1999_total)', 'the metric is there');
  await page.keyboard.type('{zo');
  await accept(page, 'zone');
  await until(async () => (await text()) === 'sum(many_1999_total{zone})', 'the label is there');
  await page.keyboard.type('="z');
  await accept(page, 'z1');
  await until(async () => (await text()) === 'sum(many_1999_total{zone="z1"})', 'the value is there');
});

browserTest("zoom, Prometheus' links and keys", async ({ server, ui, open }) => {
  await server.send(samples('up_and_down', 'a="b"', (i) => i % 3));
  const page = await open('#/query?g0.expr=up_and_down&g0.tab=0&g0.range_input=30m');
  await page.waitForSelector('.legend td');
  const box = await page.locator('.plot .u-over').boundingBox();
  await page.mouse.move(box.x + box.width / 3, box.y + 50);
  await page.mouse.down();
  await page.mouse.move(box.x + (2 * box.width) / 3, box.y + 60, { steps: 4 });
  await page.mouse.up();
  await until(async () => new URL(page.url()).hash.includes('end_input'), 'the range is smaller');
  const range = new URLSearchParams(page.url().split('?')[1]).get('g0.range_input');
  assert.match(range, /^(9|10)m/);
  await page.mouse.dblclick(box.x + box.width / 2, box.y + 50);
  await until(async () => !page.url().includes('end_input'), 'the range is as before');

  await page.goto('about:blank');
  await page.goto(`${ui}?g0.expr=vector(7)&g0.tab=1`);
  await page.waitForSelector('td.pinned');
  assert.match(page.url(), /#\/query\?g0\.expr=vector/);

  await page.evaluate(() => document.activeElement.blur());
  await page.keyboard.press('?');
  await page.waitForSelector('dialog[open]');
  await page.keyboard.press('Escape');
  await page.waitForSelector('dialog[open]', { state: 'detached' });
  await page.keyboard.press('Control+k');
  await page.waitForSelector('.palette-input:focus');
  await page.keyboard.type('up_and');
  await until(async () => (await page.locator('.palette li').first().textContent())?.includes('up_and_down'), 'the metric is found');
  await page.keyboard.press('Enter');
  await until(async () => page.url().includes('up_and_down'), 'its graph is shown');
});

browserTest('a new query cancels the one that runs; so does the button', async ({ open }) => {
  const page = await open('#/query');
  await page.waitForSelector('.cm-content');
  const canceled = [];
  page.on('requestfailed', (request) => canceled.push(new URLSearchParams(request.postData()).get('query')));
  await page.route('**/api/v1/query_range', async (route) => {
    const slow = new URLSearchParams(route.request().postData()).get('query').includes('slow');
    if (!slow) await route.continue();
  });
  await ask(page, 'vector(1) # slow');
  await page.waitForSelector('role=button[name="Cancel"]');
  await ask(page, 'vector(2)');
  await page.waitForSelector('.legend td');
  assert.equal(await page.textContent('.legend tbody tr td:nth-child(2)'), '2');
  await until(async () => canceled.length === 1, 'the first is canceled');
  assert.deepEqual(canceled, ['vector(1) # slow']);
  await ask(page, 'vector(3) # slow');
  await page.click('role=button[name="Cancel"]');
  await page.waitForSelector('role=button[name="Run"]');
  await until(async () => canceled.length === 2, 'the button cancels');
  assert.deepEqual(canceled, ['vector(1) # slow', 'vector(3) # slow']);
});

browserTest('panels have one time; removing one leaves the others alone', async ({ open }) => {
  const page = await open('#/query?g0.expr=vector(1)&g0.tab=table&g1.expr=vector(2)&g1.tab=table&g2.expr=vector(3)&g2.tab=table');
  const values = async () => (await page.locator('td.pinned').allTextContents()).join(' ');
  await until(async () => (await values()) === '1 2 3', 'three answers');
  await page.locator('role=button[name="Remove this panel"]').nth(1).click();
  await until(async () => (await values()) === '1 3', 'two are left');
  const texts = await page.locator('.cm-content').allTextContents();
  assert.deepEqual(texts, ['vector(1)', 'vector(3)']);
  await page.goBack();
  await until(async () => (await values()) === '1 2 3', 'and back');
  assert.deepEqual(await page.locator('.cm-content').allTextContents(), ['vector(1)', 'vector(2)', 'vector(3)']);
});

browserTest('values come as columns, histograms as JSON; both are drawn and saved', async ({ server, open }) => {
  const at = Date.now() - 5 * minute;
  await server.send(`odd{i="1"} 1e-07 ${at}\nodd{i="2"} NaN ${at}\nodd{i="3"} 3 ${at - 10 * minute}\n`);
  const page = await open();
  const types = [];
  page.on('response', (answer) => answer.url().includes('query_range') && types.push(answer.headers()['content-type']));
  const end = new Date(Math.ceil(at / 1000) * 1000).toISOString().slice(0, 19).replace('T', ' ');
  await page.goto(page.url().replace(/#.*$/, '') + `#/query?g0.expr=odd&g0.tab=graph&g0.range_input=1m&g0.step_input=1m&g0.end_input=${end}`);
  await page.waitForSelector('.legend td');
  assert.deepEqual(types, ['application/vnd.icecore.matrix']);
  assert.deepEqual(await page.locator('.legend tbody tr td:nth-child(2)').allTextContents(), ['1e-7', '–']);
  const saved = async (form) => {
    await page.click('role=button[name="Download"]');
    const [download] = await Promise.all([page.waitForEvent('download'), page.click(`role=button[name="${form}"]`)]);
    return readFile(await download.path(), 'utf8');
  };
  const [, ...rows] = (await saved('CSV')).trim().split('\r\n');
  assert.deepEqual(rows.map((row) => row.replace(/^[^,]*/, '')), [',1e-07,NaN']);
  const { resultType, result } = JSON.parse(await saved('JSON'));
  assert.equal(resultType, 'matrix');
  assert.deepEqual(result.map(({ values }) => values.map(([, value]) => value)), [['1e-07'], ['NaN']]);

  const histogram = { count: '3', sum: '4', buckets: [[0, '1', '2', '3']] };
  await page.route('**/api/v1/query_range', (route) => {
    const start = Number(new URLSearchParams(route.request().postData()).get('start'));
    const matrix = [{ metric: { i: '1' }, values: [[start, '7']] }, { metric: { i: '2' }, histograms: [[start, histogram]] }];
    return route.fulfill({ json: { status: 'success', data: { resultType: 'matrix', result: matrix } } });
  });
  await answered(page, () => page.click('role=button[name="Run"]'));
  await until(async () => (await page.locator('.legend tbody tr td:nth-child(2)').allTextContents()).join() === '7', 'floats are lines');
  await answered(page, () => page.click('role=tab[name="Heatmap"]'));
  await page.waitForSelector('role=img[name="Heatmap of 1 buckets"]');
});

browserTest('of a thousand lines a part of the names is in the page', async ({ server, open }) => {
  await server.send(Array.from({ length: 1000 }, (_, i) => `thousand{i="${i}"} ${i}\n`).join(''));
  const page = await open('#/query?g0.expr=thousand&g0.tab=graph&g0.range_input=5m');
  await page.waitForSelector('text=50 of 1\u202f000 rows');
  assert.equal(await page.locator('.legend tbody tr').count(), 50);
  await page.fill('role=searchbox[name="Search series"]', 'i="777"');
  await until(async () => (await page.locator('.legend tbody tr').count()) === 1, 'one is found');
  await page.click('role=button[name="Only these"]');
  await page.waitForSelector('role=button[name="Show all"]');
  await page.click('role=button[name="Stacked"]');
  await until(() => isPainted(page), 'areas are drawn');
});
