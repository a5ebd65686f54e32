/* series.js - curves out of series tiles: streams, their bins, rates of counters, and what a chart takes.
 *
 * The pure part works on runs: of one stream {stream, x, first, min, max, last, n} in order of time, one value a bin. */
import {effect, untracked} from '@preact/signals-core';
import {useEffect, useMemo} from 'preact/hooks';
import {useSignal} from '@preact/signals';
import {tileSet} from './tiles.js';
import {baseUs, stepUs} from './glt1.js';
import {view} from './state.js';

const STREAMS_MAX = 64; /* of one chart */

/* 'host prog name key=value,…' → {host, prog, name, key} */
export function streamOf(text)
{
    const [host, prog, name, ...rest] = text.split(' ');
    return {host, prog, name, key: rest.join(' ')};
}

/* The runs of a tile set's entries: text of the stream → run. Bins are put in the middle of their time. */
export function runsOf(entries)
{
    const runs = new Map();
    for (const {from, to, tile} of entries) {
        const {row, t, min, max, last, first, count, streams, bin_ns: bin} = tile.columns;
        const base = baseUs(tile), step = stepUs(tile), binUs = Number(bin[0]) / 1000;
        for (let i = 0; i < row.length; i++) {
            const at = base + t[i] * step;
            if (at < from || at >= to)
                continue; /* another tile's, where this one stands in */
            const name = streams[row[i]];
            let run = runs.get(name);
            if (!run)
                runs.set(name, run = {stream: name, bin: binUs, x: [], first: [], min: [], max: [], last: [], n: []});
            run.bin = Math.max(run.bin, binUs);
            run.x.push(at + binUs / 2);
            run.first.push(first[i]);
            run.min.push(min[i]);
            run.max.push(max[i]);
            run.last.push(last[i]);
            run.n.push(count[i]);
        }
    }
    return runs;
}

/* The mean time between two samples of a run. */
export function periodOf(run)
{
    const samples = run.n.reduce((a, b) => a + b, 0);
    return samples > 1 ? Math.max((run.x.at(-1) - run.x[0] + run.bin) / samples, 1) : Infinity;
}

/* Where a run is broken: nothing came for so long. */
const gapOf = run => Math.max(3.5 * periodOf(run), 2.5 * run.bin);

/* Points [{x, v, lo, hi}] of a gauge; a point with v null is a gap. */
export function gaugePoints(run, map = v => v)
{
    const out = [], gap = gapOf(run);
    for (let i = 0; i < run.x.length; i++) {
        if (i && run.x[i] - run.x[i - 1] > gap)
            out.push({x: run.x[i - 1] + run.bin, v: null, lo: null, hi: null});
        const lo = map(run.min[i]), hi = map(run.max[i]);
        out.push({x: run.x[i], v: map(run.last[i]), lo: Math.min(lo, hi), hi: Math.max(lo, hi)});
    }
    return out;
}

/* How long it was between the last samples of two bins. A tile says in which bin a sample was, not when within; so it is taken
 * from how many there are, each a period apart, and as many more as must have been left out, as far as that agrees with the
 * bins. A sample that falls into this bin or the next one so makes no wave. */
function elapsedOf(between, bin, samples, period)
{
    const least = Math.floor((between - bin) / period) + 1;
    return Math.max(between - bin, Math.min(between + bin, Math.max(samples, least) * period));
}

/* Points of what a counter gains a second. A counter that went back was set to zero in between. */
export function ratePoints(run, map = v => v)
{
    const out = [], period = periodOf(run), gap = gapOf(run);
    for (let i = 1; i < run.x.length; i++) {
        const between = run.x[i] - run.x[i - 1];
        if (between > gap) {
            out.push({x: run.x[i - 1] + run.bin, v: null, lo: null, hi: null});
            continue;
        }
        const elapsed = elapsedOf(between, run.bin, run.n[i], period);
        const gained = run.last[i] >= run.last[i - 1] ? run.last[i] - run.last[i - 1] : run.last[i];
        const v = elapsed > 0 ? map(gained / elapsed * 1e6) : null;
        if (between > 2.5 * run.bin)
            out.push({x: run.x[i - 1] + run.bin, v, lo: v, hi: v}); /* so it was all the time since */
        out.push({x: run.x[i], v, lo: v, hi: v});
    }
    return out;
}

/* Each value as its part (in %) of the sum of all at that time. What the time between two samples was cancels out. */
export function shares(lists)
{
    const sums = new Map();
    for (const p of lists.flat())
        sums.set(p.x, (sums.get(p.x) ?? 0) + (p.v ?? 0));
    const part = p => p.v === null || !sums.get(p.x) ? null : 100 * p.v / sums.get(p.x);
    return lists.map(points => points.map(p => ({x: p.x, v: part(p), lo: part(p), hi: part(p)})));
}

/* Lists of points as a chart's data: [times, values of each, and with bands least and greatest of each]. Where another list has a
 * time and this one has not: undefined, which is no gap. */
export function aligned(lists, hasBands)
{
    const xs = [...new Set(lists.flatMap(points => points.map(p => p.x)))].sort((a, b) => a - b);
    const place = new Map(xs.map((x, i) => [x, i]));
    const column = (points, name) => {
        const out = new Array(xs.length).fill(undefined);
        for (const p of points)
            out[place.get(p.x)] = p[name];
        return out;
    };
    return [xs, ...lists.map(points => column(points, 'v')), ...(hasBands ? lists.flatMap(points => [column(points, 'lo'), column(points, 'hi')]) : [])];
}

/* ---- the hook ---- */

/* parts: [{event, field, host, key, label, rate, map(v), pick(stream)}]: each a tile set of one field. A part without a label has a curve for
 * each stream, called labelOf(stream). isShare: values are parts of the sum of all; a part with `isRest` counts and is not shown.
 * → {series, data, progress, hasBands, reach}, which Chart takes. `name` must say all of it. */
export function useSeries(name, parts, {pixels = 240, labelOf = s => s.key || s.host, bands = true, isShare = false} = {})
{
    const out = useSignal({series: [], data: [[]], progress: {done: 0, all: 1, error: null}, hasBands: false, reach: Infinity, leftOut: 0});
    const sets = useMemo(() => parts.map(p => tileSet({kind: 'series', name: p.event, params: {field: p.field, host: p.host, key: p.key}})), [name]);
    useEffect(() => {
        const ends = [
            effect(() => {
                const from = view.from.value, to = view.to.value;
                untracked(() => sets.forEach(set => set.want(from, to, pixels)));
            }),
            effect(() => { out.value = curves(parts, sets, {labelOf, bands, isShare}); }),
        ];
        return () => {
            ends.forEach(end => end());
            sets.forEach(set => set.close());
        };
    }, [sets]);
    return out;
}

function curves(parts, sets, {labelOf, bands, isShare})
{
    let series = [], lists = [];
    let leftOut = 0, reach = 0;
    parts.forEach((part, i) => {
        for (const {tile} of sets[i].tiles.value)
            leftOut = Math.max(leftOut, tile.leftOut);
        for (const run of runsOf(sets[i].tiles.value).values()) {
            const stream = streamOf(run.stream);
            if (lists.length >= STREAMS_MAX || (part.pick && !part.pick(stream)))
                continue;
            reach = Math.max(reach, gapOf(run));
            series.push({label: part.label ?? labelOf(stream, part), color: part.color, fill: part.fill, isRest: part.isRest});
            lists.push(part.rate ? ratePoints(run, part.map) : gaugePoints(run, part.map));
        }
    });
    if (isShare) {
        lists = shares(lists).filter((_, i) => !series[i].isRest);
        series = series.filter(s => !s.isRest);
    }
    const hasBands = bands && lists.length > 0 && lists.length <= 8 && parts.every(p => !p.rate);
    const progress = sets.map(s => s.progress.value);
    const sum = name => progress.reduce((a, p) => a + p[name], 0);
    return {series, data: aligned(lists, hasBands), hasBands, reach: reach || Infinity, leftOut,
            progress: {done: sum('done'), all: sum('all'), error: progress.find(p => p.error)?.error ?? null}};
}
