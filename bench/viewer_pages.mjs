/* viewer_pages.mjs - the parts of bench/viewer that need a browser: node bench/viewer_pages.mjs BUILD PART [ARG]
 *
 * Headless Chromium as it runs by itself where there is no GPU, for all parts: windows are put together by the CPU, WebGL2 is there by SwiftShader (which
 * later versions have only when they are told). GRIDLINE_BENCH_GPU=swiftshader: as the tests start it, a GPU played by SwiftShader for everything, which no browser
 * does unless it is told. Prints a line of JSON a figure: {"name", "value"}, or {"name", "reason"}, or {"note"}. */
import {spawn} from 'node:child_process';
import {readFileSync} from 'node:fs';
import {resolve} from 'node:path';

process.env.GRIDLINE_BUILD_DIR = resolve(process.argv[2]);
const {Grid, build, debug, freePort, makeEvents, openPage, seed, settle, startBrowser} = await import('../tests/web/harness.mjs');
const {tile} = await import('../tests/web/unit/tile_maker.mjs');

const say = o => console.log(JSON.stringify(o));
const mean = list => list.reduce((a, v) => a + v, 0) / list.length;
const median = list => [...list].sort((a, b) => a - b)[list.length >> 1];
const percentile = (list, p) => [...list].sort((a, b) => a - b)[Math.min(list.length - 1, Math.floor(p * list.length))];

/* Seconds of CPU that Chromium's pages and its GPU process have had: true on a busy machine, too. */
async function browserCpu(browser)
{
    const session = await browser.newBrowserCDPSession();
    const {processInfo} = await session.send('SystemInfo.getProcessInfo');
    await session.detach();
    return processInfo.filter(p => p.type === 'renderer' || p.type === 'GPU').reduce((sum, p) => sum + p.cpuTime, 0);
}

/* ms of CPU of the page's own thread in each of the calls: all there is where the page draws by itself, but not what the GPU process does. */
async function threadMs(page, calls)
{
    const session = await page.context().newCDPSession(page), out = [];
    await session.send('Performance.enable', {timeDomain: 'threadTicks'});
    const now = async () => 1000 * (await session.send('Performance.getMetrics')).metrics.find(m => m.name === 'ThreadTime').value;
    for (const call of calls) {
        const began = await now();
        await call();
        out.push(await now() - began);
    }
    await session.detach();
    return out;
}

/* ---- drawing: tiles with every event, as GLT1 bytes ---- */

const LEVEL = 12, SPAN_NS = 1n << BigInt(2 * LEVEL + 8), FIRST = 417862000;

function randomOf(seed)
{
    let x = seed;
    return () => ((x = Math.imul(x ^ (x >>> 15), 0x2c1b3c6d) + 0x9e3779b9 | 0) >>> 0) / 4294967296;
}

/* n lifelines of five events within one tile. */
function lifelineTile(n, index)
{
    const random = randomOf(index), quarter = 2 ** 30, t = new Array(5 * n), ids = new Array(n), severity = new Array(n);
    for (let i = 0; i < n; i++) {
        let at = quarter * (1 + 0.9 * random());
        for (let k = 0; k < 5; k++, at += quarter * 0.004 * (0.2 + random()))
            t[5 * i + k] = Math.floor(at);
        ids[i] = `t-${index}-${i}`;
        severity[i] = i % 1000 ? 11 : 3;
    }
    const names = ['transfer.start', 'transfer.open', 'transfer.block', 'transfer.close', 'transfer.end'];
    return tile({kind: 3, level: LEVEL, index, baseNs: SPAN_NS * BigInt(index - 1), spanNs: SPAN_NS * 4n, columns: [
        [10, 1, 0, severity], [11, 7, 0, ids], [12, 7, 3, names], [13, 7, 4, ['a', 'b', 'c']], [14, 3, 5, [5]], [15, 2, 6, [0, 1, 2, 3, 4]],
        [16, 3, 0, new Array(n).fill(0)], [17, 3, 7, t], [18, 2, 7, t.map((_, i) => i % 3)]]});
}

function pointsTile(n, index)
{
    const random = randomOf(index), t = Array.from({length: n}, () => Math.floor(2 ** 32 * random())).sort((a, b) => a - b);
    return tile({kind: 2, level: LEVEL, index, baseNs: SPAN_NS * BigInt(index), spanNs: SPAN_NS, columns: [
        [1, 4, 1, [0n]], [2, 7, 2, Array.from({length: 8}, (_, i) => `node${i} mover transfer.end`)], [3, 2, 0, t.map((_, i) => i % 8)], [4, 3, 0, t],
        [9, 3, 0, new Array(n).fill(1)], [10, 1, 0, t.map((_, i) => i % 50 ? 11 : 3)], [11, 7, 0, t.map((_, i) => `p${i}`)]]});
}

async function draw(browser, grid)
{
    const bytes = {life: Array.from({length: 40}, (_, i) => lifelineTile(5000, FIRST + i)), points: Array.from({length: 40}, (_, i) => pointsTile(5000, FIRST + i))};
    const page = await openPage(browser, grid, {context: {viewport: {width: 1920, height: 1000}}});
    await page.route('**/bench-tiles/**', route => {
        const [, kind, i] = /bench-tiles\/(\w+)\/(\d+)/.exec(route.request().url());
        return route.fulfill({body: Buffer.from(bytes[kind][i]), contentType: 'application/octet-stream'});
    });
    const widthUs = Number(SPAN_NS) / 1000, from = FIRST * widthUs, to = (FIRST + 40) * widthUs;
    const hash = `#/timeline?from=${new Date(from / 1000).toISOString()}&to=${new Date(to / 1000).toISOString()}`;
    const run = async (kind, spec, rounds, renderer = 'auto') => {
        await page.goto('about:blank'); /* what the address asks for is looked at when the page is loaded */
        await page.goto(`${grid.http}/?bench=1${hash}&o=${encodeURIComponent(JSON.stringify({renderer}))}`);
        await page.waitForFunction(() => window.__gridline?.bench);
        await settle(page);
        const first = await page.evaluate(async ({kind, spec, from, to}) => {
            const tiles = await Promise.all(Array.from({length: 40}, async (_, i) => (await fetch(`/bench-tiles/${kind}/${i}`)).arrayBuffer()));
            const b = window.__gridline.bench;
            b.stage.lanes = [];
            b.stage.frozen = {from, to};
            return b.feed(tiles, spec);
        }, {kind, spec, from, to});
        const ranges = Array.from({length: rounds}, (_, i) => {
            const zoom = [1, 0.5, 0.25, 0.1][i % 4], width = (to - from) * zoom, at = from + (to - from - width) * ((i * 7) % 10) / 10;
            return [at, at + width];
        });
        const began = await browserCpu(browser);
        const drawn = await page.evaluate(async ranges => {
            const b = window.__gridline.bench, redraws = [];
            for (const [start, end] of ranges) {
                await new Promise(requestAnimationFrame);
                redraws.push(b.redraw(start, end));
            }
            return redraws;
        }, ranges);
        const cpuMs = 1000 * (await browserCpu(browser) - began) / rounds;
        const own = await threadMs(page, ranges.map(range => () => page.evaluate(([start, end]) => window.__gridline.bench.redraw(start, end), range)));
        return page.evaluate(async ({from, to, more}) => {
            const b = window.__gridline.bench, whole = [];
            for (let i = 0; i < 9; i++) {
                await new Promise(requestAnimationFrame);
                const pan = (to - from) * (i + 1) / 200; /* less than a pixel would draw nothing */
                whole.push(b.redraw(from + pan, to + pan));
            }
            return {...more, whole, scene: b.stage.debug()};
        }, {from, to, more: {first, redraws: drawn, cpuMs, own}});
    };
    const firsts = [];
    let last;
    for (let i = 0; i < 3; i++) {
        last = await run('life', {kind: 'lifelines', ids: 'id', height: 600}, 20);
        firsts.push(last.first / 1000);
    }
    say({note: `${last.scene.lifelines} lifelines, ${last.scene.vertices} events resident; renderer ${last.scene.renderer}; first draws ${firsts.map(s => s.toFixed(2)).join(' ')} s; redrawn ${mean(last.redraws).toFixed(0)} ms on the average (CPU ${last.cpuMs.toFixed(0)}; of the page's thread p95 ${percentile(last.own, 0.95).toFixed(0)}), the whole ${median(last.whole).toFixed(0)} ms`});
    if (last.scene.vertices < 900000) {
        say({name: 'first_draw_s', reason: `only ${last.scene.vertices} events were resident`});
        say({name: 'redraw_p95_ms', reason: 'as above'});
    } else {
        say({name: 'first_draw_s', value: median(firsts)});
        say({name: 'redraw_p95_ms', value: percentile(last.redraws, 0.95)});
    }
    const other = await run('life', {kind: 'lifelines', ids: 'id', height: 600}, 20, last.scene.renderer === 'flat' ? 'webgl' : 'flat');
    say({note: `the other renderer, ${other.scene.renderer}: first ${(other.first / 1000).toFixed(2)} s; redrawn p95 ${percentile(other.redraws, 0.95).toFixed(0)} ms, mean ${mean(other.redraws).toFixed(0)} ms (CPU ${other.cpuMs.toFixed(0)})`});
    const points = await run('points', {kind: 'points', event: '*', height: 600}, 8);
    say({note: `${points.scene.points} points; first ${points.first.toFixed(0)} ms; redrawn ${points.whole.map(v => v.toFixed(0)).join(' ')} ms`});
    if (points.scene.points < 180000)
        say({name: 'points_200k_ms', reason: `only ${points.scene.points} points were resident`});
    else
        say({name: 'points_200k_ms', value: median(points.whole)});
    await page.context().close();
}

/* ---- the map ---- */

async function map(browser, grid)
{
    const page = await openPage(browser, grid, {context: {viewport: {width: 1920, height: 1000}}});
    await page.goto(grid.http + '/?bench=1#/map?last=5m');
    await page.waitForFunction(() => window.__gridline?.bench?.map);
    await settle(page);
    const began = await browserCpu(browser);
    const r = await page.evaluate(() => window.__gridline.bench.map(500, 5000, 20)); /* there are calls for half a minute */
    say({note: `map: ${JSON.stringify(r)}; CPU ${(1000 * (await browserCpu(browser) - began) / (20 * r.fps)).toFixed(1)} ms a frame, with the first drawing`});
    say({name: 'map_fps', value: r.fps});
    await page.context().close();
}

/* ---- live ---- */

function start(program, args)
{
    const child = spawn(resolve(build, program), args, {stdio: ['ignore', 'pipe', 'pipe']});
    child.out = '';
    child.stdout.on('data', d => { child.out += d; });
    child.stderr.on('data', d => { child.out += d; });
    child.ended = new Promise(r => child.once('exit', r));
    return child;
}

const framesFor = (page, ms) => page.evaluate(time => new Promise(done => {
    let n = 0;
    const begin = performance.now();
    const step = now => (++n, now - begin < time ? requestAnimationFrame(step) : done(1000 * n / (now - begin)));
    requestAnimationFrame(step);
}), ms);

async function live(browser, grid, seconds)
{
    const workers = start('bench/workers', ['-g', `tcp://127.0.0.1:${grid.port}`, '-n', '50', '--relay', '50', '--events', '50000', '--block', '500', '--time', `${seconds + 30}s`]);
    const page = await openPage(browser, grid, {hash: '#/timeline?last=10m', context: {viewport: {width: 1920, height: 1000}}});
    const count = async () => (await (await grid.api('/api/v1/directory/status')).json()).rows?.find(r => r.name === 'archive.rows' || r.name === 'events.taken')?.value;
    await new Promise(r => setTimeout(r, 8000));
    const fps = await framesFor(page, seconds * 1000);
    const d = await debug(page);
    say({note: `live: page frames ${fps.toFixed(1)}/s, timeline drawn ${d.scene?.frames} times, frame p95 ${d.scene?.frameP95?.toFixed?.(1)} ms; ${await count() ?? ''}`});
    workers.kill('SIGTERM');
    await workers.ended;
    say({note: 'workers: ' + workers.out.trim().split('\n').slice(-3).join(' | ').slice(0, 400)});
    say({name: 'live_fps', value: fps});
    await page.context().close();
}

/* ---- heap ---- */

async function soak(browser, grid, seconds)
{
    const workers = start('bench/workers', ['-g', `tcp://127.0.0.1:${grid.port}`, '-n', '20', '--relay', '20', '--events', '500', '--time', `${seconds + 60}s`]);
    const page = await openPage(browser, grid, {hash: '#/timeline?last=5m'});
    const cdp = await page.context().newCDPSession(page);
    const heap = async () => {
        await cdp.send('HeapProfiler.collectGarbage');
        return (await cdp.send('Runtime.getHeapUsage')).usedSize / 1e6;
    };
    const samples = [], begin = Date.now();
    await new Promise(r => setTimeout(r, Math.min(30, seconds / 4) * 1000)); /* caches fill first */
    while (Date.now() - begin < seconds * 1000) {
        samples.push([(Date.now() - begin) / 3600e3, await heap()]);
        await new Promise(r => setTimeout(r, seconds * 1000 / 20));
    }
    const n = samples.length, mx = samples.reduce((a, s) => a + s[0], 0) / n, my = samples.reduce((a, s) => a + s[1], 0) / n;
    const slope = samples.reduce((a, s) => a + (s[0] - mx) * (s[1] - my), 0) / samples.reduce((a, s) => a + (s[0] - mx) ** 2, 0);
    say({note: `soak of ${seconds} s: heap ${samples.map(s => s[1].toFixed(1)).join(' ')} MB`});
    say({name: 'heap_mb', value: Math.max(...samples.map(s => s[1]))});
    say({name: 'heap_mb_per_hour', value: slope});
    workers.kill('SIGTERM');
    await workers.ended;
    await page.context().close();
}

/* ---- many sensors ---- */

/* CPU time of a process, ms. */
function processMs(pid)
{
    const after = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1].split(' ');
    return 10 * (Number(after[11]) + Number(after[12]));
}

/* So many hosts with a sensor each, whose events come, too: every text and number of a row is there. */
async function fillDirectory(grid, workers, n, began)
{
    const heard = async () => {
        const text = await (await grid.api('/api/v1/directory?sensor=emulator&format=columns&columns=age_ms')).text();
        return text.trim().split('\n').map(line => JSON.parse(line)).filter(block => block.columns)
            .reduce((sum, {rows, columns: {age_ms: c}}) => sum + (!c ? 0 : Array.isArray(c) ? c.filter(v => v !== null).length : c.at ? c.at.filter(i => c.of[i] !== null).length : rows), 0);
    };
    let seen = 0;
    while ((seen = await heard()) < n) {
        if (Date.now() - began > 150000)
            throw new Error(`${seen} sensors have been heard after 150 s: ${workers.out.slice(-200)}`);
        await new Promise(r => setTimeout(r, 1000));
    }
    return (Date.now() - began) / 1000;
}

/* Listed: the table has rows, and the page says how many there are in all, no more "so far"; from going there to the next frame. Filtered: from the key to the frame
 * in which what passes is shown. Both by the page's own clock. */
async function sensors(browser, grid, n)
{
    const began = Date.now();
    const workers = start('bench/workers', ['-g', `tcp://127.0.0.1:${grid.port}`, '-n', String(n), '--relay', '1000', '--sensors', '1', '--events', String(Math.ceil(n / 10)), '--block', '1', '--time', '600s']);
    const page = await openPage(browser, grid);
    const cdp = await page.context().newCDPSession(page);
    await cdp.send('Performance.enable', {timeDomain: 'threadTicks'});
    const busy = async () => 1000 * (await cdp.send('Performance.getMetrics')).metrics.find(m => m.name === 'TaskDuration').value;
    try {
        const took = await fillDirectory(grid, workers, n, began);
        say({note: `sensors: ${n} have been heard within ${took.toFixed(0)} s of the emulator's start`});
        const gateway = Number(/gateway +(\d+)/.exec(grid.out)[1]);
        const lists = [];
        for (let i = 0; i < 3; i++) {
            await page.goto('about:blank'); /* the page keeps the list while it is open */
            await page.goto(grid.http + '/#/sql'); /* which asks for nothing by itself */
            await page.waitForFunction(() => window.__gridline?.debug().signedIn === 'in');
            await settle(page);
            const before = processMs(gateway), busyBefore = await busy(), begin = Date.now();
            const listed = await page.evaluate(n => new Promise(done => {
                const began = performance.now();
                let first = 0;
                const look = () => {
                    const rows = document.querySelectorAll('.sensors-body tbody tr:not(.space)').length; /* not those of the page before */
                    const said = document.querySelector('.sensors-head [role=status]')?.textContent ?? '';
                    if (rows && !first)
                        first = performance.now() - began;
                    const isAll = rows > 10 && !/so far/.test(said) && Number(said.replace(/\D/g, '')) >= n;
                    requestAnimationFrame(isAll ? () => done({all: performance.now() - began, first, said}) : look);
                };
                location.hash = '#/sensors?last=5m';
                look();
            }), n);
            const cpu = processMs(gateway) - before, script = await busy() - busyBefore;
            lists.push(listed.all / 1000);
            say({note: `sensors: “${listed.said}” after ${listed.all.toFixed(0)} ms, the first rows after ${listed.first.toFixed(0)}; CPU of the gateway ${cpu} ms, of the page's thread ${script.toFixed(0)}, in ${Date.now() - begin}`});
        }
        say({name: 'sensors_list_s', value: median(lists)});
        await page.locator('main input[type=search]').first().focus();
        const times = [];
        for (let i = 1; i <= 5; i++) {
            const text = '04711'.slice(0, i);
            const done = page.evaluate(text => new Promise(r => {
                const began = performance.now();
                const look = () => requestAnimationFrame(window.__gridline.debug().sensors?.text !== text ? look : () => r(performance.now() - began));
                look();
            }), text);
            await page.keyboard.press(text.at(-1));
            times.push(await done);
        }
        const d = (await debug(page)).sensors;
        say({note: `sensors: ${d.shown} of ${d.rows} are left; keystrokes ${times.map(t => t.toFixed(0)).join(' ')} ms, of which the last filter ${d.filterMs.toFixed(1)}`});
        say({name: 'sensors_filter_ms', value: Math.max(...times)});
    } finally {
        workers.kill('SIGTERM');
        await workers.ended;
        await page.context().close();
    }
}

const PARTS = {draw, map, live, soak, sensors};
const part = process.argv[3], argument = Number(process.argv[4] ?? 0);
const grid = await Grid.startAt(await freePort());
await seed(grid, makeEvents(20)); /* a timeline of nothing is not drawn */
let browser;
try {
    browser = await startBrowser(process.env.GRIDLINE_BENCH_GPU === 'swiftshader' ? undefined : []);
    const {gpu} = await (await browser.newBrowserCDPSession()).send('SystemInfo.getInfo');
    say({note: `Chromium ${browser.version()}: compositing ${gpu.featureStatus.gpu_compositing}, rasterization ${gpu.featureStatus.rasterization}, WebGL ${gpu.featureStatus.webgl}`});
    await PARTS[part](browser, grid, argument);
} finally {
    await browser?.close();
    await grid.stop();
}
