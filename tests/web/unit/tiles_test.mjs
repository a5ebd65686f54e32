/* Which tiles a range needs. */
import test from 'node:test';
import assert from 'node:assert/strict';
import {levelFor, tilesOf, tileUs, binUs, startUs, addressOf, tileSet, clearCache, LEVEL_MAX} from '../../../web/src/tiles.js';
import {randomOf, wholeOf} from './random.mjs';
import {tile} from './tile_maker.mjs';

test('a bin is half a pixel to two', () => {
    const random = randomOf(8);
    for (let i = 0; i < 2000; i++) {
        const pixels = 50 + wholeOf(random, 4000), span = 10 ** (random() * 15), level = levelFor(span, pixels);
        assert.ok(Number.isInteger(level) && level >= 0 && level <= LEVEL_MAX);
        const ratio = binUs(level) / (span / pixels);
        if (level > 0 && level < LEVEL_MAX)
            assert.ok(ratio >= 0.499 && ratio <= 2.001, String(ratio));
    }
    assert.equal(levelFor(1, 1e9), 0);
    assert.equal(levelFor(1e30, 1), LEVEL_MAX);
});

test('tiles have all of the range, in order, without one too many', () => {
    const random = randomOf(9);
    for (let i = 0; i < 2000; i++) {
        const from = wholeOf(random, 2e15), span = 1 + wholeOf(random, 10 ** (2 + wholeOf(random, 12))), level = levelFor(span, 100 + wholeOf(random, 2000));
        const tiles = tilesOf(from, from + span, level), ns = t => BigInt(t.index) << BigInt(8 + 2 * level), width = 1n << BigInt(8 + 2 * level);
        assert.ok(tiles.length >= 1 && tiles.length <= 512);
        assert.ok(ns(tiles[0]) <= BigInt(from) * 1000n && ns(tiles[0]) + width > BigInt(from) * 1000n);
        if (tiles.length < 512)
            assert.ok(ns(tiles.at(-1)) + width >= BigInt(from + span) * 1000n - 1000n);
        assert.ok(ns(tiles.at(-1)) < BigInt(from + span) * 1000n + width);
        assert.ok(Math.abs(startUs(tiles[0]) - Number(ns(tiles[0]) / 1000n)) <= 1);
        tiles.forEach((t, k) => assert.equal(t.index, tiles[0].index + k));
    }
});

test('no range needs more than some hundreds', () => {
    assert.equal(tilesOf(0, 1e15, 0).length, 512);
    assert.equal(tilesOf(5, 5, 10).length, 1);
    assert.equal(tilesOf(-1000, 1000, 8)[0].index, -1);
});

test('the index is that of docs/tiles.md', () => {
    assert.equal(binUs(14), 268435.456);
    assert.equal(tileUs(16), 1099511627.776);
    assert.deepEqual(tilesOf(1794953831900000, 1794953831900001, 16).map(t => t.index), [1632501]);
});

test('an address is one lane’s own, whatever its parameters are', () => {
    assert.equal(addressOf({kind: 'series', name: 'cpu', params: {host: 'n/1?', field: 'user', key: ''}}, {level: 14, index: 26118}), 'tile/series/cpu/14/26118?field=user&host=n%2F1%3F');
    assert.equal(addressOf({kind: 'lifeline', name: 'job+task@gridftp.*'}, {level: 3, index: -1}), 'tile/lifeline/job%2Btask%40gridftp.*/3/-1');
});

const NO_LIFELINES = [[10, 1, 0], [11, 7, 0], [12, 7, 3], [13, 7, 4], [14, 3, 5], [15, 2, 6], [16, 3, 0], [17, 3, 7], [18, 2, 7]].map(c => [...c, []]);

test('a tile with too many events is made of its parts, one after the other', async () => {
    const asked = [], before = globalThis.fetch, doc = globalThis.document;
    globalThis.document = {hidden: false};
    globalThis.fetch = async address => {
        const [, level, index] = String(address).match(/lifeline\/a%2Bb\/(\d+)\/(-?\d+)/);
        asked.push([Number(level), Number(index)]);
        const refused = {type: 'about:blank', status: 422, title: 'Unprocessable Content', detail: 'too many events'};
        return Number(level) > 14 ? new Response(JSON.stringify(refused), {status: 422, headers: {'Content-Type': 'application/problem+json'}})
            : new Response(tile({kind: 3, level: Number(level), index: Number(index), columns: NO_LIFELINES}));
    };
    const set = tileSet({kind: 'lifeline', name: 'a+b'});
    try {
        const from = 100.5 * tileUs(16), to = 100.9 * tileUs(16);
        set.want(from, to, 256, 16);
        for (let i = 0; i < 500 && set.tiles.peek().length < 16; i++)
            await new Promise(done => setTimeout(done, 10));
        assert.deepEqual(set.tiles.peek().map(t => [t.level, t.index]), Array.from({length: 16}, (_, i) => [14, 1600 + i]));
        assert.deepEqual(set.progress.peek(), {done: 16, all: 16, error: null});
        assert.equal(asked.filter(([level]) => level < 16).length, 4 + 16);
    } finally {
        set.close();
        clearCache();
        globalThis.fetch = before;
        globalThis.document = doc;
    }
});
