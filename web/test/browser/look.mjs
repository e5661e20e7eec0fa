// Themes, narrow windows, path prefixes, and memory.
import assert from 'node:assert/strict';
import { answered, browserTest, until } from '../harness.mjs';

const brightness = (page) =>
  page.evaluate(() => {
    const [r, g, b] = getComputedStyle(document.documentElement).backgroundColor.match(/[\d.]+/g).map(Number);
    return (r + g + b) / 3;
  });

browserTest('dark by the system, and by the switch', async ({ open }) => {
  const light = await open('#/query', { colorScheme: 'light' });
  await light.waitForSelector('.cm-content');
  assert.ok((await brightness(light)) > 200);
  await light.selectOption('select[aria-label="Theme"]', 'dark');
  await until(async () => (await brightness(light)) < 60, 'it is dark');
  await light.reload();
  await light.waitForSelector('.cm-content');
  assert.ok((await brightness(light)) < 60, 'the choice is kept');
  const dark = await open('#/query', { colorScheme: 'dark' });
  await dark.waitForSelector('.cm-content');
  assert.ok((await brightness(dark)) < 60);
});

browserTest('at 400 px nothing sticks out', async ({ open }) => {
  const page = await open('#/query?g0.expr=vector(1)&g0.tab=graph', { viewport: { width: 400, height: 800 } });
  await page.waitForSelector('.cm-content');
  await page.waitForSelector('.legend td');
  const sideways = () => page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  assert.ok((await sideways()) <= 0, 'the first page');
  for (const tab of ['Table', 'Heatmap', 'Explain', 'Graph']) {
    await answered(page, () => page.click(`role=tab[name="${tab}"]`));
    assert.ok((await sideways()) <= 0, tab);
  }
  assert.equal(await page.isVisible('nav'), false);
  await page.click('role=button[name="Menu"]');
  await page.waitForSelector('nav');
  assert.ok((await sideways()) <= 0, 'menu');
  await page.click('role=button[name="Menu"]');
  await page.click('role=button[name="Time range"]');
  assert.ok((await sideways()) <= 0, 'time range');
});

browserTest(
  'below a path prefix',
  async ({ open }) => {
    const page = await open('#/query?g0.expr=vector(3)&g0.tab=table');
    await page.waitForSelector('td.pinned');
    assert.equal(await page.textContent('td.pinned'), '3');
  },
  { prefix: '/some/where' },
);

browserTest('a refresh leaves nothing behind', async ({ server, open }) => {
  await server.send(Array.from({ length: 200 }, (_, i) => `refreshed{i="${i}"} ${i}\n`).join(''));
  const page = await open('#/query?g0.expr=refreshed&g0.tab=graph&g0.range_input=5m');
  await page.waitForSelector('.legend td');
  const session = await page.context().newCDPSession(page);
  const counts = async () => {
    await session.send('HeapProfiler.collectGarbage');
    const { nodes, jsEventListeners } = await session.send('Memory.getDOMCounters');
    const { usedSize } = await session.send('Runtime.getHeapUsage');
    return { nodes, jsEventListeners, usedSize };
  };
  const refresh = async (times) => {
    for (let i = 0; i < times; i++) await answered(page, () => page.click('role=button[name="Run"]'));
  };
  await refresh(5);
  const before = await counts();
  await refresh(40);
  // A collection may leave what the next one takes; what is held stays however often is collected.
  await until(async () => {
    const after = await counts();
    return after.nodes <= before.nodes * 1.1 + 50 && after.jsEventListeners <= before.jsEventListeners * 1.1 + 20 && after.usedSize <= before.usedSize * 1.3 + 2e6;
  }, `no more than ${JSON.stringify(before)}`);
});
