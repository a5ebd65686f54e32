/* Curves out of tiles. */
import test from 'node:test';
import assert from 'node:assert/strict';
import {runsOf, gaugePoints, ratePoints, aligned, streamOf, periodOf} from '../../../web/src/series.js';
import {stacked, valueAt} from '../../../web/src/ui/chart.js';
import {decode} from '../../../web/src/glt1.js';
import {seriesTile} from './tile_maker.mjs';
import {randomOf, wholeOf} from './random.mjs';

/* What a tile would have of a counter that is read at these times (µs). */
function runOf(times, values, bin)
{
    const run = {stream: 's', bin, x: [], first: [], min: [], max: [], last: [], n: []};
    times.forEach((t, i) => {
        const at = Math.floor(t / bin) * bin + bin / 2;
        if (run.x.at(-1) === at) {
            run.last[run.last.length - 1] = values[i];
            run.n[run.n.length - 1]++;
            return;
        }
        run.x.push(at);
        run.last.push(values[i]);
        run.first.push(values[i]);
        run.min.push(values[i]);
        run.max.push(values[i]);
        run.n.push(1);
    });
    return run;
}

test('a steady counter has a steady rate, however samples fall into bins', () => {
    const random = randomOf(10);
    for (const bin of [2 ** 18, 2 ** 20, 1073741.824, 4294967.296, 17179869.184]) {
        for (const period of [1e6, 2e6, 5e6]) {
            const start = wholeOf(random, 1e7), n = 400;
            const times = Array.from({length: n}, (_, i) => start + i * period), values = times.map((_, i) => 1000 + i * 500 * period / 1e6);
            for (const p of ratePoints(runOf(times, values, bin)).filter(p => p.v !== null).slice(1))
                assert.ok(Math.abs(p.v - 500) <= 500 * 0.06, `bin ${bin}, period ${period}: ${p.v}`);
        }
    }
});

test('a sample that was left out is no spike', () => {
    const times = Array.from({length: 100}, (_, i) => i * 1e6).filter((_, i) => i !== 50), values = times.map(t => t / 1e6 * 100);
    for (const p of ratePoints(runOf(times, values, 1073741.824)).filter(p => p.v !== null))
        assert.ok(p.v > 90 && p.v < 112, String(p.v));
});

test('a counter that went back, and a silence', () => {
    const times = [0, 1e6, 2e6, 3e6, 4e6], values = [100, 200, 50, 150, 250];
    const rates = ratePoints(runOf(times, values, 2 ** 18)).map(p => p.v);
    assert.ok(rates.every(v => v > 0));
    const silent = ratePoints(runOf([0, 1e6, 2e6, 3e6, 60e6, 61e6], [0, 1, 2, 3, 4, 5], 2 ** 18));
    assert.equal(silent.filter(p => p.v === null).length, 1);
    assert.equal(gaugePoints(runOf([0, 1e6, 2e6, 3e6, 60e6, 61e6], [0, 1, 2, 3, 4, 5], 2 ** 18)).filter(p => p.v === null).length, 1);
});

test('streams, runs and the span of an entry', () => {
    assert.deepEqual(streamOf('vm gridline-agent disk device=sda,mode=read write'), {host: 'vm', prog: 'gridline-agent', name: 'disk', key: 'device=sda,mode=read write'});
    const bytes = seriesTile(), tile = decode(bytes.buffer), base = Number(tile.baseNs) / 1000;
    assert.deepEqual([...runsOf([{from: 0, to: Infinity, tile}]).keys()], tile.columns.streams);
    const cut = runsOf([{from: base, to: base + 1e6, tile}]);
    assert.deepEqual([...cut.values()].map(r => r.x.length), [1]);
    assert.equal(periodOf([...cut.values()][0]) > 0, true);
});

test('aligned: undefined is no gap, null is one', () => {
    const data = aligned([[{x: 1, v: 1, lo: 0, hi: 2}, {x: 3, v: null, lo: null, hi: null}], [{x: 2, v: 5, lo: 5, hi: 5}]], true);
    assert.deepEqual(data, [[1, 2, 3], [1, undefined, null], [undefined, 5, undefined], [0, undefined, null], [2, undefined, null], [undefined, 5, undefined], [undefined, 5, undefined]]);
    assert.deepEqual(stacked([[1, 2], [1, null], [2, 3]]), [[1, 2], [1, null], [3, 3]]);
    assert.equal(valueAt([1, 2, 3], [10, undefined, 30], 2.5, 2), 10);
    assert.equal(valueAt([1, 2, 3], [10, undefined, 30], 2.5, 1), null);
    assert.equal(valueAt([], [], 1, 1), null);
});
