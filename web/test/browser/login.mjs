// Signing in, with a server that asks for it.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { browserTest } from '../harness.mjs';

const token = 'a-token-of-the-tests-0123456789';
const webConfig = `icecore:
  tokens:
  - {name: tests, token_sha256: ${createHash('sha256').update(token).digest('hex')}, roles: [read]}
`;

async function signIn(page, text) {
  await page.click('role=tab[name="Token"]');
  await page.fill('dialog input', text);
  await page.click('dialog button[type=submit]');
}

browserTest(
  'a token is asked for, kept in the tab, and forgotten on request',
  async ({ open }) => {
    const page = await open('#/query?g0.expr=vector(5)&g0.tab=table');
    await page.waitForSelector('dialog.login');
    await signIn(page, 'not-the-token-of-the-tests');
    await page.waitForSelector('dialog.login >> text=not known');
    await signIn(page, token);
    // What was asked before is answered now.
    await page.waitForSelector('td.pinned');
    assert.equal(await page.textContent('td.pinned'), '5');
    assert.equal(await page.locator('dialog').count(), 0);

    await page.reload();
    await page.waitForSelector('td.pinned');
    await page.click('role=button[name="Sign out"]');
    await page.waitForSelector('dialog.login');
    await page.keyboard.press('Escape');
    await page.waitForSelector('.box.error');
    assert.match(await page.textContent('.box.error'), /credential is needed/);
  },
  { webConfig },
);
