/* Every page, live and history, in both themes: it comes up, says no error, breaks no policy, and axe finds nothing. */
import assert from 'node:assert/strict';
import {after, before, test} from 'node:test';
import {Grid, PAGES, assertAccessible, assertClean, debug, goTo, openPage, rangeHash, seed, settle, shoot, startBrowser} from './harness.mjs';

let grid, browser;
before(async () => {
    grid = await Grid.start();
    await seed(grid);
    browser = await startBrowser();
});
after(async () => {
    await browser?.close();
    await grid?.stop();
});

for (const theme of ['dark', 'light']) {
    test(`pages, ${theme}`, async t => {
        const page = await openPage(browser, grid, {context: {colorScheme: theme}});
        for (const name of PAGES) {
            await t.test(`${name}, live`, async () => {
                await goTo(page, `#/${name}?last=5m&theme=${theme}`);
                const d = await debug(page);
                assert.equal(d.mode, 'live');
                assert.equal(d.theme, theme);
                assert.ok((await page.locator('main').innerText()).trim().length > 20, 'there is nothing to read');
                await shoot(page, `${name}-live-${theme}`);
                await assertAccessible(page, name);
                await assertClean(page, name);
            });
            await t.test(`${name}, history`, async () => {
                await goTo(page, `#/${name}?${rangeHash}&theme=${theme}`);
                assert.equal((await debug(page)).mode, 'paused');
                await shoot(page, `${name}-history-${theme}`);
                await assertClean(page, name);
            });
        }
        await page.context().close();
    });
}

test('320 pixels wide: nothing is cut off sideways', async t => {
    const page = await openPage(browser, grid, {context: {viewport: {width: 320, height: 640}}});
    for (const name of PAGES) {
        await t.test(name, async () => {
            await goTo(page, `#/${name}?${rangeHash}`);
            const [wide, seen] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
            await shoot(page, `${name}-320`);
            assert.ok(wide <= seen, `${wide} pixels wide`);
            await assertClean(page, name);
        });
    }
    await page.context().close();
});

test('forced colours and reduced motion', async t => {
    const page = await openPage(browser, grid, {context: {forcedColors: 'active', reducedMotion: 'reduce'}});
    for (const name of ['overview', 'timeline', 'map']) {
        await t.test(name, async () => {
            await goTo(page, `#/${name}?${rangeHash}`);
            assert.ok(await page.evaluate(() => document.documentElement.classList.contains('reduced')));
            const running = await page.evaluate(() => document.getAnimations().filter(a => a.playState === 'running' && a.effect?.getComputedTiming().duration > 50).length);
            assert.equal(running, 0, 'something moves');
            await shoot(page, `${name}-forced`);
            await assertClean(page, name);
        });
    }
    await page.context().close();
});

test('the address restores the view', async () => {
    const page = await openPage(browser, grid);
    const hash = `#/timeline?${rangeHash}&at=${new Date(Date.now() - 86400e3).toISOString().slice(0, 10)}T12:02:00Z&host=w1&theme=light`;
    await goTo(page, hash);
    await page.keyboard.press('w');
    await settle(page);
    const was = await debug(page), address = page.url();
    const other = await page.context().newPage();
    await other.goto(address);
    await other.waitForFunction(() => window.__gridline?.debug().page === 'timeline');
    await settle(other);
    const is = await debug(other);
    for (const name of ['page', 'mode', 'from', 'to', 'theme'])
        assert.equal(is[name], was[name], name);
    assert.ok(await other.getByText('host w1').count() > 0, 'the filter is not there');
    await page.context().close();
});
