// Screenshots for looking at: every URL in light and dark, wide and narrow.
//
//   node scripts/shot.mjs NAME URL [--wait SELECTOR] [--click SELECTOR]… [--full]   → shots/NAME-{light,dark}-{1280,400}.png
import { mkdirSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { chromium } from 'playwright-core';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    wait: { type: 'string' },
    click: { type: 'string', multiple: true, default: [] },
    full: { type: 'boolean', default: false },
    delay: { type: 'string', default: '300' },
  },
});
const [name, url] = positionals;
mkdirSync('shots', { recursive: true });
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox'] });
for (const colorScheme of ['light', 'dark']) {
  for (const width of [1280, 400]) {
    const page = await browser.newPage({ colorScheme, viewport: { width, height: 800 } });
    page.on('console', (message) => message.type() === 'error' && console.log(`${colorScheme} ${width}: ${message.text()}`));
    page.on('pageerror', (error) => console.log(`${colorScheme} ${width}: ${error}`));
    await page.goto(url);
    if (values.wait) await page.waitForSelector(values.wait, { timeout: 10_000 }).catch((error) => console.log(String(error)));
    for (const selector of values.click) await page.click(selector, { timeout: 3000 }).catch((error) => console.log(String(error)));
    await page.waitForTimeout(Number(values.delay));
    const sideways = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    if (sideways > 0) console.log(`${colorScheme} ${width}: the page scrolls sideways by ${sideways} px`);
    await page.screenshot({ path: `shots/${name}-${colorScheme}-${width}.png`, fullPage: values.full });
    await page.close();
  }
}
await browser.close();
