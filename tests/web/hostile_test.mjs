/* Text of events that wants to be a program, in every field that takes text: nothing runs, all of it is shown as text. */
import assert from 'node:assert/strict';
import {rmSync, writeFileSync} from 'node:fs';
import {join} from 'node:path';
import {tmpdir} from 'node:os';
import {after, before, test} from 'node:test';
import {Grid, PAGES, assertClean, began, goTo, openPage, rangeHash, settle, shoot, startBrowser, waitFor} from './harness.mjs';

const CORPUS = ['<img src=x onerror=__xss(1)>', '"><script>__xss(2)</script>', '<svg/onload=__xss(3)>', "' onmouseover='__xss(4)' x='", 'javascript:__xss(5)', '${__xss(6)}', '{{constructor.constructor("__xss(7)")()}}',
                '</title></style></textarea><script>__xss(8)</script>', '<iframe srcdoc="<script>parent.__xss(9)</script>">', '<a href="javascript:__xss(10)">x</a>', '<math><mtext><table><mglyph><style><img src=x onerror=__xss(11)>',
                '<details open ontoggle=__xss(12)>', '\u202e<b>gnp.exe\u202c', '<base href="//127.0.0.1:9/">', '<meta http-equiv=refresh content="0;url=javascript:__xss(13)">', '%3Cimg%20src=x%20onerror=__xss(14)%3E', '&lt;img src=x onerror=__xss(15)&gt;', '<style>@import "javascript:__xss(16)"</style>'];

const rules = join(tmpdir(), `gl-web-rules-${process.pid}.conf`);
let grid, browser, taken = 0;

/* As many of these as the gateway takes: what it refuses can't be shown either. */
async function offer(events)
{
    const answer = await grid.api('/api/v1/events', {method: 'POST', body: events.map(e => JSON.stringify(e) + '\n').join(''), headers: {'Content-Type': 'application/x-ndjson'}});
    const said = await answer.json();
    taken += said.taken ?? 0;
    return said;
}

before(async () => {
    writeFileSync(rules, `rule hostile-${process.pid} { query = "SELECT host, note FROM bad_text_latest" key = {"host", "note"} summary = "<img src=x onerror=__xss(20)> {note}" }\n`);
    grid = await Grid.start('--guard-config', rules);
    const now = Date.now() / 1000;
    for (const base of [began + 100, now - 20]) {
        for (const [i, text] of CORPUS.entries()) {
            const time = base + i / 10;
            await offer([{time, name: 'bad.text', host: `h${i}`, prog: 'p', id: text, note: text, url: text, file: text, level: i % 2 ? 'error' : 'warning'},
                         {time: time + 0.05, name: 'bad.next', host: `g${i}`, prog: 'p', id: text, target: text, status: text}]);
            await offer([{time, name: 'bad.host', host: text, prog: 'p', id: 'x' + i}]);
            await offer([{time, name: 'bad.prog', host: 'h', prog: text, id: 'y' + i}]);
            await offer([{time, name: text, host: 'h', prog: 'p', id: 'z' + i}]);
            await offer([{time, name: 'bad.field', host: 'h', prog: 'p', id: 'f' + i, [text]: text}]);
        }
    }
    await waitFor(() => {
        try {
            return grid.sql('SELECT count(*) AS n FROM bad_text')[0].n === 2 * CORPUS.length;
        } catch {
            return false;
        }
    }, 'the texts in the archive');
    browser = await startBrowser();
});
after(async () => {
    await browser?.close();
    await grid?.stop();
    rmSync(rules, {force: true});
});

const MARKUP = 'img, iframe, object, embed, base, main script, main style, meta[http-equiv=refresh], [onerror], [onload], [onmouseover], [ontoggle], [srcdoc], a[href^="javascript:" i], form[action^="javascript:" i]';

async function assertHarmless(page, what)
{
    assert.equal(await page.evaluate(() => window.__ran ?? 0), 0, `${what}: something ran`);
    assert.equal(await page.evaluate(m => document.querySelectorAll(m).length, MARKUP), 0, `${what}: text became markup`);
    await assertClean(page, what);
}

test('nothing runs, everything is text', async t => {
    assert.ok(taken >= 4 * CORPUS.length, `${taken} events were taken`);
    const page = await openPage(browser, grid, {context: {}});
    await page.context().addInitScript(() => { window.__xss = () => { window.__ran = (window.__ran ?? 0) + 1; }; });
    await page.reload();
    await page.waitForFunction(() => window.__gridline?.debug().signedIn === 'in');
    for (const name of PAGES) {
        for (const when of name === 'timeline' ? [rangeHash, 'last=5m'] : ['last=5m']) {
            await t.test(`${name}, ${when.slice(0, 4)}`, async () => {
                await goTo(page, `#/${name}?${when}`);
                await page.mouse.move(700, 260);
                await assertHarmless(page, name);
                await page.keyboard.press('t');
                await settle(page);
                await assertHarmless(page, name + ' as tables');
                await page.keyboard.press('t');
                await shoot(page, `hostile-${name}`);
            });
        }
    }
    await t.test('a row of SQL, as it is', async () => {
        await goTo(page, `#/sql?${rangeHash}`);
        await page.locator('main textarea').first().fill('SELECT id, note, url, file FROM bad_text ORDER BY time');
        await page.keyboard.press('Control+Enter');
        for (const text of [CORPUS[0], CORPUS[1]])
            await page.locator('main').getByText(text, {exact: true}).first().waitFor();
        await shoot(page, 'hostile-sql-rows');
        await assertHarmless(page, 'rows of SQL');
    });
    await t.test('a fault, as it is', async () => {
        await goTo(page, '#/faults?last=5m');
        await page.locator('main').getByText(`<img src=x onerror=__xss(20)> ${CORPUS[0]}`, {exact: true}).first().waitFor();
        await assertHarmless(page, 'faults');
    });
    await t.test('in the address', async () => {
        for (const text of CORPUS.slice(0, 6)) {
            await goTo(page, `#/timeline?${rangeHash}&host=${encodeURIComponent(text)}&event=${encodeURIComponent(text)}&where=${encodeURIComponent(text)}&o=${encodeURIComponent(JSON.stringify({lanes: [{kind: 'points', event: text}], ids: text}))}`);
            await assertHarmless(page, 'the address');
        }
    });
    await page.context().close();
});
