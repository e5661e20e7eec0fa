// Storage: cardinality, buckets, retention, maintenance, and requests.
import assert from 'node:assert/strict';
import { browserTest, until } from '../harness.mjs';

const hour = 3600;
const now = () => Math.floor(Date.now() / 1000);
const rows = (page, label) => page.locator(`role=region[name="${label}"] >> tbody tr`);

/** Answers in the server's stead, for what a server of a few seconds does not have. */
const answer = (page, path, data) => page.route(`**/${path}*`, (request) => request.fulfill({ json: { status: 'success', data: typeof data === 'function' ? data() : data } }));

/** Opens the page with answers prepared. */
async function openWith(open, hash, answers, options) {
  const page = await open('', options);
  for (const [path, data] of Object.entries(answers)) await answer(page, path, data);
  await page.goto(page.url().replace(/#.*$/, '') + hash);
  return page;
}

const quiet = {
  enabled: true,
  paused: null,
  running: null,
  waiting: 0,
  waitingSeconds: null,
  lagSeconds: 0,
  buckets: [],
  retired: 0,
  dirty: 0,
  tombstones: 0,
  quarantined: [],
  overlapping: 0,
  skipped: [],
  levels: [],
  keptBackCount: 0,
  keptBack: [],
  lastError: null,
};

/** A year of buckets in three lanes. */
function manyBuckets() {
  const end = Math.floor(now() / hour) * hour;
  const lane = (resolution, hours, count) =>
    Array.from({ length: count }, (_, i) => ({ start: end - (count - i) * hours * hour, hours, resolution, state: 'live', series: 1000, samples: 1e6, bytes: 2e6 + i * 1e4 }));
  return { buckets: [...lane('raw', 16, 300), ...lane('5m', 32, 200), ...lane('1h', 128, 60)], head: { minTime: end, maxTime: end + hour, series: 10, samples: null, bytes: 1000 } };
}

browserTest('cardinality of a day beside the day before', async ({ server, open }) => {
  const at = (daysAgo) => Date.now() - daysAgo * 86_400_000;
  const pods = (ids, time) => ids.map((id) => `pods_running{pod="p${id}",zone="a"} 1 ${time}\n`).join('');
  await server.send(pods([1, 2, 3], at(1)));
  await server.send(pods([3, 4, 5, 6], at(0)));
  const page = await open('#/storage?match=pods_running');
  await until(async () => /New\s*3/.test(await page.textContent('[role=tabpanel] .stats')), 'three pods are new');
  const churn = await page.textContent('[role=tabpanel] .stats');
  assert.match(churn, /Series of the day\s*4/);
  assert.match(churn, /Day before\s*3/);
  assert.match(churn, /Gone\s*2/);
  const cells = await rows(page, 'Metrics').first().locator('td').allTextContents();
  assert.deepEqual([cells[0], cells[1], cells[3], cells[5]], ['pods_running', '4', '3', '3']);
  assert.match(cells[4], /\+1/);

  await page.click('role=button[name="Labels"]');
  await page.click('role=button[name="pod"]');
  await until(async () => page.url().includes('focus=pod'), 'the label is in the link');
  await page.waitForSelector('role=region[name="The label pod"]');
});

browserTest('buckets on a time line, by pointer, keys and as a table', async ({ open }) => {
  const page = await openWith(open, '#/storage?tab=buckets', { 'api/v1/status/buckets': manyBuckets });
  await page.waitForSelector('.timeline rect');
  assert.equal(await page.locator('.lane svg').count(), 3);
  assert.equal(await page.locator('.timeline rect').count(), 560);
  const box = await page.locator('.lane svg').nth(2).boundingBox();
  await page.mouse.move(box.x + box.width / 2, box.y + 40);
  await until(async () => /^1h, 128 h/.test(await page.textContent('.timeline-details')), 'the pointer shows a bucket');
  await page.focus('.timeline');
  const before = await page.textContent('.timeline-details');
  await page.keyboard.press('ArrowLeft');
  await until(async () => (await page.textContent('.timeline-details')) !== before, 'the arrow goes to the next');
  await page.keyboard.press('ArrowUp');
  await until(async () => /^5m/.test(await page.textContent('.timeline-details')), 'and to another lane');
  await page.click('summary');
  await until(async () => (await rows(page, 'Buckets').count()) >= 50, 'the table has rows');
  assert.match(await page.textContent('.stats'), /Bytes per sample\s*3/);
});

browserTest('a job with its progress, and a run on demand', async ({ open }) => {
  let done = 1000;
  const page = await openWith(open, '#/storage?tab=maintenance', {
    'api/v1/status/maintenance': () => ({
      ...quiet,
      running: {
        kind: 'coarsen',
        startMs: 1_700_006_400_000,
        endMs: 1_700_020_800_000,
        sources: 4,
        phase: 'samples',
        seriesDone: (done += 1000),
        seriesTotal: 100_000,
        bytesRead: 1,
        bytesWritten: 1,
        startedMs: Date.now() - 5000,
        remainingSeconds: 12.5,
      },
    }),
  });
  await page.waitForSelector('progress');
  const part = () => page.locator('progress').evaluate((element) => element.value);
  const before = await part();
  await until(async () => (await part()) > before, 'the progress is read again');
  assert.match(await page.textContent('.job'), /about 13 s left/);

  let runs = 0;
  page.on('request', (request) => (runs += request.method() === 'POST' && request.url().endsWith('maintenance/run') ? 1 : 0));
  await page.click('role=button[name="Run now"]');
  await page.waitForSelector('dialog[open]');
  await page.keyboard.press('Escape');
  await page.waitForSelector('dialog[open]', { state: 'detached' });
  assert.equal(runs, 0, 'nothing runs without a confirmation');
  await page.click('role=button[name="Run now"]');
  await page.click('dialog >> role=button[name="Run now"]');
  await until(async () => /read and .* written/.test(await page.textContent('.run-outcome')), 'the run says what it did');
  assert.equal(runs, 1);
});

browserTest('retention: what is kept, and what goes when', async ({ open }) => {
  const level = (resolution, retain, retainMs) => ({ resolution, retain, retainMs });
  const page = await openWith(open, '#/storage?tab=retention', {
    'api/v1/status/buckets': manyBuckets,
    'api/v1/status/retention': {
      policy: { lateData: 'reject', rollupDelay: '2h', levels: [level('raw', '21d', 21 * 86_400_000), level('5m', '400d', 400 * 86_400_000), level('1h', 'inf', null)], overrides: [] },
    },
  });
  await rows(page, 'Buckets in the order in which they go').first().waitFor();
  assert.match(await rows(page, 'Buckets in the order in which they go').first().textContent(), /now.*raw/);
  assert.match(await page.textContent('main'), /all series.*21d/s);
  assert.ok(!(await rows(page, 'Buckets in the order in which they go').allTextContents()).some((text) => text.includes('1h20')), 'what is kept for ever is not listed');
});

browserTest('without a policy nothing goes; requests have rates', async ({ open }) => {
  const page = await open('#/storage?tab=retention');
  await page.waitForSelector('text=There is no retention policy');
  await page.click('role=tab[name="Object store"]');
  await rows(page, 'Requests to the object store').first().waitFor();
  await until(async () => /^[\d.]+\/s$/.test((await page.locator('[role=tabpanel] .stat dd').first().innerText()).replace('?', '').trim()), 'two reads make a rate');
});

browserTest('Storage at 400 px', async ({ open }) => {
  const page = await openWith(open, '#/storage', { 'api/v1/status/buckets': manyBuckets }, { viewport: { width: 400, height: 800 } });
  for (const tab of ['Cardinality', 'Buckets', 'Retention', 'Maintenance', 'Object store']) {
    await page.click(`role=tab[name="${tab}"]`);
    await page.waitForSelector(`role=tab[name="${tab}"][selected]`);
    await until(async () => (await page.locator('[role=tabpanel] > *').count()) > 0 && (await page.locator('main .spinner').count()) === 0, `${tab} is shown`);
    assert.ok((await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)) <= 0, tab);
  }
  // What a number means opens above everything else, and Escape closes it.
  await page.click('role=button[name="What is “Bytes per sample”?"]');
  await page.waitForSelector('text=index included');
  await page.keyboard.press('Escape');
  await page.waitForSelector('text=index included', { state: 'hidden' });
});
