// Explore: the list of metrics, and one of them.
import assert from 'node:assert/strict';
import { browserTest, focusWithSlash, until } from '../harness.mjs';

const evil = '<img src=x onerror=alert(1)>';

/** Samples of the last ten minutes, a minute apart. */
function samples(name, labels, value) {
  const now = Date.now();
  return Array.from({ length: 11 }, (_, i) => `${name}{${labels}} ${value(i)} ${now - (10 - i) * 60_000}\n`).join('');
}

const rows = (page, label) => page.locator(`role=region[name="${label}"] >> tbody tr`);

/** Answers in the server's stead, for what a small server does not have. */
const answer = (page, path, data) =>
  page.route(`**/${path}*`, (request) => request.fulfill({ json: { status: 'success', data: typeof data === 'function' ? data(new URL(request.request().url())) : data } }));

browserTest('a metric is found, looked at, and queried', async ({ server, open }) => {
  for (const path of ['/a', '/b', evil]) await server.send(samples('shop_requests_total', `path="${path}",job="shop"`, (i) => i * 60));
  const page = await open('#/explore');
  await rows(page, 'Metrics').first().waitFor();
  await focusWithSlash(page, 'input');
  await page.keyboard.type('shop_requests');
  await until(async () => page.url().includes('search=shop_requests') && (await rows(page, 'Metrics').count()) === 1, 'one metric is left');
  await page.keyboard.press('Enter');

  await page.waitForSelector('h1:has-text("shop_requests_total")');
  await page.waitForSelector('.sparkline path');
  assert.equal(await page.textContent('.query-links code'), 'rate(shop_requests_total[5m])');
  await until(async () => (await rows(page, 'Last values').count()) === 3, 'three last values');
  assert.match(await page.textContent('.stats'), /Series\s*3/);

  await page.click('role=button[name="path"]');
  await until(async () => (await rows(page, 'Values of path').count()) === 3, 'three values');
  assert.ok((await page.textContent('main')).includes(evil));
  assert.equal(await page.locator('main img').count(), 0);
  await page.fill('role=searchbox[name="Search values of path"]', '/b');
  await until(async () => (await rows(page, 'Values of path').count()) === 1, 'one value is left');
  assert.match(page.url(), /label=path/);
  await page.reload();
  await until(async () => (await rows(page, 'Values of path').count()) === 1, 'the link has all of it');

  await page.click('.query-links a.primary');
  await page.waitForSelector('.cm-content');
  assert.equal(await page.locator('.cm-content').innerText(), 'rate(shop_requests_total[5m])');
  await page.goBack();
  await page.click('text=← All metrics');
  await rows(page, 'Metrics').first().waitFor();
  assert.match(page.url(), /search=shop_requests/);
});

browserTest('what nobody reads is shown alone, when wanted', async ({ open }) => {
  const page = await open();
  const asked = [];
  const items = Array.from({ length: 50 }, (_, i) => ({ name: `m_${i}`, type: 'gauge', unit: '', help: evil, series: i, queries: i, lastQueried: i === 0 ? null : 1_700_000_000 }));
  await answer(page, 'api/v1/status/metric_names', (url) => {
    asked.push(url.searchParams);
    return { total: 100_000, items };
  });
  await page.goto(page.url().replace(/#.*$/, '') + '#/explore');
  await rows(page, 'Metrics').first().waitFor();
  assert.match(await page.textContent('main'), /1–50 of 100.000/);
  await page.click('role=button[name="Never read"]');
  await until(async () => asked.at(-1).get('queried') === 'never', 'the server filters');
  assert.match(await rows(page, 'Metrics').first().textContent(), /never/);
  assert.match(await page.textContent('main'), /since the server started/);
  await page.click('role=button[name="Next page"]');
  await until(async () => asked.at(-1).get('offset') === '50', 'the server pages');
  assert.ok(asked.every((params) => Number(params.get('limit')) <= 50), 'never everything at once');
  await page.click('role=button[name="Series"]');
  await until(async () => asked.at(-1).get('sort') === 'series' && asked.at(-1).get('offset') === '0', 'another order begins at the first page');
});

browserTest('a metric with a million series is not read unasked', async ({ open }) => {
  const page = await open();
  let queries = 0;
  const counts = [{ name: 'pod', value: 1_000_000 }];
  await answer(page, 'api/v1/status/tsdb', {
    headStats: { numSeries: 1_000_000, numLabelPairs: 1_000_000, minTime: 0, maxTime: 0 },
    seriesCountByMetricName: [],
    labelValueCountByLabelName: counts,
    memoryInBytesByLabelName: [],
    seriesCountByLabelValuePair: [],
  });
  await page.route('**/api/v1/query*', (request) => {
    queries += 1;
    return request.fulfill({ json: { status: 'success', data: { resultType: 'vector', result: [] } } });
  });
  await page.goto(page.url().replace(/#.*$/, '') + '#/explore?metric=huge');
  await page.waitForSelector('text=This reads 1');
  assert.equal(queries, 0);
  await page.locator('role=button[name="Read them"]').last().click();
  await until(async () => queries === 1, 'it is asked on demand');
});

browserTest('Explore at 400 px', async ({ server, open }) => {
  await server.send(samples('narrow_total', 'some_long_label="a value that is quite long, too"', (i) => i));
  const page = await open('#/explore?search=narrow', { viewport: { width: 400, height: 800 } });
  const sideways = () => page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  await rows(page, 'Metrics').first().waitFor();
  assert.ok((await sideways()) <= 0, 'the list');
  await page.click('text=narrow_total');
  await page.waitForSelector('.sparkline path');
  await page.click('role=button[name="some_long_label"]');
  await rows(page, 'Values of some_long_label').first().waitFor();
  assert.ok((await sideways()) <= 0, 'the metric');
});
