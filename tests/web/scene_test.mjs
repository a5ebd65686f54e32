/* The timeline's pictures: WebGL2 and Canvas2D draw the same scene, which is what SQL says of the same events; a lost context comes back. */
import assert from 'node:assert/strict';
import {after, before, test} from 'node:test';
import {Grid, assertClean, began, debug, goTo, openPage, RANGE_S, rangeHash, seed, settle, shoot, startBrowser, waitFor} from './harness.mjs';

const LANES = [{kind: 'lifelines', ids: 'id'}, {kind: 'points', event: '*', where: "level <= 'warning'"}];
const TABLES = ['job_submit', 'job_schedule', 'job_start', 'job_end'];
const hashOf = renderer => `#/timeline?${rangeHash}&theme=dark&o=${encodeURIComponent(JSON.stringify({renderer, lanes: LANES}))}`;

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

/* The same counts, of SQL. */
function counted()
{
    const within = `time >= ${began}000000000 AND time < ${began + RANGE_S}000000000`;
    const all = TABLES.map(t => `SELECT id, level FROM ${t} WHERE ${within}`).join(' UNION ALL ');
    const [{lifelines, vertices}] = grid.sql(`SELECT count(DISTINCT id) AS lifelines, count(*) AS vertices FROM (${all})`);
    const [{failed}] = grid.sql(`SELECT count(DISTINCT id) AS failed FROM (${all}) WHERE level = 'error'`);
    const bad = levels => ['job_end', 'tcp_retransmit'].map(t => `(SELECT count(*) FROM ${t} WHERE ${within} AND level IN (${levels}))`).join(' + ');
    const [{points, wrong}] = grid.sql(`SELECT ${bad("'error', 'warning'")} AS points, ${bad("'error'")} AS wrong`);
    return {lifelines, vertices, errors: failed + wrong, points}; /* an error is one in its lifeline and one as a point */
}

async function sceneOf(page, renderer)
{
    await goTo(page, hashOf(renderer));
    const want = counted();
    const scene = await waitFor(async () => {
        await settle(page);
        const s = (await debug(page)).scene;
        return s?.lifelines === want.lifelines && s.points === want.points && s.lanes.every(l => l.progress?.done === l.progress?.all) && s;
    }, 'all lifelines in the scene', 20000).catch(async e => { throw new Error(`${e.message}: ${JSON.stringify((await debug(page)).scene).slice(0, 1500)} instead of ${JSON.stringify(want)}`); });
    return {scene, want};
}

/* How much is drawn in each of the cells of a coarse grid, 0 to 1. */
async function inkOf(page, png)
{
    return page.evaluate(async data => {
        const image = await createImageBitmap(await new Response(Uint8Array.from(atob(data), c => c.charCodeAt(0))).blob());
        const canvas = new OffscreenCanvas(image.width, image.height), c = canvas.getContext('2d');
        c.drawImage(image, 0, 0);
        const {data: p} = c.getImageData(0, 0, image.width, image.height);
        const W = 48, H = 24, cells = new Array(W * H).fill(0), n = new Array(W * H).fill(0);
        for (let y = 0; y < image.height; y++) {
            for (let x = 0; x < image.width; x++) {
                const i = 4 * (y * image.width + x), k = Math.floor(y * H / image.height) * W + Math.floor(x * W / image.width);
                cells[k] += Math.max(p[i], p[i + 1], p[i + 2]) > 70;
                n[k]++;
            }
        }
        return cells.map((v, k) => v / n[k]);
    }, png.toString('base64'));
}

test('both renderers draw what SQL counts', async () => {
    const page = await openPage(browser, grid), pictures = {};
    assert.equal((await sceneOf(page, 'auto')).scene.renderer, 'flat', 'this browser has no GPU: WebGL would be slower');
    for (const name of ['webgl', 'flat']) {
        const {scene, want} = await sceneOf(page, name);
        assert.equal(scene.renderer, name);
        assert.deepEqual({lifelines: scene.lifelines, vertices: scene.vertices, errors: scene.errors, points: scene.points}, want);
        await shoot(page, `scene-${name}`);
        pictures[name] = {scene, ink: await inkOf(page, await page.locator('.tl-plot').screenshot())};
    }
    assert.deepEqual(pictures.webgl.scene.drawn, pictures.flat.scene.drawn, 'what is drawn, layer by layer');
    const a = pictures.webgl.ink, b = pictures.flat.ink;
    assert.ok(a.filter(v => v > 0.02).length > 50, 'there is next to nothing in the picture');
    const mean = a.reduce((sum, v, i) => sum + Math.abs(v - b[i]), 0) / a.length, worst = Math.max(...a.map((v, i) => Math.abs(v - b[i])));
    assert.ok(mean < 0.02 && worst < 0.4, `the pictures differ by ${mean.toFixed(4)} on the average, at most by ${worst.toFixed(3)}`);
    await assertClean(page, 'scene');
    await page.context().close();
});

test('a lost context: drawn flat or again, never empty; and back', async () => {
    const page = await openPage(browser, grid);
    const {want} = await sceneOf(page, 'webgl');
    await page.evaluate(() => {
        for (const canvas of document.querySelectorAll('.tl-plot canvas')) {
            const gl = canvas.classList.contains('tl-front') || canvas.hidden ? null : canvas.getContext('webgl2');
            if (gl)
                window.__lose = gl.getExtension('WEBGL_lose_context');
        }
        window.__lose.loseContext();
    });
    await waitFor(async () => ((await debug(page)).scene.losses ?? 1) >= 1 || (await debug(page)).renderer === 'flat', 'the loss to be seen');
    await page.evaluate(() => { try { window.__lose.restoreContext(); } catch { /* the canvas was given up */ } });
    await page.keyboard.press('w');
    await page.keyboard.press('s');
    await settle(page);
    const ink = await waitFor(async () => {
        const cells = await inkOf(page, await page.locator('.tl-plot').screenshot());
        return cells.filter(v => v > 0.02).length > 50 && cells;
    }, 'a picture after the loss', 20000);
    assert.ok(ink);
    assert.equal((await debug(page)).scene.lifelines, want.lifelines);
    await shoot(page, 'scene-after-loss');
    await assertClean(page, 'context loss');
    await page.context().close();
});

test('what is under the pointer: its name and exact times', async () => {
    const page = await openPage(browser, grid);
    await sceneOf(page, 'auto');
    const box = await page.locator('.tl-front').boundingBox();
    const found = await waitFor(() => page.evaluate(({w, h}) => {
        for (let y = 5; y < h; y += 4) {
            for (let x = 5; x < w; x += 9) {
                const hit = window.__gridline.hit(x, y);
                if (hit?.id)
                    return {x, y, id: hit.id};
            }
        }
        return null;
    }, {w: box.width, h: Math.min(box.height, 260)}), 'a lifeline under the pointer', 15000);
    await page.mouse.move(box.x + found.x, box.y + found.y);
    await page.mouse.click(box.x + found.x, box.y + found.y);
    await page.getByText(found.id).first().waitFor();
    const hops = grid.sql(TABLES.map(t => `SELECT time FROM ${t} WHERE id = '${found.id}'`).join(' UNION ALL '));
    assert.equal(hops.length, 4);
    await shoot(page, 'timeline-lifeline');
    await assertClean(page, 'hover');
    await page.context().close();
});
