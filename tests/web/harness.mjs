/* harness.mjs - what the browser tests share: a real grid on this host (`gridline run`), data that is the same each time, a
 * headless Chromium without a GPU, and what must hold on every page.
 *
 * browser.mjs says by the environment where the build and its packages are. Pictures go to GRIDLINE_WEB_SHOTS. */
import assert from 'node:assert/strict';
import {spawn, execFileSync} from 'node:child_process';
import {existsSync, mkdtempSync, mkdirSync, readFileSync, rmSync} from 'node:fs';
import {createRequire} from 'node:module';
import {createServer} from 'node:net';
import {join} from 'node:path';
import {tmpdir} from 'node:os';

export const build = process.env.GRIDLINE_BUILD_DIR;
const require = createRequire(join(build, 'web/node_modules/package.json'));
const {chromium} = require('playwright-core');
const axeSource = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');
const shots = process.env.GRIDLINE_WEB_SHOTS;

export const PAGES = ['overview', 'host', 'timeline', 'map', 'sensors', 'faults', 'sql', 'system'];
export const WAIT = {timeout: 60000}; /* a machine that is busy with other tests is no failure */

/* ---- the grid ---- */

export async function waitFor(condition, what, ms = 60000)
{
    const until = Date.now() + ms;
    for (;;) {
        const value = await condition();
        if (value)
            return value;
        if (Date.now() > until)
            throw new Error(`${what}: not within ${ms / 1000} s`);
        await new Promise(r => setTimeout(r, 50));
    }
}

function exited(child)
{
    return child.exitCode !== null || child.signalCode !== null ? Promise.resolve() : new Promise(r => child.once('exit', r));
}

/* A port that is free, and the next one, too: HTTP is there. */
export async function freePort()
{
    const take = port => new Promise((done, failed) => {
        const server = createServer();
        server.once('error', failed);
        server.listen(port, '127.0.0.1', () => { const is = server.address().port; server.close(() => done(is)); });
    });
    for (;;) {
        const port = await take(0);
        try {
            await take(port + 1);
            return port;
        } catch { /* another */ }
    }
}

/* `gridline run` in a folder of its own: {http, socket, dir, sql(), api(), publish(), stop()}. */
export class Grid {
    static async start(...args)
    {
        return Grid.startAt(0, ...args);
    }

    static async startAt(port, ...args)
    {
        const grid = new Grid();
        grid.dir = mkdtempSync(join(tmpdir(), 'gl-web-'));
        await grid.run(args, port);
        return grid;
    }

    /* A gateway and nothing else: nobody sends it anything. */
    static async startGateway()
    {
        const grid = new Grid();
        grid.dir = mkdtempSync(join(tmpdir(), 'gl-web-'));
        grid.socket = `unix:${grid.dir}/gateway.sock`;
        const ready = join(grid.dir, 'ready');
        grid.spawn('gridline-gateway', ['--listen', 'tcp://127.0.0.1:0', '--state-dir', join(grid.dir, 'state'), '--ready-file', ready,
                                        '-s', 'http=127.0.0.1:0', '-s', 'socket=' + grid.socket.slice(5)]);
        grid.http = await waitFor(() => existsSync(ready) && /http:\S+/.exec(readFileSync(ready, 'utf8'))?.[0], 'the gateway');
        return grid;
    }

    spawn(program, args)
    {
        this.out = '';
        this.child = spawn(join(build, program), args, {stdio: ['ignore', 'pipe', 'pipe']});
        this.child.stdout.on('data', d => { this.out += d; });
        this.child.stderr.on('data', d => { this.out += d; });
        process.once('SIGTERM', () => { this.child.kill(); process.exit(1); }); /* a test that takes too long leaves nothing */
    }

    async run(args, port = 0)
    {
        this.args = args;
        this.spawn('gridline', ['run', '--dir', this.dir, '--port', String(port), ...args]);
        await waitFor(() => /#key=/.test(this.out) || this.child.exitCode !== null, 'gridline run');
        const out = this.out;
        assert.equal(this.child.exitCode, null, out);
        this.http = /http:\/\/127\.0\.0\.1:\d+/.exec(out)[0];
        this.port = Number(/tcp:\/\/127\.0\.0\.1:(\d+)/.exec(out)[1]);
        this.socket = /unix:\S+gateway\.sock/.exec(out)[0];
        this.key = /#key=(\S+)/.exec(out)[1];
    }

    command(...args)
    {
        return execFileSync(join(build, 'gridline'), args, {encoding: 'utf8', maxBuffer: 1 << 26, stdio: ['ignore', 'pipe', 'pipe']});
    }

    /* Rows as objects, by the command: another way than the viewer's. */
    sql(query)
    {
        const {columns, rows} = JSON.parse(this.command('sql', '--gateway', this.socket, '--format', 'json', query));
        return rows.map(row => Object.fromEntries(columns.map((name, i) => [name, row[i]])));
    }

    /* A new address that signs a browser in. */
    signInAddress()
    {
        return /http\S+/.exec(this.command('viewer', '--gateway', this.socket))[0];
    }

    token()
    {
        for (const place of ['run', 'gateway', '.']) {
            try {
                return readFileSync(join(this.dir, place, 'http.token'), 'utf8').trim();
            } catch { /* the next */ }
        }
        throw new Error('there is no http.token');
    }

    async api(path, options = {})
    {
        return fetch(this.http + path, {...options, headers: {Authorization: 'Bearer ' + this.token(), ...options.headers}});
    }

    async publish(events)
    {
        for (let i = 0; i < events.length; i += 2000) {
            const body = events.slice(i, i + 2000).map(e => JSON.stringify(e) + '\n').join('');
            const answer = await this.api('/api/v1/events', {method: 'POST', body, headers: {'Content-Type': 'application/x-ndjson'}});
            const said = await answer.json();
            assert.equal(answer.status, 200, JSON.stringify(said));
            assert.equal(said.refused ?? 0, 0, JSON.stringify(said).slice(0, 400));
        }
    }

    async halt(signal = 'SIGTERM')
    {
        this.child.kill(signal);
        await exited(this.child);
    }

    async stop()
    {
        await this.halt();
        rmSync(this.dir, {recursive: true, force: true});
    }
}

/* ---- data ---- */

export function randomOf(seed)
{
    let s = seed >>> 0;
    return () => {
        s = (s + 0x6d2b79f5) >>> 0;
        let t = Math.imul(s ^ (s >>> 15), 1 | s);
        t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
        return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
    };
}

/* Five minutes of yesterday: jobs that go client → scheduler → worker, a curve, and faults that line up with a pause. */
export const RANGE_S = 300;
export const began = Math.floor(Date.now() / 86400e3 - 1) * 86400 + 12 * 3600;
export const rangeHash = `from=${iso(began)}&to=${iso(began + RANGE_S)}`;

export function iso(seconds)
{
    return new Date(seconds * 1000).toISOString();
}

export function makeEvents(jobs = 400, seed = 8)
{
    const random = randomOf(seed), out = [];
    const at = (t, name, host, prog, more) => out.push({time: Number(t.toFixed(6)), name, host, prog, ...more});
    for (let i = 0; i < jobs; i++) {
        const id = `job-${String(i).padStart(5, '0')}`, worker = `w${1 + Math.floor(random() * 4)}`;
        const fails = random() < 0.03;
        let t = began + 2 + (RANGE_S - 20) * i / jobs;
        const isPaused = t > began + 150 && t < began + 170;
        at(t, 'job.submit', 'desk', 'client', {id, size: Math.floor(1000 * random())});
        at(t += 0.05 + 0.3 * random(), 'job.schedule', 'sched', 'scheduler', {id, target: 'sched'});
        at(t += 0.1 + 0.5 * random() + (isPaused ? 8 : 0), 'job.start', worker, 'worker', {id});
        at(t += 0.5 + 2 * random(), 'job.end', worker, 'worker', {id, level: fails ? 'error' : 'info', status: fails ? 1 : 0});
    }
    for (let s = 0; s < RANGE_S; s++)
        at(began + s, 'queue.depth', 'sched', 'scheduler', {depth: Math.round(20 + 10 * Math.sin(s / 20) + (s > 150 && s < 170 ? 40 : 0)), waiting_s: s / 100});
    for (let i = 0; i < 60; i++)
        at(began + 150 + 20 * random(), 'tcp.retransmit', 'sched', 'scheduler', {level: i % 5 ? 'warning' : 'error', count: 1 + Math.floor(5 * random())});
    return out.sort((a, b) => a.time - b.time);
}

/* The events, and until they can be asked for. */
export async function seed(grid, events = makeEvents())
{
    await grid.publish(events);
    const ends = events.filter(e => e.name === 'job.end').length;
    await waitFor(() => {
        try {
            return grid.sql('SELECT count(*) AS n FROM job_end')[0].n >= ends;
        } catch (e) {
            if (!/no such table/.test(String(e.stderr)))
                throw e;
            return false; /* not yet */
        }
    }, 'the events in the archive');
    return events;
}

/* ---- the browser ---- */

const ARGS = ['--no-sandbox', '--enable-unsafe-swiftshader', '--force-device-scale-factor=1', '--font-render-hinting=none', '--disable-lcd-text'];
const PLAYED = ['--use-gl=angle', '--use-angle=swiftshader']; /* a GPU is played for everything, putting windows together too */

/* gpu: arguments of Chromium for how it draws; [] is as it does it by itself. */
export async function startBrowser(gpu = PLAYED)
{
    const browser = await chromium.launch({executablePath: process.env.GRIDLINE_CHROMIUM ?? '/usr/bin/chromium', args: [...ARGS, ...gpu]});
    const page = await browser.newPage();
    const renderer = await page.evaluate(() => {
        const gl = document.createElement('canvas').getContext('webgl2');
        return gl && !gl.isContextLost() ? gl.getParameter(gl.VERSION) : null;
    });
    assert.match(String(renderer), /WebGL 2/, 'there is no live WebGL2 context: nothing below would show anything');
    await page.close();
    return browser;
}

/* A page that is signed in, with what must never happen noted in `page.wrong`. isStrict: also every answer that says no, once somebody is signed in. */
export async function openPage(browser, grid, {hash = '#/overview', address = grid.http, context: options = {}, allow = () => false, isStrict = false} = {})
{
    const context = await browser.newContext({viewport: {width: 1440, height: 900}, reducedMotion: 'no-preference', ...options});
    const page = await context.newPage();
    page.wrong = [];
    page.setDefaultTimeout(WAIT.timeout);
    page.on('pageerror', e => page.wrong.push('error: ' + e.message));
    page.on('dialog', d => { page.wrong.push('dialog: ' + d.message()); d.dismiss(); });
    page.on('console', m => {
        if (m.type() === 'error' && !/Failed to load resource/.test(m.text()) && !allow(m.text()))
            page.wrong.push('console: ' + m.text());
    });
    page.on('response', async r => {
        if (isStrict && r.status() >= 400)
            page.wrong.push(`${r.status()} ${r.url()} ${r.request().postData() ?? ''}: ${await r.text().catch(() => '')}`);
    });
    await context.addInitScript(() => {
        window.__csp = [];
        document.addEventListener('securitypolicyviolation', e => window.__csp.push(`${e.violatedDirective} ${e.blockedURI}`));
    });
    const key = grid.signInAddress().split('#')[1];
    await page.goto(`${address}/#${key}`);
    await page.waitForFunction(() => window.__gridline?.debug().signedIn === 'in', null, WAIT);
    await goTo(page, hash);
    return page;
}

export async function goTo(page, hash)
{
    await page.evaluate(h => { location.hash = h; }, hash);
    const id = /^#\/(\w+)/.exec(hash)[1];
    await page.waitForFunction(p => window.__gridline.debug().page === p, id, WAIT);
    await settle(page);
}

/* Until what was asked has come, and has been drawn; a page that polls is never quiet for long. */
export async function settle(page)
{
    await page.evaluate(() => Promise.race([window.__gridline.idle(6), new Promise(r => setTimeout(r, 8000))]));
}

export const debug = page => page.evaluate(() => window.__gridline.debug());

export async function assertClean(page, what)
{
    const csp = await page.evaluate(() => window.__csp);
    assert.deepEqual(csp, [], `${what}: violations of the content security policy`);
    assert.deepEqual(page.wrong, [], `${what}: what must not happen`);
    assert.equal(await page.getByText('This page has failed').count(), 0, `${what}: the page has failed`);
}

export async function assertAccessible(page, what)
{
    await page.evaluate(axeSource);
    const {violations} = await page.evaluate(() => window.axe.run(document, {resultTypes: ['violations'], runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']}));
    const said = violations.map(v => `${v.id} (${v.impact}): ${v.nodes.slice(0, 3).map(n => `${n.target.join(' ')} ${n.any[0]?.message ?? ''}`).join(' | ')}`);
    assert.deepEqual(said, [], what);
}

export async function shoot(page, name)
{
    if (!shots)
        return;
    mkdirSync(shots, {recursive: true});
    await page.screenshot({path: join(shots, name + '.png')});
}
