/* What goes wrong between page and gateway: a gateway that is gone and comes back, one that is slow, tiles that are damaged, errors.
 * The page says so, keeps what it has, and goes on by itself. */
import assert from 'node:assert/strict';
import {after, before, test} from 'node:test';
import {Grid, assertClean, debug, freePort, goTo, openPage, rangeHash, seed, shoot, startBrowser, waitFor} from './harness.mjs';

let grid, browser;
before(async () => {
    grid = await Grid.startAt(await freePort()); /* it comes back where it was */
    await seed(grid);
    browser = await startBrowser();
});
after(async () => {
    await browser?.close();
    await grid?.stop();
});

const TILES = '**/api/v1/tile/**';
const timeline = `#/timeline?${rangeHash}&o=${encodeURIComponent(JSON.stringify({lanes: [{kind: 'lifelines', ids: 'id'}]}))}`;
const lane = async page => (await debug(page)).scene?.lanes?.[0];
const hasAll = async page => { const l = await lane(page); return l?.progress && l.progress.done === l.progress.all && !l.progress.error && (await debug(page)).scene.lifelines > 300; };

test('a damaged tile is told, and asked for again', async () => {
    const page = await openPage(browser, grid);
    let damaged = 0;
    await page.route(TILES, async route => {
        const answer = await route.fetch(), body = await answer.body();
        damaged++;
        if (body.length > 80)
            body[body.length - 3] ^= 0x40;
        await route.fulfill({response: answer, body});
    });
    await goTo(page, timeline);
    const error = await waitFor(async () => (await lane(page))?.progress?.error, 'the damage to be seen');
    assert.match(error, /CRC|damaged|checksum/i);
    assert.ok(damaged > 0);
    await shoot(page, 'trouble-damaged');
    await page.unroute(TILES);
    await waitFor(() => hasAll(page), 'the lifelines, when tiles are whole again');
    await assertClean(page, 'damaged tiles');
    await page.context().close();
});

test('errors of the gateway are told, and end', async () => {
    const page = await openPage(browser, grid);
    await page.route(TILES, route => route.fulfill({status: 500, contentType: 'application/problem+json', body: JSON.stringify({status: 500, title: 'broken', detail: 'a disk has failed'})}));
    await goTo(page, timeline);
    const error = await waitFor(async () => (await lane(page))?.progress?.error, 'the error');
    assert.match(error, /a disk has failed|broken|500/);
    await page.unroute(TILES);
    await waitFor(() => hasAll(page), 'the lifelines, when the gateway is well again');
    await assertClean(page, 'errors');
    await page.context().close();
});

test('a slow gateway: the page works meanwhile, what is not needed any more is not waited for', async () => {
    const page = await openPage(browser, grid);
    let asked = 0, cut = 0;
    await page.route(TILES, async route => {
        asked++;
        await new Promise(r => setTimeout(r, 1500));
        await route.continue().catch(() => { cut++; });
    });
    page.on('requestfailed', r => { cut += r.url().includes('/tile/') ? 1 : 0; });
    await page.evaluate(h => { location.hash = h; }, timeline);
    await waitFor(() => asked > 0, 'a tile to be asked for');
    await page.evaluate(() => { location.hash = '#/sql'; });
    await page.waitForFunction(() => window.__gridline.debug().page === 'sql');
    await waitFor(() => cut > 0, 'what is not needed any more to be cancelled');
    await goTo(page, timeline);
    await waitFor(() => hasAll(page), 'the lifelines in the end');
    await assertClean(page, 'slow');
    await page.context().close();
});

test('the network is cut and comes back: the page says so and goes on', async () => {
    const page = await openPage(browser, grid);
    await goTo(page, '#/overview?last=5m');
    assert.equal((await debug(page)).connection, 'ok');
    await page.context().setOffline(true);
    await page.waitForFunction(() => window.__gridline.debug().connection !== 'ok');
    await waitFor(async () => /reconnecting|lost|not answer/i.test(await page.locator('header.top').innerText()), 'the page to say that the gateway is away');
    await shoot(page, 'trouble-away');
    await page.context().setOffline(false);
    await page.waitForFunction(() => window.__gridline.debug().connection === 'ok', null, {timeout: 90000});
    await goTo(page, timeline);
    await waitFor(() => hasAll(page), 'the lifelines');
    await assertClean(page, 'the network');
    await page.context().close();
});

/* A session ends with its gateway (docs/http.md): the page asks to sign in again, and is then where it was. */
test('the gateway is killed and starts again', async () => {
    const page = await openPage(browser, grid);
    await goTo(page, timeline);
    await waitFor(() => hasAll(page), 'the lifelines');
    const address = grid.http;
    await grid.halt();
    await page.waitForFunction(() => window.__gridline.debug().connection !== 'ok');
    await grid.run(grid.args, grid.port);
    assert.equal(grid.http, address, 'it is where it was');
    await page.goto(grid.signInAddress());
    await page.reload();
    await page.waitForFunction(() => window.__gridline?.debug().signedIn === 'in' && window.__gridline.debug().connection === 'ok', null, {timeout: 90000});
    await goTo(page, timeline);
    await waitFor(() => hasAll(page), 'the lifelines, of the archive');
    await shoot(page, 'trouble-back');
    await assertClean(page, 'a new gateway');
    await page.context().close();
});
