/* lifelines.js - batches of lifelines: exact ones, and their density.
 *
 * Exact: each hop of a lifeline is a line between the rows of its two events. Where a tile has more hops than its pixels can
 * show, of each column of pixels and pair of rows the slowest, the fastest and one between are drawn, and every error: more lines would
 * fill the same pixels (thin); of those that would be on the same pixels as another, none. Which ones are chosen depends on the octave of the
 * zoom only, so panning changes nothing.
 *
 * Density: a cell (pair, bin of time, latency) is the parallelogram in which its hops lie; cells that are less than a pixel apart
 * are one. Outliers are drawn as lines, always. */
import {batchOf, colourNumber, named, pointStyle} from './records.js';
import {binNs, binOf, NO_LATENCY} from './stats.js';
import {baseUs, stepUs} from '../glt1.js';

const ERROR = 3, WARNING = 4;
const THIN_ABOVE = 3000; /* hops of a tile */
export const DOTS_BELOW = 1500; /* vertices of a lane */
const THIN_KEYS = 1 << 21;
const FIRST = 65535;
const UNITS = 2 ** 32;

/* ---- what is known of a tile, once ---- */

/* Of an exact tile: where each lifeline's vertices begin, each vertex's event and lifeline. */
const prepared = new WeakMap();

export function prepare(tile)
{
    let p = prepared.get(tile);
    if (p)
        return p;
    const {path, path_end: ends, path_event: events, vertex_t: t} = tile.columns;
    const start = new Uint32Array(path.length + 1), event = new Uint16Array(t.length), life = new Uint32Array(t.length);
    let v = 0;
    for (let l = 0; l < path.length; l++) {
        start[l] = v;
        for (let i = path[l] ? ends[path[l] - 1] : 0; i < ends[path[l]]; i++) {
            life[v] = l;
            event[v++] = events[i];
        }
    }
    start[path.length] = v;
    p = {start, event, life, colours: null};
    prepared.set(tile, p);
    return p;
}

function idColours(tile, p)
{
    p.colours ??= Uint8Array.from(tile.columns.id, colourNumber);
    return p.colours;
}

/* When the tile itself begins, in its units: exact tiles reach back by one tile, of four. */
export const tileStart = tile => tile.kind === 'lifeline-exact' ? UNITS / 4 : 0;
export const tileEnd = tile => tile.kind === 'lifeline-exact' ? UNITS / 2 : UNITS;

/* How often each event follows each other one: Map of 'from\0to' → count, over many tiles. The order of rows is made of it. */
export function hopsOf(tiles, into = new Map())
{
    const add = (from, to, n) => {
        const key = from + '\u0000' + to;
        into.set(key, (into.get(key) ?? 0) + n);
    };
    for (const tile of tiles) {
        const c = tile.columns;
        if (tile.kind === 'lifeline-exact') {
            const uses = new Uint32Array(c.path_end.length);
            for (const path of c.path)
                uses[path]++;
            for (let path = 0, at = 0; path < c.path_end.length; at = c.path_end[path++]) {
                for (let i = at + 1; i < c.path_end[path]; i++)
                    add(c.events[c.path_event[i - 1]], c.events[c.path_event[i]], uses[path]);
            }
        } else if (tile.kind === 'lifeline-density') {
            const count = new Float64Array(c.pair_from.length);
            for (let i = 0; i < c.pair.length; i++)
                count[c.pair[i]] += c.count[i];
            c.pair_from.forEach((from, i) => {
                if (from !== FIRST && !c.pair_late[i])
                    add(c.events[from], c.events[c.pair_to[i]], count[i]);
            });
        }
    }
    return into;
}

/* ---- exact ---- */

/* Hops of a tile among the rows that are shown, that end in the time clip: vertices from → to, their times begins → ends, pair (a number for each
 * two rows, of `pairs`), took, isError. A hidden event between two is passed over. errors: the hops that are. single: vertices of lifelines that
 * have no other; wrong: where lifelines with an error end. */
export function hopList(tile, rows, t, clip)
{
    const {start, event} = prepare(tile);
    const {vertex_host: host, vertex_t: own, severity, hosts, events} = tile.columns;
    const rowOf = new Int16Array(hosts.length * events.length);
    hosts.forEach((h, i) => events.forEach((e, k) => { rowOf[i * events.length + k] = rows.of(e, h); }));
    const row = Int16Array.from(event, (e, v) => rowOf[host[v] * events.length + e]);
    const list = {n: 0, row, from: new Uint32Array(event.length), to: new Uint32Array(event.length), begins: new Uint32Array(event.length), ends: new Uint32Array(event.length),
                  pair: new Uint32Array(event.length), pairs: 0, took: new Float64Array(event.length), isError: new Uint8Array(event.length), errors: [], single: [], wrong: []};
    const numbers = new Int32Array(rows.n * rows.n).fill(-1);
    for (let l = 0; l + 1 < start.length; l++) {
        const isError = severity[l] <= ERROR ? 1 : 0;
        let last = -1, others = 0;
        for (let v = start[l]; v < start[l + 1]; v++) {
            if (row[v] < 0)
                continue;
            const isSeen = own[v] >= clip[0] && own[v] < clip[1];
            if (last >= 0 && isSeen) {
                const n = list.n++, pair = row[last] * rows.n + row[v];
                if (numbers[pair] < 0)
                    numbers[pair] = list.pairs++;
                list.from[n] = last;
                list.to[n] = v;
                list.begins[n] = t[last];
                list.ends[n] = t[v];
                list.pair[n] = numbers[pair];
                list.took[n] = t[v] - t[last];
                list.isError[n] = isError;
                if (isError)
                    list.errors.push(n);
            }
            others += last >= 0 || !isSeen ? 1 : 0;
            last = v;
        }
        if (!others && last >= 0)
            list.single.push(last);
        if (isError && start[l + 1] > start[l])
            list.wrong.push(start[l + 1] - 1);
    }
    return list;
}

/* Which hops are drawn, and for how many each stands: {keep, stands}. Errors are not in it: they are drawn anyway. */
export function thin({n, begins, ends, pair, pairs, took, isError}, unitsPerPx)
{
    let low = UNITS - 1, high = 0;
    for (let i = 0; i < n; i++) {
        low = Math.min(low, ends[i]);
        high = Math.max(high, ends[i]);
    }
    let shift = Math.min(31, Math.max(0, Math.floor(Math.log2(unitsPerPx) + 1e-6))); /* columns of half a pixel to one */
    while (pairs * ((high >>> shift) - (low >>> shift) + 1) > THIN_KEYS && shift < 31)
        shift++;
    const first = low >>> shift, columns = (high >>> shift) - first + 1, half = Math.max(0, shift - 1);
    const count = new Uint32Array(pairs * columns), slow = new Uint32Array(pairs * columns), fast = new Uint32Array(pairs * columns), any = new Uint32Array(pairs * columns);
    for (let i = 0; i < n; i++) {
        if (isError[i])
            continue;
        const key = pair[i] * columns + (ends[i] >>> shift) - first;
        if (count[key]++ === 0) {
            slow[key] = fast[key] = any[key] = i;
        } else if (took[i] > took[slow[key]]) {
            any[key] = slow[key];
            slow[key] = i;
        } else if (took[i] < took[fast[key]]) {
            any[key] = fast[key];
            fast[key] = i;
        } else {
            any[key] = i;
        }
    }
    const isSame = (a, b) => begins[a] >>> half === begins[b] >>> half && ends[a] >>> half === ends[b] >>> half;
    const keep = [], stands = [];
    for (let key = 0; key < count.length; key++) {
        if (!count[key])
            continue;
        const begin = keep.length;
        keep.push(slow[key]);
        if (!isSame(slow[key], fast[key]))
            keep.push(fast[key]);
        if (!isSame(any[key], slow[key]) && !isSame(any[key], fast[key]))
            keep.push(any[key]);
        for (let k = begin; k < keep.length; k++)
            stands.push(count[key] / (keep.length - begin));
    }
    return {keep, stands};
}

/* Colour of a hop: by id, host (where it ended), status (the lifeline's worst level), latency (to the usual one of its pair). */
function colourer(tile, mode, hops)
{
    const c = tile.columns, p = prepare(tile);
    if (mode === 'host') {
        const hosts = c.hosts.map(colourNumber);
        return i => hosts[c.vertex_host[hops.to[i]]];
    }
    if (mode === 'status') {
        const ok = named('ok'), warn = named('warn');
        return i => c.severity[p.life[hops.to[i]]] <= WARNING ? warn : ok;
    }
    if (mode === 'latency') {
        const usual = usualOf(hops), first = named('heat-0');
        return i => first + latencyStep(hops.took[i] / usual.get(hops.pair[i]));
    }
    const ids = idColours(tile, p);
    return i => ids[p.life[hops.to[i]]];
}

/* 0 … 5: up to the usual time, up to twice, four, eight, sixteen times it, more. */
export const latencyStep = ratio => ratio <= 1 ? 0 : Math.min(5, Math.ceil(Math.log2(ratio)));

/* Per pair the median of the time that its hops take, of at most 500 each. */
function usualOf({n, pair, took})
{
    const lists = new Map();
    for (let i = 0; i < n; i++) {
        const list = lists.get(pair[i]) ?? [];
        if (list.length < 500)
            list.push(took[i]);
        lists.set(pair[i], list);
    }
    return new Map([...lists].map(([key, list]) => [key, list.sort((a, b) => a - b)[list.length >> 1] || 1]));
}

/* The vertices' times as the hosts' own clocks showed them. */
function localTimes(tile, offsets)
{
    const c = tile.columns, step = stepUs(tile);
    if (!offsets)
        return c.vertex_t;
    const shift = c.hosts.map(host => (offsets.get(host) ?? 0) / step);
    return Uint32Array.from(c.vertex_t, (t, v) => Math.max(0, Math.min(UNITS - 1, t - shift[c.vertex_host[v]])));
}

/* What a zoom does not change of an exact tile: its times and hops. */
export function exactHops(tile, rows, {offsets, clip})
{
    const t = localTimes(tile, offsets);
    return {t, clip, hops: hopList(tile, rows, t, clip)};
}

/* The batch of an exact tile. rows: layout.js; look: {color, usPerPx, hasDots}; made: of exactHops. */
export function exactBatch(tile, rows, look, made)
{
    const {hops} = made, y = rows.names.map((_, i) => rows.y(i));
    const batch = batchOf(baseUs(tile), stepUs(tile));
    const colour = colourer(tile, look.color, hops);
    const {n, begins, ends, from, to, row, isError} = hops;
    const line = (i, stands) => batch.lines.push(begins[i], ends[i], y[row[from[i]]], y[row[to[i]]], colour(i), stands > 1 ? Math.min(0.95, 0.55 + Math.log2(stands) / 16) : 0.75, 2, to[i]);
    if (n > THIN_ABOVE) {
        const {keep, stands} = thin(hops, look.usPerPx / batch.stepUs);
        keep.forEach((i, k) => line(i, stands[k]));
    } else {
        for (let i = 0; i < n; i++) {
            if (!isError[i])
                line(i, 1);
        }
    }
    for (const i of hops.errors)
        batch.top.push(begins[i], ends[i], y[row[from[i]]], y[row[to[i]]], named('error'), 1, 4, to[i]);
    vertexGlyphs(tile, batch, made, y, look.hasDots);
    batch.hops = n;
    return batch;
}

/* Dots where events are while there are few; what has no hop is a tick always; a cross where a lifeline with an error ends. */
function vertexGlyphs(tile, batch, {t, clip, hops}, y, hasDots)
{
    const c = tile.columns, p = prepare(tile), row = hops.row;
    const isSeen = v => row[v] >= 0 && c.vertex_t[v] >= clip[0] && c.vertex_t[v] < clip[1];
    const dot = pointStyle('dot', 3), tick = pointStyle('tick', 6), cross = pointStyle('cross', 8);
    const put = (v, style, colour, alpha) => batch.points.push(t[v], t[v], y[row[v]], y[row[v]], colour, alpha, style, v);
    if (hasDots) {
        for (let v = 0; v < t.length; v++) {
            if (isSeen(v))
                put(v, dot, named('dim'), 0.9);
        }
    }
    for (const v of hops.single) {
        if (isSeen(v))
            put(v, tick, c.severity[p.life[v]] <= ERROR ? named('error') : named('dim'), 0.9);
    }
    for (const v of hops.wrong) {
        if (isSeen(v))
            put(v, cross, named('error'), 1);
    }
}

/* ---- density ---- */

/* The most hops that a bin of time has of one pair. */
const most = new WeakMap();

export function densest(tile)
{
    if (!most.has(tile)) {
        const c = tile.columns, sums = new Map();
        for (let i = 0; i < c.pair.length; i++) {
            const key = c.pair[i] + ' ' + c.t[i];
            sums.set(key, (sums.get(key) ?? 0) + c.count[i]);
        }
        most.set(tile, Math.max(0, ...sums.values()));
    }
    return most.get(tile);
}

/* The batch of a density tile; look.most: as many hops as have the full colour. Its units are of four times the tile, from one tile before it, so that hops can begin before it. */
export function densityBatch(tile, rows, look)
{
    const c = tile.columns;
    const step = stepUs(tile) * 4, base = baseUs(tile) - stepUs(tile) * UNITS;
    const unit = t => t / 4 + UNITS / 4;
    const binUnits = Number(c.bin_ns[0]) / 1000 / step;
    const batch = batchOf(base, step, binUnits);
    const event = i => i === FIRST ? -1 : rows.of(c.events[i], '');
    const pairRows = Array.from(c.pair_from, (from, i) => [event(from), event(c.pair_to[i])]);
    const px = Math.max(look.usPerPx / step, binUnits / 8);
    const cells = new Map();
    for (let i = 0; i < c.pair.length; i++) {
        const [from, to] = pairRows[c.pair[i]];
        if (to < 0 || c.pair_late[c.pair[i]] || (look.clip && (c.t[i] < look.clip[0] || c.t[i] >= look.clip[1])))
            continue;
        const back = from < 0 || c.latency_bin[i] === NO_LATENCY ? 0 : (binNs(c.latency_bin[i]) + binNs(c.latency_bin[i] + 1)) / 2000 / step;
        const key = `${c.pair[i]} ${c.t[i]} ${Math.round(back / px)}`;
        const cell = cells.get(key);
        if (cell)
            cell.count += c.count[i];
        else
            cells.set(key, {from, to, t: unit(c.t[i]), back, count: c.count[i], source: i});
    }
    const scale = 1 / Math.log2(1 + Math.max(look.most ?? densest(tile), 1));
    for (const cell of cells.values())
        cellQuad(batch, rows, cell, Math.min(1, Math.log2(1 + cell.count) * scale));
    outlierLines(tile, batch, pairRows, rows, unit);
    batch.hops = batch.quads.n;
    return batch;
}

function cellQuad(batch, rows, {from, to, t, back, source}, strength)
{
    const alpha = 0.06 + 0.74 * strength * strength, colour = named('accent');
    if (from < 0) {
        const y = rows.y(to), half = 0.12 / rows.n;
        batch.quads.push(t, t, y - half, y + half, colour, alpha, 0, source);
        return;
    }
    const begins = Math.max(0, t - back);
    batch.quads.push(begins, t, between(rows.y(from), rows.y(to), back, begins - (t - back)), rows.y(to), colour, alpha, 0, source);
}

/* The height at which a hop of so much time is, so much of it after its begin. */
const between = (y0, y1, all, part) => all > 0 ? y0 + (y1 - y0) * part / all : y0;

function outlierLines(tile, batch, pairRows, rows, unit)
{
    const c = tile.columns;
    for (let i = 0; i < c.outlier_pair.length; i++) {
        const [from, to] = pairRows[c.outlier_pair[i]];
        if (to < 0)
            continue;
        const isError = c.outlier_severity[i] <= ERROR, t = unit(c.outlier_t[i]);
        const colour = isError ? named('error') : colourNumber(c.outlier_id[i]);
        const back = c.outlier_latency_ns[i] / 1000 / batch.stepUs;
        if (from >= 0 && back >= 0) {
            const begins = Math.max(0, t - back);
            batch.top.push(begins, t, between(rows.y(from), rows.y(to), back, begins - (t - back)), rows.y(to), colour, 1, isError ? 4 : 2, i);
        }
        if (isError)
            batch.points.push(t, t, rows.y(to), rows.y(to), colour, 1, pointStyle('cross', 8), i);
        else if (!(from >= 0 && back >= 0))
            batch.points.push(t, t, rows.y(to), rows.y(to), colour, 0.9, pointStyle('tick', 6), i);
    }
}

/* ---- the heatmap of latencies ---- */

/* range: [first, last bin] that the lane's height is; pair: 'from>to', or '' for all. */
export function heatBatch(tile, range, pair)
{
    const c = tile.columns;
    const batch = batchOf(baseUs(tile), stepUs(tile), Number(c.bin_ns[0]) / 1000 / stepUs(tile));
    const cells = heatCells(tile, pair);
    let most = 1;
    for (const cell of cells.values())
        most = Math.max(most, cell.count);
    const y = b => 1 - (b - range[0]) / (range[1] + 1 - range[0]);
    for (const {t, bin, count, source} of cells.values()) {
        const strength = Math.log2(1 + count) / Math.log2(1 + most);
        batch.quads.push(t, t, y(bin + 1), y(bin), named('heat-' + Math.min(5, Math.floor(strength * 6))), 1, 0, source);
    }
    c.outlier_pair.forEach((number, i) => {
        const bin = binOf(c.outlier_latency_ns[i]);
        if (isPair(tile, number, pair) && c.outlier_severity[i] <= ERROR && bin >= range[0])
            batch.points.push(c.outlier_t[i], c.outlier_t[i], y(bin + 0.5), y(bin + 0.5), named('error'), 1, pointStyle('cross', 6), i);
    });
    batch.hops = batch.quads.n;
    return batch;
}

const isPair = (tile, number, pair) => {
    const {pair_from: from, pair_to: to, pair_late: late, events} = tile.columns;
    return !late[number] && from[number] !== FIRST && (!pair || pair === events[from[number]] + '>' + events[to[number]]);
};

function heatCells(tile, pair)
{
    const c = tile.columns, cells = new Map();
    for (let i = 0; i < c.pair.length; i++) {
        if (c.latency_bin[i] === NO_LATENCY || !isPair(tile, c.pair[i], pair))
            continue;
        const key = c.t[i] * 256 + c.latency_bin[i];
        const cell = cells.get(key);
        if (cell)
            cell.count += c.count[i];
        else
            cells.set(key, {t: c.t[i], bin: c.latency_bin[i], count: c.count[i], source: i});
    }
    return cells;
}

/* The bins of latency that tiles have: [first, last], or null. */
export function heatRange(tiles, pair)
{
    let first = 255, last = -1;
    for (const tile of tiles) {
        const c = tile.columns;
        for (let i = 0; i < c.pair.length; i++) {
            if (c.latency_bin[i] === NO_LATENCY || !isPair(tile, c.pair[i], pair))
                continue;
            first = Math.min(first, c.latency_bin[i]);
            last = Math.max(last, c.latency_bin[i]);
        }
    }
    return last < 0 ? null : [Math.max(0, first - 2), Math.min(251, last + 2)];
}
