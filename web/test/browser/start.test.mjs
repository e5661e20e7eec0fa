import assert from 'node:assert/strict';
import { browserTest, until } from '../harness.mjs';

const hostile = '<img src=x onerror=alert(1)>';

browserTest('lines to copy have the address of the page', async ({ ui, open }) => {
  const page = await open('#/start?way=remote-write');
  await page.waitForSelector('pre');
  const root = ui.replace(/ui\/$/, '');
  assert.match(await page.textContent('pre'), new RegExp(`url: ${root}api/v1/write`));
  for (const [way, part] of [
    ['OTLP, HTTP', `${root}v1/metrics`],
    ['OTLP, gRPC', 'PROTOCOL=grpc'],
    ['Scrape', 'scrape_configs'],
    ['OpenTSDB', `${root}opentsdb/api/put`],
    ['Events', `${root}events/publish`],
  ]) {
    await page.click(`role=tab[name="${way}"]`);
    await until(async () => (await page.locator('.start').innerText()).includes(part), `${way} shows ${part}`);
  }
});

browserTest('the first sample is noticed, and leads to a query', async ({ server, open }) => {
  let empty = true;
  const page = await open('#/status');
  // The server scrapes itself within seconds, so that the time before is played.
  const asked = /api\/v1\/(status\/features|label\/__name__\/values)/;
  await page.route(asked, async (route) => {
    if (!empty) return route.continue();
    const features = { data: false, scrape: true, opentsdb: false, events: false, sql: true };
    await route.fulfill({ json: { status: 'success', data: route.request().url().includes('features') ? features : [] } });
  });
  await page.evaluate(() => (location.hash = '#/start'));
  await page.waitForSelector('text=No data yet.');
  await server.send(`room_temperature_celsius{room="kitchen"} 21.5\nfrom_somewhere{job="${hostile}"} 1\n`);
  empty = false;
  await page.waitForSelector('text=The first samples have arrived.');
  await page.waitForSelector(`.arrival >> text=${hostile}`);
  assert.equal(await page.locator('main img').count(), 0);
  await page.click('text="room_temperature_celsius"');
  await until(() => page.url().includes('#/query?g0.expr=room_temperature_celsius'), 'the query page opens');
});
