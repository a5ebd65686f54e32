/* The decoder of tiles: what is right is read, and what is wrong throws, whatever it is; nothing hangs. */
import test from 'node:test';
import assert from 'node:assert/strict';
import {decode, crcOf, exactNs, baseUs, stepUs, TileError} from '../../../web/src/glt1.js';
import {tile, sealed, seriesTile, lifelineTile, densityTile, pointsTile, edgesTile} from './tile_maker.mjs';
import {randomOf, wholeOf, oneOf} from './random.mjs';

const ALL = {seriesTile, lifelineTile, densityTile, pointsTile, edgesTile};
const bufferOf = bytes => bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length);
const wrong = bytes => assert.throws(() => decode(bufferOf(bytes)), TileError);

test('CRC-32C', () => {
    /* of RFC 3720, B.4: 32 bytes of 0, and of FF; here the four at 12 are taken for 0, which they are in the first. */
    assert.equal(crcOf(new Uint8Array(32)), 0x8a9136aa);
    const up = Uint8Array.from({length: 32}, (_, i) => i < 12 || i > 15 ? i : 0);
    assert.notEqual(crcOf(up), crcOf(new Uint8Array(32)));
});

test('a series', () => {
    const t = decode(bufferOf(seriesTile({flags: 5, leftOut: 7n, index: -3})));
    assert.deepEqual([t.kind, t.level, t.index, t.isOpen, t.isCoarse, t.leftOut, t.lost], ['series', 14, -3, true, true, 7, 0]);
    assert.deepEqual(t.columns.streams, ['vm agent cpu cpu=all', 'nöde7 agent cpu cpu=0']);
    assert.deepEqual([...t.columns.row], [0, 0, 1]);
    assert.deepEqual([...t.columns.max], [3, 2, NaN]);
    assert.equal(t.columns.bin_ns[0], 268435456n);
    assert.equal(exactNs(t, 16777216), t.baseNs + 4294967296n);
    assert.ok(Math.abs(baseUs(t) + 16777216 * stepUs(t) - Number(exactNs(t, 16777216)) / 1000) < 1);
});

test('the other kinds', () => {
    assert.deepEqual([...decode(bufferOf(lifelineTile())).columns.vertex_t], [1, 2, 3, 4, 5]);
    assert.deepEqual(decode(bufferOf(densityTile())).columns.outlier_id, ['j-9']);
    assert.deepEqual(decode(bufferOf(pointsTile())).columns.id, ['']);
    assert.deepEqual(decode(bufferOf(edgesTile())).columns.nodes, ['client', 'server']);
});

test('columns of a later version are left out', () => {
    const t = decode(bufferOf(tile({kind: 5, columns: [[30, 7, 10, ['a']], [31, 3, 0, []], [32, 3, 0, []], [33, 5, 0, []], [9, 3, 0, []], [34, 3, 0, []], [35, 5, 0, []], [36, 5, 0, []], [999, 1, 77, [1, 2, 3]]]})));
    assert.deepEqual(Object.keys(t.columns).length, 8);
});

test('a missing column, a number of nothing, paths that do not fit: wrong', () => {
    wrong(tile({kind: 1, columns: [[1, 4, 1, [1n]]]}));
    const columns = row => [[1, 4, 1, [0n]], [2, 7, 2, ['s']], [3, 2, 0, [row]], [4, 3, 0, [9]], [9, 3, 0, [1]], [10, 1, 0, [4]], [11, 7, 0, ['']]];
    decode(bufferOf(tile({kind: 2, columns: columns(0)})));
    wrong(tile({kind: 2, columns: columns(1)}));
    wrong(tile({kind: 2, columns: [...columns(0).slice(0, 3), [4, 3, 0, [1, 2]], ...columns(0).slice(4)]})); /* two times, one row */
    const life = (ends, times) => tile({kind: 3, columns: [[10, 1, 0, [11]], [11, 7, 0, ['x']], [12, 7, 3, ['a']], [13, 7, 4, ['h']], [14, 3, 5, ends], [15, 2, 6, [0, 0]], [16, 3, 0, [0]], [17, 3, 7, times], [18, 2, 7, times.map(() => 0)]]});
    decode(bufferOf(life([2], [1, 2])));
    wrong(life([2], [1]));
    wrong(life([3], [1, 2, 3]));
    wrong(life([2, 1], [1, 2]));
});

test('cut off anywhere: wrong', () => {
    for (const make of Object.values(ALL)) {
        const whole = make();
        for (let n = 0; n < whole.length; n++)
            wrong(whole.slice(0, n));
        wrong(new Uint8Array([...whole, 0]));
    }
});

test('every bit that is turned is noticed', () => {
    for (const make of Object.values(ALL)) {
        const whole = make();
        for (let bit = 0; bit < whole.length * 8; bit++) {
            const bytes = whole.slice();
            bytes[bit >> 3] ^= 1 << (bit & 7);
            wrong(bytes);
        }
    }
});

/* With the right checksum: what a hostile gateway could send. It is read, with all that a drawing loop trusts, or it throws. */
function readOrThrow(bytes)
{
    let t;
    try {
        t = decode(bufferOf(bytes));
    } catch (e) {
        assert.ok(e instanceof TileError, e.stack);
        return false;
    }
    for (const column of Object.values(t.columns))
        assert.ok(column.length * 1 <= bytes.length);
    if (t.kind === 'series')
        t.columns.row.forEach(r => assert.ok(r < t.columns.streams.length));
    return true;
}

test('random bytes, random changes: read or thrown, never anything else', () => {
    const random = randomOf(7);
    const rounds = 20000 * Number(process.env.GRIDLINE_TEST_SCALE ?? 1);
    let read = 0;
    for (let i = 0; i < rounds; i++) {
        const bytes = i % 4 === 0 ? Uint8Array.from({length: 64 + wholeOf(random, 400)}, () => wholeOf(random, 256)) : oneOf(random, Object.values(ALL))();
        if (i % 4 === 0) {
            bytes.set([0x47, 0x4c, 0x54, 0x31, 1, 0, 1 + wholeOf(random, 5), 0]);
            new DataView(bytes.buffer).setUint32(40, wholeOf(random, 30), true);
        } else {
            for (let k = 1 + wholeOf(random, 4); k > 0; k--)
                bytes[oneOf(random, [16 + wholeOf(random, 48), 64 + wholeOf(random, bytes.length - 64)])] = oneOf(random, [0, 1, 255, 128, wholeOf(random, 256)]);
        }
        new DataView(bytes.buffer).setUint32(44, bytes.length, true);
        read += readOrThrow(sealed(bytes)) ? 1 : 0;
    }
    assert.ok(read > rounds / 100, `only ${read} were read: the changes are too wild to say anything`);
});
