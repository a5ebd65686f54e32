/* The twelve commonest tasks, by keyboard alone (docs/viewer.md has the list). The mouse is never used here. */
import assert from 'node:assert/strict';
import {after, before, test} from 'node:test';
import {Grid, PAGES, assertClean, began, debug, goTo, iso, openPage, rangeHash, seed, settle, startBrowser, waitFor} from './harness.mjs';

let grid, browser, page;
before(async () => {
    grid = await Grid.start();
    await seed(grid);
    browser = await startBrowser();
    page = await openPage(browser, grid);
});
after(async () => {
    await browser?.close();
    await grid?.stop();
});

const press = async (...keys) => { for (const k of keys) await page.keyboard.press(k); };
const state = () => debug(page);
const until = (condition, what) => waitFor(async () => condition(await state()), what, 20000);
const text = () => page.locator('body').innerText();
const at = hash => goTo(page, hash);

test('1: to every page', async () => {
    await press('?');
    const help = await page.locator('dialog[open]').innerText();
    await press('Escape');
    const keyOf = Object.fromEntries(PAGES.map(id => [id, new RegExp(`(\\d)\\s*${id}|${id}\\s*(\\d)`, 'i').exec(help)]).map(([id, m]) => [id, m?.[1] ?? m?.[2]]));
    for (const id of PAGES) {
        assert.ok(keyOf[id], `the help has no key for ${id}`);
        await press(keyOf[id]);
        await until(s => s.page === id, id);
    }
});

test('2: pause, and live again', async () => {
    await at('#/overview?last=5m');
    await press('Space');
    await until(s => s.mode === 'paused', 'paused');
    await press('l');
    await until(s => s.mode === 'live', 'live');
});

test('3: zoom in and out', async () => {
    await at(`#/timeline?${rangeHash}`);
    const was = await state();
    await press('w');
    await until(s => Math.abs((s.to - s.from) * 2 - (was.to - was.from)) < 1000, 'half as wide');
    await press('s');
    await until(s => Math.abs(s.to - s.from - (was.to - was.from)) < 1000, 'as wide as before');
});

test('4: earlier and later', async () => {
    await at(`#/timeline?${rangeHash}`);
    const was = await state();
    await press('a');
    await until(s => s.from < was.from && Math.abs(s.to - s.from - (was.to - was.from)) < 1000, 'earlier');
    await press('d');
    await until(s => Math.abs(s.from - was.from) < 1000, 'where it was');
});

test('5: to a time', async () => {
    await at(`#/timeline?${rangeHash}`);
    await press('g');
    await page.locator('dialog[open]').waitFor();
    await press('Control+a');
    await page.keyboard.type(iso(began + 160));
    await press('Enter');
    await until(s => s.from < (began + 160) * 1e6 && s.to > (began + 160) * 1e6 && Math.abs((s.from + s.to) / 2 - (began + 160) * 1e6) < 2e6, 'around that time');
});

test('6: play what was, and stop', async () => {
    await at(`#/timeline?${rangeHash}`);
    await press('p');
    await until(s => s.mode === 'play', 'playing');
    await press('Space');
    await until(s => s.mode === 'paused', 'paused');
});

test('7: the next error, and its details', async () => {
    await at(`#/timeline?${rangeHash}`);
    const errors = grid.sql("SELECT time FROM job_end WHERE level = 'error' UNION ALL SELECT time FROM tcp_retransmit WHERE level = 'error'").map(r => Number(r.time) / 1e6);
    for (let i = 0; i < 2; i++) {
        const was = page.url();
        await press('e');
        await waitFor(() => page.url() !== was && page.url().includes('at='), 'the cursor at an error', 20000);
        const cursor = Date.parse(/at=([^&]+)/.exec(page.url())[1].replace(/(\.\d{3})\d*/, '$1'));
        assert.ok(errors.some(t => Math.abs(t - cursor) <= 2), `${page.url()} is at no error`);
    }
    await press('Shift+E');
});

test('8: a lifeline: its hops and their times', async () => {
    await at(`#/timeline?${rangeHash}`);
    await press('e');
    await waitFor(() => page.url().includes('at='), 'the cursor', 20000);
    await page.locator('.tl-front').focus();
    await press('Enter');
    await waitFor(async () => /job-\d{5}/.test(await text()) && /job\.schedule/.test(await page.locator('aside, .drawer').first().innerText()), 'hops of the lifeline at the cursor', 20000);
});

test('9: a picture as a table', async () => {
    await at(`#/timeline?${rangeHash}`);
    const before = await page.locator('main table, main [role=table], main [role=grid]').count();
    await press('t');
    await waitFor(async () => await page.locator('main table, main [role=table], main [role=grid]').count() > before, 'a table', 20000);
    await press('t');
});

test('10: search and commands', async () => {
    await at('#/overview?last=5m');
    await press('/');
    await page.locator('dialog[open] input, [role=dialog] input, [role=combobox]').first().waitFor();
    await page.keyboard.type('system');
    await settle(page);
    await press('Enter');
    await until(s => s.page === 'system', 'the page that was looked for');
});

test('11: a query, and its rows', async () => {
    await at(`#/sql?${rangeHash}`);
    const editor = page.locator('main textarea').first();
    for (let i = 0; i < 60 && !await editor.evaluate(e => e === document.activeElement); i++)
        await press('Tab');
    assert.ok(await editor.evaluate(e => e === document.activeElement), 'the editor is reached by Tab');
    await press('Control+a');
    await page.keyboard.type('SELECT count(*) AS jobs_ended FROM job_end');
    await press('Control+Enter');
    await waitFor(async () => /jobs_ended/.test(await page.locator('main').innerText()) && /\b400\b/.test(await page.locator('main').innerText()), 'the row', 20000);
});

test('12: find a sensor', async () => {
    await at('#/sensors?last=5m');
    const filter = page.locator('main input[type=search], main input[type=text], main input:not([type])').first();
    await filter.waitFor();
    for (let i = 0; i < 60 && !await filter.evaluate(e => e === document.activeElement); i++)
        await press('Tab');
    assert.ok(await filter.evaluate(e => e === document.activeElement), 'the filter is reached by Tab');
    await page.keyboard.type('memory');
    await waitFor(async () => /memory/.test(await page.locator('main').innerText()), 'the sensor', 20000);
});

test('all of it without an error', () => assertClean(page, 'keyboard'));
