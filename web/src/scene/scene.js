/* scene.js - lanes and their tiles as batches of records (records.js), and what is known of them: rows, scales, counts. Plain data: no canvas, no page.
 *
 * A lane is {spec, top, height, entries: [[tile entry…] for each source]}; entries are those of tiles.js: {from, to, tile}. update() makes of a lane
 *
 *     rows     the names on its height, or null        scale   {low, high, step} of values, or null; heat: {first, last} bins
 *     batches  what is drawn                           status  {lod, leftOut, lost, isOpen, isCoarse, isGlobalTime}
 *     colours  what has which colour: Map of text → number
 *
 * and again only what has changed: a batch depends on its tile, the lane's look and the octave of the zoom. */
import {baseUs, stepUs} from '../glt1.js';
import {colourNumber, LAYERS} from './records.js';
import {rowsOf} from './layout.js';
import {autoOrder, mergedOrder} from './order.js';
import {hopsOf, exactHops, exactBatch, densityBatch, heatBatch, heatRange, prepare, tileStart, tileEnd, densest, DOTS_BELOW} from './lifelines.js';
import {curvesOf, rangeOf, niceScale, curveBatch, pointBatch, pointRow, streamParts} from './curves.js';

const ROWS_MAX = 60, POINT_ROWS_MAX = 16;
const ERROR = 3;

export const octave = v => 2 ** Math.floor(Math.log2(Math.max(1e-6, v)));

/* The octave of the zoom: µs a pixel, such that ns are a power of two, as units of tiles are. So columns of pixels are whole columns of units. */
const zoomOf = view => octave((view.to - view.from) / view.width * 1000) / 1000;

export function createLane(spec)
{
    return {spec, top: 0, height: 0, entries: [], rows: null, scale: null, batches: [], colours: new Map(), curves: null, status: statusOf([]), made: new Map(),
            key: '', order: []};
}

/* What tiles say of how true the picture is. */
export function statusOf(tiles)
{
    const kinds = new Set(tiles.map(t => t.kind));
    const sum = name => tiles.reduce((n, t) => n + t[name], 0);
    return {lod: !tiles.length ? 'none' : kinds.has('lifeline-density') ? kinds.has('lifeline-exact') ? 'mixed' : 'density'
                                        : tiles.some(t => t.columns.bin_ns?.[0] > 0n) && kinds.has('points') ? 'counted' : 'exact',
            leftOut: sum('leftOut'), lost: sum('lost'), isOpen: tiles.some(t => t.isOpen), isCoarse: tiles.some(t => t.isCoarse), bytes: sum('bytes')};
}

/* Each tile once, with the time that it is drawn for. */
function distinct(entries)
{
    const out = new Map();
    for (const e of entries) {
        const there = out.get(e.tile);
        if (there) {
            there.from = Math.min(there.from, e.from);
            there.to = Math.max(there.to, e.to);
        } else {
            out.set(e.tile, {tile: e.tile, from: e.from, to: e.to});
        }
    }
    return [...out.values()];
}

/* Takes the batch that was made for the tile if it was made for the same look. */
function made(lane, tile, key, make)
{
    const old = lane.made.get(tile);
    if (old?.key === key)
        return old.batch;
    const batch = make();
    batch.lane = lane;
    batch.tile = tile;
    lane.made.set(tile, {key, batch});
    return batch;
}

function forgetOthers(lane, tiles)
{
    const now = new Set(tiles);
    for (const tile of lane.made.keys()) {
        if (!now.has(tile))
            lane.made.delete(tile);
    }
}

/* ---- lifelines ---- */

const groupKey = (event, host) => host + ' ' + event;

/* The names of rows: events, or events of each host. */
function lifelineRows(lane, tiles)
{
    const {spec} = lane;
    const hidden = new Set(spec.hide ?? []);
    const names = new Set();
    for (const tile of tiles)
        tile.columns.events.forEach(e => names.add(e));
    const key = [...names].sort().join('\u0001');
    if (key !== lane.namesKey || !lane.orderIsSure) {
        const hops = hopsOf(tiles);
        lane.orderIsSure = hops.size >= names.size - 1;
        lane.namesKey = key;
        lane.order = autoOrder([...names], hops);
    }
    const events = mergedOrder(spec.order ?? [], lane.order).filter(n => !hidden.has(n)).slice(0, ROWS_MAX);
    if (spec.group !== 'host')
        return rowsOf(events);
    const hosts = new Map();
    for (const tile of tiles) {
        if (tile.kind !== 'lifeline-exact')
            continue;
        const {event} = prepare(tile), c = tile.columns;
        for (let v = 0; v < event.length; v++) {
            const host = c.hosts[c.vertex_host[v]];
            if (!hosts.has(host))
                hosts.set(host, new Set());
            hosts.get(host).add(c.events[event[v]]);
        }
    }
    if (!hosts.size)
        return rowsOf(events);
    const at = event => events.indexOf(event);
    const first = of => Math.min(...[...of].map(at).filter(i => i >= 0));
    const list = [...hosts].sort(([a, x], [b, y]) => first(x) - first(y) || (a < b ? -1 : 1))
        .flatMap(([host, of]) => events.filter(e => of.has(e)).map(e => groupKey(e, host)));
    const rows = rowsOf(list.slice(0, ROWS_MAX), groupKey);
    rows.isGrouped = true;
    return rows;
}

/* The part of a stand-in's time that is drawn. */
function clipOf({tile, from, to})
{
    const base = baseUs(tile), step = stepUs(tile);
    return [Math.max(tileStart(tile), (from - base) / step), Math.min(tileEnd(tile), (to - base) / step)];
}

/* Tiles beside the view keep what they have: it is brought up to date when they come into it. */
const isNear = ({from, to}, view) => to > view.from - (view.to - view.from) && from < view.to + (view.to - view.from);

const offsetsKey = view => view.offsets ? [...view.offsets].join() : '';

/* Is it asked for as clocks showed it, and is there a clock that was off? Density is counted over all hosts, by global time, and stays so. */
const isApart = (view, tiles) => tiles.some(t => t.kind === 'lifeline-density') && [...view.offsets?.values() ?? []].some(us => us !== 0);

function updateLifelines(lane, view)
{
    const entries = distinct(lane.entries[0] ?? []);
    const tiles = entries.map(e => e.tile);
    lane.rows = lifelineRows(lane, tiles);
    lane.status = {...statusOf(tiles), isGlobalTime: isApart(view, tiles)};
    const usPerPx = zoomOf(view);
    const hasDots = tiles.reduce((n, t) => n + (t.columns.vertex_t?.length ?? DOTS_BELOW), 0) <= DOTS_BELOW;
    const dense = Math.max(1, ...tiles.filter(t => t.kind === 'lifeline-density').map(densest));
    const look = {color: lane.spec.color ?? 'id', usPerPx, hasDots, most: 2 ** Math.ceil(Math.log2(dense))};
    const key = [usPerPx, look.color, hasDots, look.most].join();
    const rowsKey = [offsetsKey(view), lane.rows.names.join('\u0001')].join('\u0002');
    const now = new Set(tiles);
    for (const tile of lane.made.keys()) {
        if (!now.has(tile))
            lane.made.delete(tile);
    }
    lane.batches = entries.flatMap(entry => {
        const had = lane.made.get(entry.tile);
        if (!isNear(entry, view))
            return had ? [had.batch] : [];
        const clip = clipOf(entry), own = rowsKey + clip.join();
        if (had?.key === key && had.own === own)
            return [had.batch];
        const isExact = entry.tile.kind === 'lifeline-exact';
        const hops = had?.own === own ? had.hops : isExact ? exactHops(entry.tile, lane.rows, {offsets: view.offsets, clip}) : null;
        const batch = isExact ? exactBatch(entry.tile, lane.rows, look, hops) : densityBatch(entry.tile, lane.rows, {...look, clip});
        Object.assign(batch, {lane, tile: entry.tile});
        lane.made.set(entry.tile, {key, own, hops, batch});
        return [batch];
    });
}

function updateHeat(lane, view)
{
    const entries = distinct(lane.entries[0] ?? []).filter(e => e.tile.kind === 'lifeline-density');
    const tiles = entries.map(e => e.tile);
    const range = heatRange(tiles, lane.spec.pair ?? '');
    lane.status = {...statusOf(tiles), isGlobalTime: isApart(view, tiles)};
    lane.pairs = [...hopsOf(tiles).entries()].sort((a, b) => b[1] - a[1]).map(([key]) => key.replace('\u0000', '>'));
    lane.scale = range && {first: range[0], last: range[1]};
    lane.batches = !range ? [] : entries.map(({tile}) => made(lane, tile, range.join() + (lane.spec.pair ?? ''), () => heatBatch(tile, range, lane.spec.pair ?? '')));
    forgetOthers(lane, tiles);
}

/* ---- curves ---- */

/* Sources of a lane: [{event, field, isRate}]. Streams of all of them are the lane's curves. */
function updateCurves(lane, view)
{
    const {spec} = lane;
    const all = lane.entries.map(distinct);
    const tiles = all.flat().map(e => e.tile);
    const key = [view.from, view.to].join();
    if (lane.lastTiles && tiles.length === lane.lastTiles.length && tiles.every((t, i) => t === lane.lastTiles[i])) {
        if (lane.key === key || !lane.curves)
            return;
    } else {
        lane.lastTiles = tiles;
        lane.status = statusOf(tiles);
        lane.curves = new Map();
        lane.binUs = 0;
        all.forEach((entries, i) => mergeCurves(lane, entries, spec.of[i], all.length > 1, view.offsets));
    }
    lane.key = key;
    const range = rangeOf(lane.curves, view.from, view.to) ?? rangeOf(lane.curves, -Infinity, Infinity);
    const scale = range && niceScale(range);
    const isSameScale = scale && lane.scale && scale.low === lane.scale.low && scale.high === lane.scale.high;
    if (isSameScale && lane.batches[0]?.curves === lane.curves)
        return;
    lane.scale = scale;
    if (!scale) {
        lane.batches = [];
        return;
    }
    const batch = curveBatch(lane.curves, scale, lane.binUs, {style: spec.style, colours: lane.colours});
    batch.lane = lane;
    batch.curves = lane.curves;
    lane.batches = [batch];
}

function mergeCurves(lane, entries, source, isMany, offsets)
{
    const tiles = entries.map(e => e.tile).filter(t => t.kind === 'series').sort((a, b) => Number(a.baseNs - b.baseNs) || 0);
    for (const tile of tiles)
        lane.binUs = Math.max(lane.binUs, Number(tile.columns.bin_ns[0] ?? 0n) / 1000);
    const curves = curvesOf(tiles, {isRate: source?.isRate});
    lane.status.leftOut += curves.dropped ? 1 : 0;
    for (const [stream, curve] of curves) {
        const {host, keys} = streamParts(stream);
        const name = [isMany || !keys ? source?.field : '', keys, host].filter(Boolean).join(' ');
        const shift = offsets?.get(host) ?? 0;
        if (shift)
            curve.time = curve.time.map(t => t - shift);
        lane.curves.set(name, curve);
        if (!lane.colours.has(name))
            lane.colours.set(name, lane.colours.size < 24 ? lane.colours.size : colourNumber(name));
    }
}

/* ---- points ---- */

/* What the archive makes of lifelines (docs/tiles.md) is there a second time; unless it is asked for, it is not shown. */
const isDerived = (stream, spec) => streamParts(stream).name.startsWith('lifeline.') && !(spec.event ?? '').startsWith('lifeline.');

/* The names of the events that a lane of points has tiles of. */
export function pointEvents(lane)
{
    const streams = (lane.entries[0] ?? []).flatMap(e => e.tile.columns.streams ?? []).filter(s => !isDerived(s, lane.spec));
    return [...new Set(streams.map(s => streamParts(s).name))];
}

function updatePoints(lane, view)
{
    const {spec} = lane, by = spec.by ?? 'event';
    const entries = distinct(lane.entries[0] ?? []);
    const tiles = entries.map(e => e.tile).filter(t => t.kind === 'points');
    const names = new Map();
    for (const {columns: c} of tiles) {
        const isOut = c.streams.map(s => isDerived(s, spec)), own = c.streams.map(s => pointRow(s, 0, by));
        const total = new Float64Array(Math.max(16, c.streams.length));
        for (let i = 0; i < c.t.length; i++) {
            if (!isOut[c.row[i]])
                total[by === 'level' ? c.severity[i] : c.row[i]] += c.count[i];
        }
        total.forEach((n, i) => {
            if (n)
                names.set(by === 'level' ? String(i) : own[i], (names.get(by === 'level' ? String(i) : own[i]) ?? 0) + n);
        });
    }
    const list = [...names].sort((a, b) => by === 'level' ? b[0] - a[0] : b[1] - a[1] || (a[0] < b[0] ? -1 : 1)).slice(0, POINT_ROWS_MAX).map(([n]) => n).sort();
    lane.rows = rowsOf(list.reverse());
    lane.status = statusOf(tiles);
    lane.status.leftOut += names.size > POINT_ROWS_MAX ? names.size - POINT_ROWS_MAX : 0;
    const usPerPx = zoomOf(view);
    const key = [usPerPx, by, offsetsKey(view), list.join('\u0001')].join('\u0002');
    lane.batches = tiles.map(tile => made(lane, tile, key, () => pointBatch(tile, lane.rows, {by, usPerPx, offsets: view.offsets, isLeftOut: stream => isDerived(stream, spec)})));
    forgetOthers(lane, tiles);
}

const UPDATE = {lifelines: updateLifelines, heat: updateHeat, curves: updateCurves, points: updatePoints};

/* Brings a lane's batches up to date, where anything that they depend on has changed. view: {from, to, width, offsets: Map host → µs or null}; lane.entries
 * is another array when there are other tiles. */
export function updateLane(lane, view)
{
    const usPerPx = zoomOf(view);
    const isStill = lane.spec.kind !== 'curves' && lane.last && lane.last.spec === lane.spec && lane.last.offsets === view.offsets && lane.last.usPerPx === usPerPx
        && lane.last.entries === lane.entries && view.from >= lane.last.from && view.to <= lane.last.to;
    if (isStill)
        return;
    const margin = (view.to - view.from) / 2;
    lane.last = {spec: lane.spec, offsets: view.offsets, usPerPx, entries: lane.entries, from: view.from - margin, to: view.to + margin};
    UPDATE[lane.spec.kind](lane, view);
}

/* ---- counting: what is on the screen, to be compared with SQL ---- */

function countExact(tile, view, clip, into)
{
    const c = tile.columns, p = prepare(tile), base = baseUs(tile), step = stepUs(tile);
    for (let l = 0; l + 1 < p.start.length; l++) {
        let events = 0;
        for (let v = p.start[l]; v < p.start[l + 1]; v++) {
            const us = base + c.vertex_t[v] * step;
            if (c.vertex_t[v] >= clip[0] && c.vertex_t[v] < clip[1] && us >= view.from && us < view.to)
                events++;
        }
        if (!events)
            continue;
        into.vertices += events;
        into.ids.add(c.id[l]);
        if (c.severity[l] <= ERROR)
            into.errorIds.add(c.id[l]);
    }
}

function countDensity(tile, view, into)
{
    const c = tile.columns, base = baseUs(tile), step = stepUs(tile);
    for (let i = 0; i < c.t.length; i++) {
        const us = base + c.t[i] * step;
        if (us >= view.from && us < view.to)
            into.vertices += c.count[i];
    }
    c.outlier_id.forEach((id, i) => {
        if (c.outlier_severity[i] <= ERROR)
            into.errorIds.add(id);
    });
}

/* {lifelines, vertices, points, curves, errors, segments, quads, drawn}: lifelines and vertices (events of lifelines) within the view; what was drawn for it. */
export function countScene(lanes, view)
{
    const out = {lifelines: 0, vertices: 0, points: 0, curves: 0, errors: 0, segments: 0, drawn: {}};
    for (const layer of LAYERS)
        out.drawn[layer] = 0;
    for (const lane of lanes) {
        const into = {vertices: 0, ids: new Set(), errorIds: new Set()};
        for (const entry of lane.spec.kind === 'lifelines' ? distinct(lane.entries[0] ?? []) : []) {
            if (entry.tile.kind === 'lifeline-exact')
                countExact(entry.tile, view, clipOf(entry), into);
            else
                countDensity(entry.tile, view, into);
        }
        out.vertices += into.vertices;
        out.lifelines += into.ids.size;
        out.errors += into.errorIds.size;
        if (lane.spec.kind === 'points')
            countPoints(lane, view, out);
        if (lane.spec.kind === 'curves')
            out.curves += lane.curves?.size ?? 0;
        for (const batch of lane.batches) {
            out.segments += lane.spec.kind === 'lifelines' ? batch.hops : 0;
            for (const layer of LAYERS)
                out.drawn[layer] += batch[layer].n;
        }
    }
    return out;
}

function countPoints(lane, view, out)
{
    for (const {tile} of distinct(lane.entries[0] ?? [])) {
        const c = tile.columns, base = baseUs(tile), step = stepUs(tile);
        for (let i = 0; i < c.t.length; i++) {
            const us = base + c.t[i] * step;
            if (us < view.from || us >= view.to || isDerived(c.streams[c.row[i]], lane.spec))
                continue;
            out.points += c.count[i];
            out.errors += c.severity[i] <= ERROR ? c.count[i] : 0;
        }
    }
}
