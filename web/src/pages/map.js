/* map.js - the page Map: who calls whom, as visPerf showed it. Clients, schedulers, servers in columns; edges as wide as calls are many
 * and coloured by how long they take; particles are real interactions at the shared time, live and played again.
 * Options: by ('prog', 'place', 'jobs'), ids (the declaration), at (name of the node, or "src\0dst"), tables. */
import './map.css';
import {html, cx, useState, useEffect, useLayoutEffect, useMemo, useRef, signal, useSignalEffect} from '../html.js';
import {view, go, setOptions} from '../state.js';
import {now, formatTime, formatSpan} from '../time.js';
import {sqlObjects, sqlOnce, quote} from '../api.js';
import {usePoll} from '../poll.js';
import {useKeys} from '../keys.js';
import {tileSet, tileUs} from '../tiles.js';
import {number, count, seconds, fraction} from '../format.js';
import {palette} from '../palette.js';
import {hasNoGpu} from '../gpu.js';
import {Button, Field, Chip} from '../ui/basic.js';
import {Empty, Loading, Failed, Stale} from '../ui/boxes.js';
import {Table} from '../ui/table.js';
import {showDetails, clearDetails, selection} from '../frame/drawer.js';
import {say} from '../ui/toast.js';
import {tell} from '../debug.js';
import {graphOf, rank, layout, placesOf, tileOfJobs, nextNode, lanesMost, madeUp, TONES} from './map_model.js';
import {sceneOf, drawBase, drawMoving, hitAt, toneColor, rateText, DASHES} from './map_draw.js';

const TILES = 24, DELAY_US = 2.5e6, LEAST_MS = 800, REBUILD_MS = 900, MANY_EDGES = 1000, REBUILD_MANY_MS = 5000;
const BY = [['prog', 'Programs'], ['place', 'Hosts and targets'], ['jobs', 'Jobs (job.state)']];

/* The level whose tiles are a 24th of the range or more. */
export function mapLevel(span, finer = 0)
{
    let level = 4;
    while (level < 26 && tileUs(level) < span / TILES)
        level++;
    return Math.max(4, level - finer);
}

/* The graph that is on, for the details. */
const shown = signal(null);
const isReduced = () => matchMedia('(prefers-reduced-motion: reduce)').matches;

/* ---- data ---- */

/* Tiles of the range: {tiles, progress, tooMany}. */
function useEdges(by, ids, isOn)
{
    const {host, event, where} = view.filter.value;
    const set = useMemo(() => isOn ? tileSet({kind: 'edges', name: ids, params: {by, host, event, where}}) : null, [by, ids, host, event, where, isOn]);
    const [finer, setFiner] = useState(0);
    useEffect(() => {
        setFiner(0);
        return () => set?.close();
    }, [set]);
    useSignalEffect(() => {
        if (set)
            set.want(view.from.value, view.to.value, 0, mapLevel(view.to.value - view.from.value, finer));
    });
    useEffect(() => set?.want(view.from.peek(), view.to.peek(), 0, mapLevel(view.to.peek() - view.from.peek(), finer)), [set, finer]);
    const progress = set?.progress.value ?? {done: 0, all: 0, error: null};
    useEffect(() => { /* too many events for one tile: shorter ones */
        if (progress.error?.status === 422 && finer < 2)
            setFiner(finer + 1);
    }, [progress.error]);
    return {tiles: set?.tiles.value ?? [], progress};
}

/* job.state, as far as it has what is needed. */
function useJobs(isOn)
{
    const step = 10e6, to = Math.ceil(view.to.value / step) * step, from = to - (view.to.value - view.from.value);
    return usePoll(isOn ? `map.jobs ${from} ${to}` : 'map.nojobs', isOn ? 5000 : 600000, async ({signal: abort}) => {
        if (!isOn)
            return [];
        const [table] = await sqlObjects("SELECT fields FROM tables WHERE event = 'job.state'", {signal: abort});
        if (!table)
            return [];
        const has = new Set(table.fields.split(','));
        const column = name => has.has(name) ? `"${name}"` : 'NULL';
        const rows = await sqlObjects(`SELECT time / 1000 AS time, host, prog, ${column('id')} AS id, ${column('state')} AS state, ${column('nodes')} AS nodes, ${has.has('user') ? '"user"' : has.has('uid') ? 'CAST(uid AS TEXT)' : 'NULL'} AS user
            FROM job_state WHERE time BETWEEN ${BigInt(Math.round(from)) * 1000n} AND ${BigInt(Math.round(to)) * 1000n} ORDER BY time LIMIT 20000`, {signal: abort, rows: 20001});
        return [{tile: tileOfJobs(rows.filter(r => r.id && r.state).map(r => ({...r, id: String(r.id)})), from, to), from, to}];
    });
}

/* The declarations that the archive derives lifelines of. */
const useIds = () => usePoll('map.ids', 60000, async ({signal: abort}) =>
    (await sqlOnce('lifeline_pair', 'SELECT DISTINCT ids FROM lifeline_pair LIMIT 50', {signal: abort})).map(r => r.ids));

/* ---- the picture ---- */

const pathOf = (g, c) => c === null ? null : c.node >= 0 ? g.nodes[c.node].name : g.nodes[g.edges[c.edge].src].name + '\u0000' + g.nodes[g.edges[c.edge].dst].name;

/* What is chosen, by its name: nodes and edges come and go. */
function chosenOf(g, path)
{
    if (path === undefined || path === null)
        return null;
    const [a, b] = path.split('\u0000');
    const i = g.nodes.findIndex(n => n.name === a);
    if (b === undefined)
        return i < 0 ? null : {node: i, edge: -1};
    const edge = g.edges.findIndex(e => g.nodes[e.src].name === a && g.nodes[e.dst].name === b);
    return edge < 0 ? null : {node: -1, edge};
}

const label = n => n.prog || n.host;
const fullName = n => n.prog ? `${n.prog} on ${n.host}` : n.host;
const edgeText = (g, e) => `${fullName(g.nodes[e.src])} to ${fullName(g.nodes[e.dst])}: ${rateText(e.rate)}, half within ${seconds(e.p50)}, 99 % within ${seconds(e.p99)}, ${count(e.errors)} errors`;
const nodeText = (g, n) => `${fullName(n)}, ${n.role}: ${rateText(n.in / g.seconds)} in, ${rateText(n.out / g.seconds)} out${n.busy.count ? `, works ${seconds(n.busy.p50)} on each` : ''}, ${count(n.errors)} errors`;
const textOf = (g, c) => c.node >= 0 ? nodeText(g, g.nodes[c.node]) : edgeText(g, g.edges[c.edge]);

/* The time that is shown as now. */
function playhead()
{
    const mode = view.mode.peek();
    return mode === 'live' ? now() - DELAY_US : mode === 'play' ? view.to.peek() : view.cursor.peek() ?? view.to.peek();
}

/* Without a graphics processor the canvas stays in main memory. */
const context = canvas => canvas.getContext('2d', {alpha: false, willReadFrequently: hasNoGpu()});

const pace = {frames: 0, particles: 0, underWay: 0, drawMs: 0, baseMs: 0, now: null};

function Picture({graph, onOpen})
{
    const box = useRef(null), base = useRef(null), seen = useRef(null), scene = useRef(null), places = useRef(new Map());
    const [size, setSize] = useState({width: 800, height: 500}), [hover, setHover] = useState(null);
    const chosenPath = view.options.value.at, tip = useRef(null);
    const chosen = useMemo(() => chosenOf(graph, chosenPath), [graph, chosenPath]);
    const p = palette.value;

    useLayoutEffect(() => {
        const observer = new ResizeObserver(() => box.current && setSize({width: Math.max(240, box.current.clientWidth), height: Math.max(240, box.current.clientHeight)}));
        observer.observe(box.current);
        return () => observer.disconnect();
    }, []);
    const l = useMemo(() => {
        const made = layout(graph, size.width, size.height, places.current);
        for (const [name, place] of placesOf(graph, made))
            places.current.set(name, place);
        if (places.current.size > 5000)
            places.current = placesOf(graph, made);
        return made;
    }, [graph, size]);
    scene.current = useMemo(() => sceneOf(graph, l), [graph, l]);

    useLayoutEffect(() => {
        const ratio = Math.min(2, devicePixelRatio || 1);
        base.current ??= document.createElement('canvas');
        for (const canvas of [base.current, seen.current]) {
            canvas.width = size.width * ratio;
            canvas.height = size.height * ratio;
            context(canvas).setTransform(ratio, 0, 0, ratio, 0, 0);
        }
    }, [size]);
    useLayoutEffect(() => {
        const began = performance.now();
        drawBase(context(base.current), scene.current, p, {...size, chosen: hover ?? chosen, isStill: isReduced()});
        if (bench.peek())
            context(base.current).getImageData(0, 0, 1, 1);
        pace.baseMs = performance.now() - began;
    }, [graph, l, size, p, hover?.node, hover?.edge, chosen]);
    useEffect(() => {
        let frame = 0;
        const paint = () => {
            const began = performance.now();
            const speed = view.mode.peek() === 'play' ? view.speed.peek() : 1;
            Object.assign(pace, drawMoving(context(seen.current), scene.current, palette.peek(), {...size, base: base.current, t: playhead(), least: LEAST_MS * 1e3 * speed, isStill: isReduced(), chosen: hover ?? chosen}));
            pace.frames++;
            pace.drawMs = performance.now() - began;
        };
        const step = () => {
            if (!seen.current)
                return;
            paint();
            if (!isReduced() && view.mode.peek() !== 'paused')
                frame = requestAnimationFrame(step);
        };
        step();
        /* With its pixels: reading one makes the browser draw what it has put off. */
        pace.now = () => {
            paint();
            context(seen.current).getImageData(0, 0, 1, 1);
        };
        return () => cancelAnimationFrame(frame);
    }, [size, graph, l, p, chosen, hover?.node, hover?.edge, view.mode.value, isReduced() || view.mode.value === 'paused' ? view.cursor.value : 0, isReduced() ? Math.floor(view.to.value / 1e6) : 0]);

    const find = e => {
        const r = box.current.getBoundingClientRect();
        return hitAt(scene.current, e.clientX - r.left, e.clientY - r.top);
    };
    useEffect(() => {
        window.__gridline.hitTest = (x, y) => {
            const h = hitAt(scene.current, x, y);
            return h && {...h, text: textOf(scene.current.graph, h)};
        };
        return () => { delete window.__gridline.hitTest; };
    }, []);
    const move = e => {
        const h = find(e);
        setHover(h && (h.node !== hover?.node || h.edge !== hover?.edge) ? h : h ? hover : null);
        tip.current?.style.setProperty('--x', Math.min(size.width - 250, e.offsetX + 14) + 'px');
        tip.current?.style.setProperty('--y', Math.min(size.height - 60, e.offsetY + 14) + 'px');
    };
    const choose = c => {
        setOptions({at: c ? pathOf(graph, c) : undefined});
        if (c)
            say(textOf(graph, c));
    };
    const onKey = e => {
        const edges = chosen?.node >= 0 ? graph.edges.flatMap((x, i) => x.src === chosen.node || x.dst === chosen.node ? [i] : []) : [];
        if (e.key.startsWith('Arrow'))
            choose({node: nextNode(l, chosen?.node >= 0 ? chosen.node : chosen ? graph.edges[chosen.edge].src : -1, e.key), edge: -1});
        else if ((e.key === ']' || e.key === '[') && (edges.length || chosen?.edge >= 0)) {
            const near = edges.length ? edges : graph.edges.flatMap((x, i) => x.src === graph.edges[chosen.edge].src || x.dst === graph.edges[chosen.edge].src ? [i] : []);
            const k = near.indexOf(chosen.edge);
            choose({node: -1, edge: near[(k + (e.key === ']' ? 1 : near.length - 1) + near.length) % near.length]});
        } else if (e.code === 'KeyE') {
            const wrong = graph.edges.flatMap((x, i) => x.errors >= 0.5 ? [i] : []);
            if (wrong.length)
                choose({node: -1, edge: wrong[(wrong.indexOf(chosen?.edge ?? -1) + 1) % wrong.length]});
        } else if (e.key === 'Enter' && chosen)
            onOpen(chosen);
        else if (e.key === 'Escape' && chosen)
            choose(null);
        else
            return;
        e.preventDefault();
        e.stopPropagation();
    };
    const summary = `Map of ${graph.nodes.length} programs or hosts and ${graph.edges.length} connections from ${formatTime(graph.from, {digits: 0})} on. Arrow keys go from one to the next, [ and ] along connections, E to the next with errors, Enter shows details, T a table.`;
    return html`<div class="map-picture" ref=${box} role="application" tabindex="0" aria-label=${summary} onKeyDown=${onKey} onMouseMove=${move} onMouseLeave=${() => setHover(null)}
            onClick=${e => { const c = find(e); choose(c); c ? onOpen(c) : clearDetails(); }}>
        <canvas ref=${seen} aria-hidden="true"></canvas>
        <div class=${cx('map-tip', !hover && 'gone')} ref=${tip} aria-hidden="true">${hover && textOf(graph, hover)}</div></div>`;
}

const Key = () => html`<div class="map-key" aria-label="Key">${TONES.map((t, i) => html`<span key=${t}><svg width="34" height="10" aria-hidden="true"><line x1="1" x2="33" y1="5" y2="5" stroke=${toneColor(palette.value, i)} stroke-width="3" stroke-dasharray=${DASHES[i].join(' ')} /></svg>${i < 4 ? '99 % ' : ''}${t}</span>`)}
    <span>width: calls a second</span><span>${isReduced() ? 'arrows: direction' : 'dots: real calls, × failed ones'}</span><span>green bars in a box: calls it works on at once</span></div>`;

/* ---- details and tables ---- */

function toTimeline(graph, path)
{
    const names = path.split('\u0000').map(name => graph.nodes.find(n => n.name === name)).filter(Boolean);
    const hosts = [...new Set(names.map(n => n.host))], progs = [...new Set(names.map(n => n.prog).filter(Boolean))];
    const where = (progs.length ? `prog IN (${progs.map(quote).join(', ')}) AND ` : '') + `host IN (${hosts.map(quote).join(', ')})`;
    go('timeline', {lanes: [{kind: 'lifelines', ids: view.options.peek().ids ?? 'id', where, title: names.map(label).join(' and ')}, {kind: 'points', event: '*', where}]});
}

function MapDetails({path})
{
    const graph = shown.value;
    const c = graph && chosenOf(graph, path);
    if (!c)
        return html`<p class="note">It is not in this time range.</p>`;
    const fact = (name, value) => html`<div key=${name}><dt>${name}</dt><dd>${value}</dd></div>`;
    const time = v => seconds(v);
    if (c.edge >= 0) {
        const e = graph.edges[c.edge];
        return html`<dl class="map-facts">${fact('Calls', count(e.count))}${fact('Rate', rateText(e.rate))}${fact('Half within', time(e.p50))}${fact('99 % within', time(e.p99))}${fact('Errors', `${count(e.errors)} (${fraction(e.count ? e.errors / e.count : 0)})`)}</dl>
            <${Button} icon="timeline" onClick=${() => toTimeline(graph, path)}>Timeline of these two<//>`;
    }
    const n = graph.nodes[c.node], most = lanesMost(graph)[c.node];
    const list = graph.edges.filter(e => e.src === c.node || e.dst === c.node);
    return html`<dl class="map-facts">${fact('Role', n.role)}${fact('Host', n.host)}${fact('In', rateText(n.in / graph.seconds))}${fact('Out', rateText(n.out / graph.seconds))}
            ${n.first >= 0.5 && fact('Ids that begin here', count(n.first))}${n.busy.count > 0 && fact('Works on one', `${time(n.busy.p50)}, 99 % within ${time(n.busy.p99)}`)}${most > 0 && fact('At once, at most', count(most))}${fact('Errors', count(n.errors))}</dl>
        <p class="map-links"><${Button} icon="timeline" onClick=${() => toTimeline(graph, path)}>Timeline<//><${Button} icon="host" onClick=${() => go('host', {hosts: [n.host]})}>Host ${n.host}<//></p>
        <${EdgeTable} graph=${graph} edges=${list} max=${8} />`;
}

const EdgeTable = ({graph, edges, max, onPick}) => html`<${Table} label="Connections" rows=${edges} max=${max} rowKey=${e => e.src + ' ' + e.dst} onPick=${onPick} columns=${[
    {id: 'src', label: 'From', value: e => label(graph.nodes[e.src])}, {id: 'dst', label: 'To', value: e => label(graph.nodes[e.dst])},
    {id: 'rate', label: 'Rate', end: true, value: e => e.rate, cell: e => rateText(e.rate)}, {id: 'count', label: 'Calls', end: true, value: e => e.count, cell: e => count(e.count)},
    {id: 'p50', label: 'Half within', end: true, value: e => e.p50, cell: e => seconds(e.p50)}, {id: 'p99', label: '99 % within', end: true, value: e => e.p99, cell: e => seconds(e.p99)},
    {id: 'errors', label: 'Errors', end: true, value: e => e.errors, cell: e => e.errors >= 0.5 ? html`<strong class="text-error">${count(e.errors)}</strong>` : '0'}]} />`;

const Twin = ({graph, onPick}) => {
    const most = useMemo(() => lanesMost(graph), [graph]);
    return html`<div class="map-twin"><h2>Connections</h2><${EdgeTable} graph=${graph} edges=${graph.edges} max=${14} onPick=${e => onPick({node: -1, edge: graph.edges.indexOf(e)})} />
        <h2>Programs and hosts</h2><${Table} label="Programs and hosts" max=${14} rows=${graph.nodes} rowKey=${n => n.name} onPick=${n => onPick({node: graph.nodes.indexOf(n), edge: -1})} columns=${[
            {id: 'name', label: 'Name', value: label}, {id: 'host', label: 'Host', value: n => n.host}, {id: 'role', label: 'Role', value: n => n.role},
            {id: 'in', label: 'In', end: true, value: n => n.in, cell: n => rateText(n.in / graph.seconds)}, {id: 'out', label: 'Out', end: true, value: n => n.out, cell: n => rateText(n.out / graph.seconds)},
            {id: 'busy', label: 'Works', end: true, value: n => n.busy.p50, cell: n => seconds(n.busy.p50)}, {id: 'most', label: 'At once, at most', end: true, value: n => most[graph.nodes.indexOf(n)]},
            {id: 'errors', label: 'Errors', end: true, value: n => n.errors, cell: n => count(n.errors)}]} /></div>`;
};

/* ---- the page ---- */

/* The graph of now, made anew when tiles come, and at most so often. */
function useGraph(tiles)
{
    const [graph, setGraph] = useState(null);
    const last = useRef(0);
    const from = view.from.value, to = view.to.value, mode = view.mode.value;
    const key = mode === 'paused' ? `${from} ${to}` : Math.floor(to / (REBUILD_MS * 1e3));
    useEffect(() => {
        if (bench.peek())
            return undefined;
        const make = () => {
            last.current = performance.now();
            const g = rank(graphOf(tiles, view.from.peek(), view.to.peek()));
            shown.value = g;
            setGraph(g);
        };
        const every = (shown.peek()?.edges.length ?? 0) > MANY_EDGES ? REBUILD_MANY_MS : REBUILD_MS;
        const wait = Math.max(0, every - (performance.now() - last.current));
        if (last.current === 0 || wait === 0 || mode === 'paused') {
            make();
            return undefined;
        }
        const timer = setTimeout(make, wait);
        return () => clearTimeout(timer);
    }, [tiles, key]);
    return bench.value ?? graph;
}

/* A made-up graph, to see how fast it is drawn: only where the address asks for it. fps: as the browser gets to it, for some seconds;
 * drawMs: a frame with all its pixels, without what the browser does to show it. */
const bench = signal(null);
async function runBench(nodes, edges, seconds_ = 5)
{
    const next = () => new Promise(requestAnimationFrame);
    const quantile = (list, q) => list.toSorted((a, b) => a - b)[Math.floor(list.length * q)];
    const began = performance.now();
    const graph = madeUp(nodes, edges, 650, now() - 30e6);
    shown.value = bench.value = graph;
    await next();
    await next();
    const firstMs = performance.now() - began, times = [], draws = [];
    for (let last = performance.now(), end = last + seconds_ * 1e3; last < end;) {
        await next();
        times.push(performance.now() - last);
        last = performance.now();
    }
    for (let i = 0; i < 60; i++) {
        const at = performance.now();
        pace.now();
        draws.push(performance.now() - at);
    }
    const result = {nodes: graph.nodes.length, edges: graph.edges.length, particles: pace.particles, firstMs, baseMs: pace.baseMs, fps: times.length / seconds_,
                    frameP95Ms: quantile(times, 0.95), drawP50Ms: quantile(draws, 0.5), drawP95Ms: quantile(draws, 0.95)};
    bench.value = null;
    return result;
}

function Page()
{
    const options = view.options.value;
    const by = BY.some(([id]) => id === options.by) ? options.by : 'prog', ids = options.ids ?? 'id';
    const edges = useEdges(by, ids, by !== 'jobs'), jobs = useJobs(by === 'jobs'), declared = useIds();
    const tiles = by === 'jobs' ? jobs.value.value ?? [] : edges.tiles;
    const error = by === 'jobs' ? jobs.error.value : edges.progress.error;
    const isLoading = by === 'jobs' ? jobs.state.value === 'loading' : edges.progress.done < edges.progress.all;
    const graph = useGraph(tiles);
    const isTable = options.tables === true;
    const open = c => showDetails(textTitle(graph, c), MapDetails, {path: pathOf(graph, c)});
    useEffect(() => () => { if (selection.peek()?.Body === MapDetails) clearDetails(); }, []);
    useEffect(() => tell('map', () => ({by, ids, nodes: graph?.nodes.length ?? 0, edges: graph?.edges.length ?? 0, hops: graph?.hops.n ?? 0, share: graph?.share ?? 0,
        calls: graph?.edges.reduce((n, e) => n + e.count, 0) ?? 0, roles: Object.fromEntries(graph?.nodes.map(n => [n.name, n.role]) ?? []), frames: pace.frames, particles: pace.particles, underWay: pace.underWay, drawMs: pace.drawMs, baseMs: pace.baseMs})), [graph, by, ids]);
    useEffect(() => {
        if (!/[?&]bench=1/.test(location.search))
            return undefined;
        window.__gridline.bench = {...window.__gridline.bench, map: runBench};
        return () => { delete window.__gridline.bench.map; };
    }, []);
    useKeys([{code: 'KeyB', label: 'Programs, hosts or jobs', group: 'Map', run: () => setOptions({by: BY[(BY.findIndex(([id]) => id === by) + 1) % BY.length][0], at: undefined})}], [by]);
    const idOptions = [...new Set([ids, 'id', ...(declared.value.value ?? [])])].map(x => [x, x]);
    const isEmpty = graph && graph.edges.length === 0;
    return html`<div class="map-page">
        <div class="map-head"><${Field} label="Between" type="select" value=${by} options=${BY} onInput=${v => setOptions({by: v, at: undefined})} />
            ${by !== 'jobs' && html`<${Field} label="Ids" type="select" value=${ids} options=${idOptions} onInput=${v => setOptions({ids: v, at: undefined})} />`}
            <span class="note" role="status">${graph && !isEmpty ? `${count(graph.nodes.length)} ${by === 'prog' ? 'programs' : by === 'jobs' ? 'users, schedulers, nodes' : 'places'} · ${count(graph.edges.reduce((n, e) => n + e.count, 0))} calls in ${formatSpan(graph.to - graph.from)}` : ''}
                ${graph && graph.share < 0.999 && !isEmpty ? ` · dots: ${fraction(graph.share)} of them` : ''}${graph?.leftOut ? ` · ${count(graph.leftOut)} edges left out` : ''}</span>
            ${isLoading && html`<span class="spinner small" role="img" aria-label="loading"></span>`}
            ${graph?.lost > 0 && html`<${Chip} look="warn" icon="triangle">${count(graph.lost)} rows lost by damage<//>`}
            <span class="map-head-end">${view.mode.value !== 'live' && html`<${Chip} look="info" icon="clock">${view.mode.value === 'play' ? `playing ${number(view.speed.value)}×` : 'paused'}: ${formatTime(playhead(), {digits: 1})}<//>`}
            <${Button} icon="table" kind="quiet" pressed=${isTable} label="As a table (T)" onClick=${() => setOptions({tables: isTable ? undefined : true})} /></span></div>
        ${error && tiles.length > 0 && html`<${Stale} error=${error} />`}
        ${!graph || (isEmpty && isLoading) ? error && !tiles.length ? html`<${Problem} error=${error} by=${by} />` : html`<${Loading} title="Reading who called whom …" />`
            : isEmpty ? error ? html`<${Problem} error=${error} by=${by} />` : html`<${Nothing} by=${by} ids=${ids} />`
            : isTable ? html`<${Twin} graph=${graph} onPick=${c => { setOptions({at: pathOf(graph, c)}); open(c); }} />`
            : html`<${Picture} graph=${graph} onOpen=${open} /><${Key} />`}
    </div>`;
}

const textTitle = (g, c) => c.node >= 0 ? label(g.nodes[c.node]) : `${label(g.nodes[g.edges[c.edge].src])} → ${label(g.nodes[g.edges[c.edge].dst])}`;

const Problem = ({error, by}) => error.status === 422 && by === 'prog'
    ? html`<${Empty} title="Too many events for programs in this time" actions=${html`<${Button} onClick=${() => setOptions({by: 'place'})}>Show hosts instead<//>`}><p>${error.message}</p><p>W makes the time range shorter; between hosts any range can be shown.</p><//>`
    : html`<${Failed} error=${error} title="The map could not be made" />`;

const Nothing = ({by, ids}) => html`<${Empty} title=${by === 'jobs' ? 'No jobs in this time' : 'Nobody called anybody in this time'} actions=${html`${BY.filter(([id]) => id !== by).map(([id, text]) => html`<${Button} key=${id} onClick=${() => setOptions({by: id})}>${text}<//>`)}`}>
    ${by === 'jobs' ? html`<p>Jobs are events job.state, which the sensor slurm and the log filters slurmctld and slurm-jobcomp make.</p>`
        : html`<p>A call is seen when events with the same “${ids}” come from two ${by === 'prog' ? 'programs' : 'hosts or targets'}, as of a job that a client sends and a server takes. S makes the time range wider.</p>`}<//>`;

export const page = {id: 'map', title: 'Map', key: '4', Page};
