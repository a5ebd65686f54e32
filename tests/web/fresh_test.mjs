/* A grid that has only just begun, where most tables are not there yet: no page asks for what is refused, which the console would call an error. */
import assert from 'node:assert/strict';
import {after, before, test} from 'node:test';
import {Grid, PAGES, assertClean, debug, goTo, openPage, startBrowser} from './harness.mjs';

let browser;
before(async () => { browser = await startBrowser(); });
after(async () => { await browser?.close(); });

async function look(page, name, range)
{
    await goTo(page, `#/${name}?${range}`);
    await assertClean(page, name);
    assert.deepEqual((await debug(page)).failed, [], `${name}: what could not be asked`);
}

async function visit(t, grid)
{
    try {
        const page = await openPage(browser, grid, {isStrict: true});
        for (const name of PAGES) {
            await t.test(`${name}, live`, async () => {
                await look(page, name, 'last=5m');
            });
        }
        for (const name of PAGES) {
            await t.test(`${name}, history`, async () => {
                const at = s => new Date(Date.now() - s * 1000).toISOString();
                await look(page, name, `from=${at(7200)}&to=${at(3600)}`);
            });
        }
        await page.context().close();
    } finally {
        await grid.stop();
    }
}

test('gridline run', async t => visit(t, await Grid.start()));
test('a gateway that nobody has sent anything', async t => visit(t, await Grid.startGateway()));
