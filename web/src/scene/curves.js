/* curves.js - loadlines and points.
 *
 * A curve is one stream's values: per bin first, min, max, last (M4), so that a line of a pixel a bin looks as one through all values would. Counters
 * are shown as what they gain a second. A lane has one scale, that of all that is in view. */
import {batchOf, named, pointStyle} from './records.js';
import {baseUs, stepUs} from '../glt1.js';
import {severityLook} from '../palette.js';

const UNITS = 2 ** 32;
const GAP_BINS = 8, GAP_US = 70e6; /* a line ends where nothing came for so many bins, and for longer than a minute: agents say again what has not changed */

/* ---- curves ---- */

/* The curves of tiles, in order of time: Map of stream → {time, first, min, max, last, count} arrays (µs). Of counters rates a second.
 * bins: how wide. Tiles must be of one level and sorted. */
export function curvesOf(tiles, {isRate = false, max = 64} = {})
{
    const curves = new Map();
    let dropped = 0;
    for (const tile of tiles) {
        const c = tile.columns, base = baseUs(tile), step = stepUs(tile);
        for (let i = 0; i < c.t.length; i++) {
            const name = c.streams[c.row[i]];
            let curve = curves.get(name);
            if (!curve) {
                if (curves.size >= max) {
                    dropped++;
                    continue;
                }
                curve = {time: [], first: [], min: [], max: [], last: [], count: []};
                curves.set(name, curve);
            }
            curve.time.push(base + c.t[i] * step);
            curve.first.push(c.first[i]);
            curve.min.push(c.min[i]);
            curve.max.push(c.max[i]);
            curve.last.push(c.last[i]);
            curve.count.push(c.count[i]);
        }
    }
    if (isRate) {
        for (const [name, curve] of curves)
            curves.set(name, rateOf(curve));
    }
    curves.dropped = dropped;
    return curves;
}

/* What a counter gained a second from bin to bin. One that went back was set to zero: it has gained what it shows. */
export function rateOf(curve)
{
    const out = {time: [], first: [], min: [], max: [], last: [], count: []};
    for (let i = 1; i < curve.time.length; i++) {
        const gained = curve.last[i] >= curve.last[i - 1] ? curve.last[i] - curve.last[i - 1] : curve.last[i];
        const rate = gained / (curve.time[i] - curve.time[i - 1]) * 1e6;
        out.time.push(curve.time[i]);
        out.count.push(curve.count[i]);
        for (const part of ['first', 'min', 'max', 'last'])
            out[part].push(rate);
    }
    return out;
}

/* The least and greatest of all curves within a time; null if there is nothing. */
export function rangeOf(curves, from, to)
{
    let low = Infinity, high = -Infinity;
    for (const curve of curves.values()) {
        for (let i = 0; i < curve.time.length; i++) {
            if (curve.time[i] < from || curve.time[i] > to)
                continue;
            if (curve.min[i] < low)
                low = curve.min[i];
            if (curve.max[i] > high)
                high = curve.max[i];
        }
    }
    return low <= high ? [low, high] : null;
}

/* A scale with round ends that has the range within; from 0 on where that is near. */
export function niceScale([low, high])
{
    if (low >= 0 && low < high * 0.6)
        low = 0;
    if (low === high) {
        low = low > 0 ? 0 : low - 1;
        high = high > 0 ? high * 1.25 : high + 1;
    }
    const step = niceStep((high - low) / 3);
    return {low: Math.floor(low / step) * step, high: Math.ceil(high / step) * step, step};
}

export function niceStep(rough)
{
    const power = 10 ** Math.floor(Math.log10(rough));
    const part = rough / power;
    return (part <= 1 ? 1 : part <= 2 ? 2 : part <= 5 ? 5 : 10) * power;
}

const usualGap = times => {
    const gaps = [];
    for (let i = 1; i < times.length && i < 400; i++)
        gaps.push(times[i] - times[i - 1]);
    return gaps.sort((a, b) => a - b)[gaps.length >> 1] ?? 0;
};

/* One batch for all curves of a lane. style: 'line', 'dots' (a scatter), 'area'; colours: stream → number of a colour. */
export function curveBatch(curves, scale, binUs, {style = 'line', colours})
{
    let from = Infinity, to = -Infinity;
    for (const {time} of curves.values()) {
        if (time.length) {
            from = Math.min(from, time[0]);
            to = Math.max(to, time[time.length - 1]);
        }
    }
    if (from > to)
        from = to = 0;
    const step = Math.max(1e-6, (to - from + binUs * 4) / UNITS);
    const batch = batchOf(from, step, binUs / step);
    const y = v => 1 - (v - scale.low) / (scale.high - scale.low);
    let number = 0;
    for (const [name, curve] of curves) {
        const colour = colours.get(name);
        oneCurve(batch, curve, {y, colour, style, number, binUs, unit: us => Math.min(UNITS - 1, Math.round((us - from) / step))});
        number++;
    }
    batch.hops = 0;
    return batch;
}

function oneCurve(batch, curve, {y, colour, style, number, binUs, unit})
{
    const gap = Math.max(GAP_US, binUs * GAP_BINS, usualGap(curve.time) * 4);
    const source = i => (number << 20 | Math.min(i, 0xfffff)) >>> 0;
    const dot = pointStyle('dot', 5);
    for (let i = 0; i < curve.time.length; i++) {
        const t = unit(curve.time[i]);
        if (!(curve.min[i] <= curve.max[i]))
            continue; /* nothing but NaN */
        if (style === 'dots') {
            batch.points.push(t, t, y(curve.max[i]), y(curve.max[i]), colour, 0.9, dot, source(i));
            if (curve.min[i] < curve.max[i])
                batch.points.push(t, t, y(curve.min[i]), y(curve.min[i]), colour, 0.9, dot, source(i));
            continue;
        }
        if (curve.min[i] < curve.max[i])
            batch.quads.push(t, t, y(curve.max[i]), y(curve.min[i]), colour, 0.35, 0, source(i));
        if (i === 0 || curve.time[i] - curve.time[i - 1] > gap)
            batch.points.push(t, t, y(curve.last[i]), y(curve.last[i]), colour, 0.8, pointStyle('dot', 3), source(i));
        else
            batch.lines.push(unit(curve.time[i - 1]), t, y(curve.last[i - 1]), y(curve.count[i] > 1 ? curve.first[i] : curve.last[i]), colour, 1, 3, source(i));
    }
}

/* ---- points ---- */

/* A stream's text: 'host prog name key=value,…' */
export function streamParts(text)
{
    const [host = '', prog = '', name = '', ...keys] = text.split(' ');
    return {host, prog, name, keys: keys.join(' ')};
}

/* The row of a point: by its event, host or level. */
export function pointRow(stream, severity, by)
{
    if (by === 'level')
        return severity;
    const parts = streamParts(stream);
    return by === 'host' ? parts.host : parts.name;
}

const GRID_MAX = 1 << 22;

/* When points are, in the units of a batch that has room for all of them: {base, step, t}. With offsets (host → µs): as the hosts' own clocks
 * showed it, which may be far from the tile's time. */
function pointTimes(tile, offsets)
{
    const c = tile.columns, base = baseUs(tile), step = stepUs(tile);
    const back = c.streams.map(s => offsets?.get(streamParts(s).host) ?? 0);
    const most = Math.max(0, ...back), least = Math.min(0, ...back);
    if (most === 0 && least === 0)
        return {base, step, t: c.t};
    const wide = step + (most - least) / UNITS;
    return {base: base - most, step: wide, t: Float64Array.from(c.t, (t, i) => Math.round((t * step + most - back[c.row[i]]) / wide))};
}

/* The first event of each row, level and column of pixels, and how many there are: [{i, row, count}]. */
function glyphsOf(c, t, rowOf, px, rows)
{
    while (UNITS / px * rows * 16 > GRID_MAX)
        px *= 2;
    const columns = Math.ceil(UNITS / px);
    const at = new Int32Array(columns * rows * 16), out = [];
    for (let i = 0; i < c.t.length; i++) {
        const row = rowOf(i);
        if (row < 0)
            continue;
        const key = (Math.floor(Math.min(UNITS - 1, t[i]) / px) * rows + row) * 16 + c.severity[i];
        if (at[key])
            out[at[key] - 1].count += c.count[i];
        else
            at[key] = out.push({i, row, count: c.count[i]});
    }
    return out;
}

/* One glyph for all events of a row, a level and a column of two to four pixels: they would cover each other. The worst is drawn last. */
export function pointBatch(tile, rows, {by, usPerPx, offsets = null, isLeftOut = () => false})
{
    const c = tile.columns, {base, step, t: times} = pointTimes(tile, offsets);
    const batch = batchOf(base, step);
    const binUnits = Number(c.bin_ns[0] ?? 0n) / 1000 / batch.stepUs;
    const ofStream = c.streams.map(s => isLeftOut(s) ? -1 : by === 'level' ? 0 : rows.of(String(pointRow(s, 0, by))));
    const ofLevel = Array.from({length: 16}, (_, level) => rows.of(String(level)));
    const rowOf = by === 'level' ? i => ofStream[c.row[i]] < 0 ? -1 : ofLevel[c.severity[i]] : i => ofStream[c.row[i]];
    const glyphs = glyphsOf(c, times, rowOf, Math.max(1, 2 * usPerPx / batch.stepUs), rows.n);
    for (const {i, row, count} of glyphs.sort((a, b) => c.severity[b.i] - c.severity[a.i])) {
        const look = severityLook(c.severity[i]);
        const t = Math.min(UNITS - 1, times[i] + binUnits / 2);
        const size = Math.min(14, (look.shape === 'dot' ? 4 : 7) + Math.floor(Math.log2(count)));
        batch.points.push(t, t, rows.y(row), rows.y(row), named(look.color), look.color === 'error' ? 1 : 0.85, pointStyle(look.shape, size), i);
    }
    batch.hops = 0;
    return batch;
}
