/* The scene: order of rows, what is drawn of tiles, thinning, counts, hits, scales, statistics. */
import test from 'node:test';
import assert from 'node:assert/strict';
import {autoOrder, mergedOrder, moved} from '../../../web/src/scene/order.js';
import {stack, rowsOf, rowAt, laneAt, heightOf, AXIS_PX, HEAD_PX} from '../../../web/src/scene/layout.js';
import {Records, placeOf, isInView, WORDS, named} from '../../../web/src/scene/records.js';
import {exactBatch, thin, densityBatch, heatBatch, heatRange, hopsOf, latencyStep} from '../../../web/src/scene/lifelines.js';
import {curvesOf, rateOf, rangeOf, niceScale, curveBatch, pointBatch, streamParts} from '../../../web/src/scene/curves.js';
import {createLane, updateLane, countScene, octave, pointEvents} from '../../../web/src/scene/scene.js';
import {Raster, drawInto, maskOf, THICK_MAX_SOFTWARE} from '../../../web/src/scene/flat.js';
import {notesOf} from '../../../web/src/pages/timeline-gutter.js';
import {hit, toSegment} from '../../../web/src/scene/hit.js';
import {quantile, summaryOf, binNs, binOf, binnedSummary} from '../../../web/src/scene/stats.js';
import {baseUs, stepUs} from '../../../web/src/glt1.js';
import {exactTile, manyLifelines, densityTile, seriesTile, pointsTile, entryOf, tileUs, seeded} from './scene_tiles.mjs';

const LEVEL = 14, FROM = 1000 * tileUs(LEVEL), TO = FROM + tileUs(LEVEL);
const port = (more = {}) => ({from: FROM, to: TO, width: 1000, height: 600, scroll: 0, dpr: 1, offsets: null, ...more});

function laneOf(spec, tiles, view = port(), at = {top: 50, height: 200})
{
    const lane = Object.assign(createLane(spec), at);
    lane.entries = [tiles.map(entryOf)];
    updateLane(lane, view);
    return lane;
}

const word = (records, i, w) => records.words[i * WORDS + w];
const colours = records => Array.from({length: records.n}, (_, i) => word(records, i, 3) >>> 10 & 511);

/* ---- order ---- */

test('a pipeline stands in its order, also one that begins again', () => {
    const hops = pairs => new Map(pairs.map(([a, b, n]) => [a + '\u0000' + b, n]));
    const names = ['recv', 'end', 'send', 'queue', 'start'];
    assert.deepEqual(autoOrder(names, hops([['send', 'queue', 9], ['queue', 'start', 9], ['start', 'end', 9], ['end', 'recv', 9]])), ['send', 'queue', 'start', 'end', 'recv']);
    assert.deepEqual(autoOrder(['c', 'b', 'a'], hops([['a', 'b', 10], ['b', 'c', 10], ['c', 'a', 9]])), ['a', 'b', 'c']);
    assert.deepEqual(autoOrder(['b', 'a'], new Map()), ['a', 'b']);
    assert.deepEqual(autoOrder(['x'], hops([['x', 'x', 5]])), ['x']);
    assert.deepEqual(autoOrder([], new Map()), []);
});

test('every name is in the order once, whatever the hops', () => {
    const random = seeded(7);
    for (let round = 0; round < 50; round++) {
        const names = Array.from({length: 1 + Math.floor(random() * 12)}, (_, i) => 'e' + i);
        const hops = new Map();
        for (let i = 0; i < random() * 40; i++)
            hops.set(names[Math.floor(random() * names.length)] + '\u0000' + names[Math.floor(random() * names.length)], Math.ceil(random() * 9));
        assert.deepEqual(autoOrder(names, hops).sort(), [...names].sort());
    }
});

test('what a person chose stays; what is new finds its place', () => {
    assert.deepEqual(mergedOrder(['c', 'a'], ['a', 'b', 'c', 'd']), ['c', 'd', 'a', 'b']);
    assert.deepEqual(mergedOrder([], ['a', 'b']), ['a', 'b']);
    assert.deepEqual(mergedOrder(['gone', 'b'], ['a', 'b']), ['a', 'b']);
    assert.deepEqual(moved(['a', 'b', 'c'], 'a', 'c'), ['b', 'c', 'a']);
    assert.deepEqual(moved(['a', 'b', 'c'], 'c', 'a'), ['c', 'a', 'b']);
    assert.deepEqual(moved(['a', 'b'], 'a', 'nothing'), ['a', 'b']);
});

/* ---- layout ---- */

test('lanes stand below each other; rows from the bottom', () => {
    const {lanes, height} = stack([100, 50]);
    assert.deepEqual(lanes[0], {top: AXIS_PX + HEAD_PX, height: 100});
    assert.ok(lanes[1].top >= lanes[0].top + 100 + HEAD_PX);
    assert.ok(height > lanes[1].top + 50);
    assert.equal(laneAt(lanes, lanes[1].top + 10), 1);
    assert.equal(laneAt(lanes, 2), -1);
    const rows = rowsOf(['first', 'last']);
    assert.ok(rows.y(rows.of('first')) > rows.y(rows.of('last')));
    assert.equal(rowAt(rows, rows.y(0)), 0);
    assert.equal(rows.of('other'), -1);
    assert.equal(heightOf({kind: 'curves', height: 5}), 36);
    assert.ok(heightOf({kind: 'lifelines'}, 10) > heightOf({kind: 'lifelines'}, 5));
});

/* ---- records ---- */

test('a record keeps its times exactly and its height to a 65536th', () => {
    const r = new Records(1);
    for (let i = 0; i < 5; i++)
        r.push(4294967295 - i, i, 0.25, 1.5, 511, 1, 127, 77);
    assert.equal(r.n, 5);
    assert.equal(word(r, 4, 0), 4294967291);
    assert.equal(word(r, 4, 2) & 65535, 16384);
    assert.equal(word(r, 4, 2) >>> 16, 65535);
    r.setSlot(1023);
    assert.equal(word(r, 4, 3) & 1023, 1023);
    assert.equal(word(r, 4, 3) >>> 10 & 511, 511);
    assert.equal(word(r, 4, 3) >>> 25, 127);
});

test('places are exact to a hundredth of a pixel at any zoom', () => {
    const t = exactTile([{id: 'x', at: [['a', 1e6], ['b', 2e6]]}]);
    const lane = laneOf({kind: 'lifelines', ids: 'id'}, [t]);
    const [batch] = lane.batches;
    for (const span of [tileUs(LEVEL), 1e5, 1e3, 10]) {
        const view = port({from: FROM + 2e6 - span / 2, to: FROM + 2e6 + span / 2});
        const p = placeOf(batch, view), tEnd = word(batch.lines, 0, 1);
        const x = Math.fround((tEnd - p.t0) * p.perUnit) + p.x0;
        const exact = (baseUs(t) + tEnd * stepUs(t) - view.from) / span * 1000;
        assert.ok(Math.abs(x - exact) < 0.3, `${span}: ${x} ${exact}`);
    }
});

/* ---- lifelines ---- */

const TWO = exactTile([
    {id: 'a', at: [['send', 1e6, 'h1'], ['work', 3e6, 'h2'], ['recv', 4e6, 'h1']]},
    {id: 'b', severity: 3, at: [['send', 2e6, 'h1'], ['work', 6e6, 'h2']]},
    {id: 'c', at: [['send', 8e6, 'h1']]},
]);

test('a line for each hop, errors on top, a tick for what stands alone', () => {
    const lane = laneOf({kind: 'lifelines', ids: 'id'}, [TWO]);
    const [batch] = lane.batches;
    assert.deepEqual(lane.rows.names, ['send', 'work', 'recv']);
    assert.equal(batch.lines.n, 2);
    assert.equal(batch.top.n, 1);
    assert.deepEqual(colours(batch.top), [named('error')]);
    assert.equal(batch.points.n, 6 + 1 + 1); /* a dot each, a tick for c, a cross where b ends */
    assert.equal(lane.status.lod, 'exact');
});

test('hidden events are passed over, the lifeline is not broken', () => {
    const lane = laneOf({kind: 'lifelines', ids: 'id', hide: ['work']}, [TWO]);
    const [batch] = lane.batches;
    assert.deepEqual(lane.rows.names, ['send', 'recv']);
    assert.equal(batch.lines.n, 1);
    assert.equal(batch.lines.source[0], 2);
});

test('rows by host: an event stands once for each host that has it', () => {
    const lane = laneOf({kind: 'lifelines', ids: 'id', group: 'host'}, [TWO]);
    assert.deepEqual(lane.rows.names, ['h1 send', 'h1 recv', 'h2 work']);
    assert.equal(lane.batches[0].lines.n, 2);
});

test('colours by id, host, status, latency', () => {
    const of = color => laneOf({kind: 'lifelines', ids: 'id', color}, [TWO]).batches[0].lines;
    assert.equal(new Set(colours(of('id'))).size, 1);
    assert.equal(new Set(colours(of('host'))).size, 2);
    assert.deepEqual(new Set(colours(of('status'))), new Set([named('ok')]));
    assert.ok(colours(of('latency')).every(c => c >= named('heat-0') && c <= named('heat-5')));
    assert.deepEqual([0.5, 1, 1.5, 3, 7, 15, 100].map(latencyStep), [0, 0, 1, 2, 3, 4, 5]);
});

test('a hop is drawn by the tile that it ends in, once', () => {
    const before = exactTile([{id: 'x', at: [['a', 60e6]]}], {index: 999});
    const after = exactTile([{id: 'x', at: [['a', 60e6 - tileUs(LEVEL)], ['b', 1e6]]}]);
    const lane = laneOf({kind: 'lifelines', ids: 'id'}, [before, after], port({from: FROM - tileUs(LEVEL)}));
    assert.equal(lane.batches.reduce((n, b) => n + b.lines.n, 0), 1);
    const counts = countScene([lane], port({from: FROM - tileUs(LEVEL)}));
    assert.deepEqual([counts.lifelines, counts.vertices], [1, 2]);
});

test('where there are more hops than pixels the slowest and every error are drawn', () => {
    const t = manyLifelines(20000, {bad: 500});
    const lane = laneOf({kind: 'lifelines', ids: 'id'}, [t]);
    const [batch] = lane.batches;
    assert.equal(batch.hops, 80000);
    assert.ok(batch.lines.n < 20000, `${batch.lines.n} lines`);
    assert.equal(batch.top.n, 40 * 4);
    const {vertex_t: vt, severity} = t.columns;
    const slowest = new Map();
    for (let l = 0; l < 20000; l++) {
        for (let k = 1; k < 5 && severity[l] > 3; k++) {
            const d = vt[l * 5 + k] - vt[l * 5 + k - 1];
            if (d > (slowest.get(k)?.d ?? -1))
                slowest.set(k, {d, v: l * 5 + k});
        }
    }
    const drawn = new Set(batch.lines.source.subarray(0, batch.lines.n));
    for (const {v} of slowest.values())
        assert.ok(drawn.has(v));
    const counts = countScene([lane], port());
    assert.equal(counts.lifelines, 20000);
    assert.equal(counts.errors, 40);
});

/* Hops of one pair: [begins, ends] each, in units. */
function hopsAt(list)
{
    const begins = Uint32Array.from(list, h => h[0]), ends = Uint32Array.from(list, h => h[1]);
    return {n: list.length, begins, ends, pair: new Uint32Array(list.length), pairs: 1, took: Float64Array.from(list, h => h[1] - h[0]), isError: new Uint8Array(list.length)};
}

test('of a column of pixels the slowest, the fastest and one between are drawn; those on the same pixels once', () => {
    const px = 2 ** 20, at = 1000 * px;
    const apart = thin(hopsAt([[at - 9 * px, at], [at - 1, at + 1], [at - 5 * px, at + 2], [at - 4 * px, at + 3]]), px);
    assert.equal(apart.keep.length, 3);
    assert.deepEqual(apart.keep.slice(0, 2), [0, 1]);
    assert.ok(apart.keep[2] === 2 || apart.keep[2] === 3);
    assert.ok(Math.abs(apart.stands.reduce((a, v) => a + v, 0) - 4) < 1e-9, 'they stand for all');
    const same = thin(hopsAt(Array.from({length: 50}, (_, i) => [at - 9 * px + i, at + i * 2])), px);
    assert.deepEqual(same.keep, [49], 'the slowest stands for all');
    assert.deepEqual(same.stands, [50]);
});

test('thinning leaves no pixel empty that hops cover', () => {
    const random = seeded(11), px = 2 ** 20, width = 400;
    for (const unitsPerPx of [px, px * 1.2, px * 1.9]) { /* from one octave to the next */
        const list = Array.from({length: 40000}, () => { const e = (100 + random() * width) * unitsPerPx; return [e - random() * 0.4 * unitsPerPx, e]; });
        const {keep} = thin(hopsAt(list), px);
        assert.ok(keep.length < 5 * 2 * width, `${keep.length} lines`);
        const covered = new Set(keep.map(i => Math.floor(list[i][1] / unitsPerPx)));
        assert.ok(covered.size > 0.97 * width, `${covered.size} of ${width} columns of pixels`);
    }
});

test('panning makes no batch anew, zooming by more than an octave does', () => {
    const lane = laneOf({kind: 'lifelines', ids: 'id'}, [TWO]);
    const [batch] = lane.batches;
    updateLane(lane, port({from: FROM + 1000, to: TO + 1000}));
    assert.equal(lane.batches[0], batch);
    updateLane(lane, port({from: FROM + 5e6, to: TO + 5e6}));
    assert.equal(lane.batches[0], batch);
    updateLane(lane, port({to: FROM + tileUs(LEVEL) / 8}));
    assert.notEqual(lane.batches[0], batch);
    assert.equal(octave(5), 4);
});

test('local clocks: times of a host go back by its offset', () => {
    const of = offsets => laneOf({kind: 'lifelines', ids: 'id'}, [TWO], port({offsets})).batches[0];
    const plain = of(null), raw = of(new Map([['h2', 5e5]]));
    assert.equal(word(plain.lines, 0, 0), word(raw.lines, 0, 0));
    assert.ok(Math.abs((word(plain.lines, 0, 1) - word(raw.lines, 0, 1)) * stepUs(TWO) - 5e5) < 1);
});

test('local clocks: points go back by the offset of their host, also far out of their tile', () => {
    const tile = pointsTile([['h1 p x', 0.25, 11], ['h2 p x', 0.25, 11], ['h2 p y', 0.5, 3]]);
    const lane = laneOf({kind: 'points', event: '*'}, [tile]);
    const times = offsets => {
        updateLane(lane, port({offsets}));
        const [batch] = lane.batches;
        const out = {};
        for (let i = 0; i < batch.points.n; i++)
            (out[tile.columns.streams[tile.columns.row[batch.points.source[i]]]] ??= []).push(batch.baseUs + word(batch.points, i, 0) * batch.stepUs - FROM);
        return out;
    };
    const near = (a, b) => assert.ok(Math.abs(a - b) < 1, `${a} ${b}`);
    const quarter = tileUs(LEVEL) / 4;
    assert.equal(lane.batches[0].points.n, 2); /* both hosts' in one place */
    for (const offset of [5e5, -5e5, tileUs(LEVEL) * 3, -tileUs(LEVEL) * 3]) {
        const at = times(new Map([['h2', offset], ['h3', 7]]));
        near(at['h1 p x'][0], quarter);
        near(at['h2 p x'][0], quarter - offset);
        near(at['h2 p y'][0], 2 * quarter - offset);
    }
    near(times(null)['h2 p y'][0], 2 * quarter);
    assert.deepEqual(pointEvents(lane), ['x', 'y']);
});

test('local clocks: density stays in global time, and the head of the lane says so', () => {
    for (const kind of ['lifelines', 'heat']) {
        const notes = offsets => {
            const {spec, status} = laneOf({kind, ids: 'id'}, [DENSE], port({offsets}));
            return notesOf(spec, {status}).map(n => n.text);
        };
        assert.ok(notes(new Map([['h1', 0], ['h2', 5e5]])).includes('global time'));
        assert.ok(!notes(new Map([['h1', 0]])).includes('global time'));
        assert.ok(!notes(null).includes('global time'));
    }
    const {spec, status} = laneOf({kind: 'lifelines', ids: 'id'}, [TWO], port({offsets: new Map([['h2', 5e5]])}));
    assert.ok(!notesOf(spec, {status}).some(n => n.text === 'global time'));
});

/* ---- density ---- */

const DENSE = densityTile([[null, 'a'], ['a', 'b'], ['b', 'c']], [[0, 0, 255, 5], [1, 1, 40, 100], [1, 1, 41, 50], [1, 2, 120, 7], [2, 3, 40, 9]],
                          [[1, 0.5, 5e9, 3, 'bad'], [2, 0.75, 9e9, 11, 'slow'], [0, 0.1, NaN, 3, 'first']]);

test('density: cells closer than a pixel are one, outliers are lines, errors have a cross', () => {
    const lane = laneOf({kind: 'lifelines', ids: 'id'}, [DENSE]);
    const [batch] = lane.batches;
    assert.deepEqual(lane.rows.names, ['a', 'b', 'c']);
    assert.equal(batch.quads.n, 4);
    assert.equal(batch.top.n, 2);
    assert.equal(batch.points.n, 2);
    assert.equal(lane.status.lod, 'density');
    const counts = countScene([lane], port());
    assert.equal(counts.vertices, 171);
    assert.equal(counts.errors, 2);
});

test('density: a hop begins where it began', () => {
    const rows = rowsOf(['a', 'b', 'c']);
    const batch = densityBatch(DENSE, rows, {usPerPx: 1});
    const i = [...batch.top.source.subarray(0, batch.top.n)].indexOf(0);
    const us = w => batch.baseUs + word(batch.top, i, w) * batch.stepUs;
    assert.ok(Math.abs(us(1) - us(0) - 5e6) < 100);
    assert.ok(Math.abs(us(1) - (FROM + tileUs(LEVEL) / 2)) < 100);
});

test('the heatmap has the bins that there are', () => {
    assert.deepEqual(heatRange([DENSE], ''), [38, 122]);
    assert.deepEqual(heatRange([DENSE], 'b>c'), [38, 42]);
    assert.equal(heatRange([DENSE], 'c>d'), null);
    assert.equal(heatBatch(DENSE, [38, 122], '').quads.n, 4);
    assert.equal(heatBatch(DENSE, [38, 42], 'b>c').quads.n, 1);
    assert.equal(hopsOf([DENSE]).get('a\u0000b'), 157);
});

/* ---- curves ---- */

test('curves go on from tile to tile; counters as rates; a reset is no fall', () => {
    const s = 'h agent net interface=eth0';
    const one = seriesTile([[s, 0, 100], [s, 0.5, 200]]), two = seriesTile([[s, 0, 50]], {index: 1001});
    const curve = curvesOf([one, two]).get(s);
    assert.deepEqual(curve.last, [100, 200, 50]);
    const half = tileUs(LEVEL) / 2 / 1e6;
    const rate = rateOf(curve);
    assert.ok(Math.abs(rate.last[0] - 100 / half) < 1e-6);
    assert.ok(Math.abs(rate.last[1] - 50 / half) < 1e-6);
    assert.deepEqual(streamParts(s), {host: 'h', prog: 'agent', name: 'net', keys: 'interface=eth0'});
});

test('scales are round and have everything within', () => {
    const random = seeded(3);
    for (let i = 0; i < 200; i++) {
        const low = (random() - 0.3) * 10 ** (random() * 12 - 4), high = low + random() * 10 ** (random() * 12 - 4);
        const s = niceScale([low, high]);
        assert.ok(s.low <= low && s.high >= high && s.high > s.low, `${low} ${high} ${JSON.stringify(s)}`);
    }
    assert.equal(niceScale([3, 97]).low, 0);
});

test('a curve: a line to each value, a band where a bin has several, nothing over a gap', () => {
    const s = 'h p e';
    const values = Array.from({length: 20}, (_, i) => [s, i / 256, i === 5 ? [1, 0, 9, 2] : 3, i === 5 ? 4 : 1]);
    values.push([s, 0.9, 3]);
    const curves = curvesOf([seriesTile(values), seriesTile([[s, 0.9, 3]], {index: 1002})]);
    const range = rangeOf(curves, FROM, TO);
    assert.deepEqual(range, [0, 9]);
    const batch = curveBatch(curves, niceScale(range), tileUs(LEVEL) / 256, {colours: new Map([[s, 0]])});
    assert.equal(batch.lines.n, 20);
    assert.equal(batch.quads.n, 1);
    assert.equal(batch.points.n, 2);
    assert.equal(rangeOf(new Map(), 0, 1), null);
    const dots = curveBatch(curves, niceScale(range), 1, {style: 'dots', colours: new Map([[s, 0]])});
    assert.equal(dots.points.n, 23);
    assert.equal(dots.lines.n, 0);
});

test('NaN is a gap, not a zero', () => {
    const curves = curvesOf([seriesTile([['s', 0, 1], ['s', 0.1, NaN], ['s', 0.2, 2]])]);
    assert.deepEqual(rangeOf(curves, FROM, TO), [1, 2]);
});

/* ---- points ---- */

test('events of a pixel, a row and a level are one glyph; the worst is drawn last', () => {
    const rows = Array.from({length: 5000}, (_, i) => ['h p ' + (i % 2 ? 'x' : 'y'), (i % 100) / 100, i === 7 ? 3 : 11]);
    const lane = laneOf({kind: 'points', event: '*'}, [pointsTile(rows)]);
    const [batch] = lane.batches;
    assert.deepEqual(lane.rows.names, ['y', 'x']);
    assert.equal(batch.points.n, 101);
    assert.equal(colours(batch.points).at(-1), named('error'));
    assert.deepEqual([countScene([lane], port()).points, countScene([lane], port()).errors], [5000, 1]);
    assert.deepEqual(laneOf({kind: 'points', event: '*', by: 'level'}, [pointsTile(rows)]).rows.names, ['3', '11']);
});

test('what the archive derives itself is not shown twice', () => {
    const rows = [['h p job.end', 0.1, 3], ['h gridline lifeline.outlier', 0.1, 3]];
    const lane = laneOf({kind: 'points', event: '*'}, [pointsTile(rows)]);
    assert.deepEqual(lane.rows.names, ['job.end']);
    assert.equal(countScene([lane], port()).points, 1);
    assert.equal(laneOf({kind: 'points', event: 'lifeline.*'}, [pointsTile(rows)]).batches[0].points.n, 2);
});

test('more rows than there is room for are counted as left out', () => {
    const rows = Array.from({length: 40}, (_, i) => ['h p e' + i, i / 40, 11]);
    const lane = laneOf({kind: 'points', event: '*'}, [pointsTile(rows)]);
    assert.equal(lane.rows.names.length, 16);
    assert.equal(lane.status.leftOut, 24);
});

/* ---- hits ---- */

test('what is under the pointer: the nearest, and nothing far away', () => {
    const lane = laneOf({kind: 'lifelines', ids: 'id'}, [TWO]);
    const view = port({to: FROM + 10e6});
    updateLane(lane, view);
    const y = name => 50 + lane.rows.y(lane.rows.of(name)) * 200;
    const at = hit(lane.batches, view, 200, (y('send') + y('work')) / 2);
    assert.equal(at.layer, 'lines');
    assert.equal(at.source, 1);
    const error = hit(lane.batches, view, 600, y('work'));
    assert.equal(error.layer, 'points');
    assert.equal(hit(lane.batches, view, 950, 60), null);
    assert.equal(hit(lane.batches, {...view, scroll: 5000}, 200, 150), null);
    assert.ok(!isInView(lane.batches[0], {...view, scroll: 5000}));
    assert.equal(toSegment(5, 5, 0, 0, 10, 0), 5);
    assert.equal(toSegment(-3, 4, 0, 0, 10, 0), 5);
});

/* ---- statistics ---- */

test('quantiles as in SQL; of bins to within a fifth', () => {
    assert.equal(quantile([1, 2, 3, 4], 0.5), 2.5);
    assert.ok(Number.isNaN(quantile([], 0.5)));
    const random = seeded(11), values = Array.from({length: 5000}, () => Math.exp(random() * 12) * 1000);
    const exact = summaryOf(values), counts = new Array(252).fill(0);
    values.forEach(v => counts[binOf(v)]++);
    const rough = binnedSummary(counts);
    assert.equal(rough.count, 5000);
    for (const name of ['p50', 'p95', 'p99', 'mean', 'min', 'max'])
        assert.ok(Math.abs(rough[name] / exact[name] - 1) < 0.26, `${name} ${rough[name]} ${exact[name]}`);
    for (let b = 0; b < 252; b++)
        assert.equal(binOf(binNs(b)), b);
});

/* ---- pixels ---- */

const alphaAt = (r, x, y) => r.bytes[(y * r.width + x) * 4 + 3];
const area = r => r.bytes.reduce((n, v, i) => n + (i % 4 === 3 ? v / 255 : 0), 0);

test('a line covers as much as it is long and thick, whichever way it goes, and stays within', () => {
    for (const [x0, y0, x1, y1] of [[10, 10, 10, 90], [10, 10, 90, 10], [10, 10, 90, 90], [90, 20, 10, 70], [20, 90, 40, 10]]) {
        const r = new Raster(100, 100);
        r.line(x0, y0, x1, y1, 2, [255, 0, 0], 1);
        const long = Math.hypot(x1 - x0, y1 - y0);
        assert.ok(Math.abs(area(r) / (2 * long) - 1) < 0.05, `${[x0, y0, x1, y1]}: ${area(r)} for ${2 * long}`);
    }
    const r = new Raster(50, 50);
    r.line(-1000, -500, 1000, 800, 3, [0, 255, 0], 1);
    r.line(20, -1e6, 20.5, 1e6, 1, [0, 255, 0], 1);
    r.quad(-1e5, 10, 1e5, 20, 8, [0, 0, 255], 0.5);
    r.glyph(-3, 49, maskOf(8 << 3, 1), [1, 2, 3], 1);
    assert.ok(area(r) > 0);
});

test('a line of single pixels has one in each row, or in each column, and stays within', () => {
    for (const [x0, y0, x1, y1] of [[10, 10, 10, 90], [10, 10, 90, 10], [10, 10, 90, 90], [90, 20, 10, 70], [20, 90, 40, 10]]) {
        const r = new Raster(100, 100);
        r.hair(x0, y0, x1, y1, [255, 0, 0], 1);
        assert.equal(Math.round(area(r)), Math.max(Math.abs(x1 - x0), Math.abs(y1 - y0)), `${[x0, y0, x1, y1]}`);
    }
    const r = new Raster(50, 50);
    r.hair(-1000, -500, 1000, 800, [0, 255, 0], 1);
    r.hair(20, -1e6, 20.5, 1e6, [0, 255, 0], 0.5);
    r.hair(-5, 10, -5, 40, [0, 255, 0], 1);
    assert.equal(alphaAt(r, 20, 49), 128);
    assert.equal(alphaAt(r, 0, 20) + alphaAt(r, 49, 20), 0);
});

test('mixing is exact to a 256th, whatever is below', () => {
    const random = seeded(5);
    for (let i = 0; i < 5000; i++) {
        const r = new Raster(1, 1), old = Array.from({length: 4}, () => Math.floor(256 * random())), c = Array.from({length: 3}, () => Math.floor(256 * random())), a = Math.ceil(255 * random());
        r.bytes.set(old);
        r.blend(0, ...c, a / 255);
        const alpha = a + old[3] * (255 - a) / 255;
        const want = [...c.map((v, k) => old[k] + (v - old[k]) * a / alpha), alpha];
        r.bytes.forEach((v, k) => assert.ok(Math.abs(v - want[k]) <= 1.5, `${old} ${c} ${a}: ${[...r.bytes]} instead of ${want}`));
    }
});

test('thousands of lines are single pixels, fewer are smooth', () => {
    const of = n => {
        const lane = laneOf({kind: 'lifelines', ids: 'id'}, [manyLifelines(n)]), r = new Raster(1000, 600);
        drawInto(r, lane.batches, port(), Array.from({length: 512}, () => [255, 255, 255]), new Map());
        return {lines: lane.batches[0].lines.n, lifelines: countScene([lane], port()).lifelines, area: area(r)};
    };
    const few = of(100), many = of(20000);
    assert.ok(few.lines <= THICK_MAX_SOFTWARE && many.lines > THICK_MAX_SOFTWARE, `${few.lines} ${many.lines}`);
    assert.equal(many.lifelines, 20000);
    assert.ok(few.area > 1000 && many.area > few.area);
});

test('what is drawn over is mixed as it should be', () => {
    const r = new Raster(1, 1);
    r.blend(0, 200, 0, 0, 0.5);
    assert.deepEqual([...r.bytes], [200, 0, 0, 128]);
    r.blend(0, 0, 100, 0, 1);
    assert.deepEqual([...r.bytes], [0, 100, 0, 255]);
    r.blend(0, 0, 200, 0, 0.5);
    assert.deepEqual([...r.bytes], [0, 150, 0, 255]);
});

test('a scene as pixels: lifelines, density, curves and points are where they belong', () => {
    const life = laneOf({kind: 'lifelines', ids: 'id'}, [TWO], port({to: FROM + 10e6}));
    const dense = laneOf({kind: 'lifelines', ids: 'id'}, [DENSE], port(), {top: 260, height: 100});
    const table = Array.from({length: 512}, () => [255, 255, 255]);
    const r = new Raster(1000, 600);
    drawInto(r, life.batches, port({to: FROM + 10e6}), table, new Map());
    const y = name => 50 + life.rows.y(life.rows.of(name)) * 200;
    assert.ok(alphaAt(r, 200, Math.round((y('send') + y('work')) / 2)) > 60);
    assert.ok(alphaAt(r, 600, Math.round(y('work'))) > 200);
    assert.equal(alphaAt(r, 950, 100), 0);
    const before = area(r);
    drawInto(r, dense.batches, port(), table, new Map());
    assert.ok(area(r) > before);
    r.clear();
    assert.equal(area(r), 0);
});
