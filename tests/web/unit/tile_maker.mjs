/* tile_maker.mjs - GLT1 tiles out of columns, as docs/tiles.md has them: written from the document, apart from the decoder. */
import {crcOf} from '../../../web/src/glt1.js';

const SIZES = {1: 1, 2: 2, 3: 4, 4: 8, 5: 4, 6: 8};
const SETTERS = {1: 'setUint8', 2: 'setUint16', 3: 'setUint32', 4: 'setBigUint64', 5: 'setFloat32', 6: 'setFloat64'};

function bytesOf(type, values)
{
    if (type === 7) {
        const parts = values.map(v => new TextEncoder().encode(v));
        const size = parts.reduce((a, p) => a + p.length, 0);
        const out = new Uint8Array(values.length * 4 + size), view = new DataView(out.buffer);
        let end = 0;
        parts.forEach((p, i) => {
            out.set(p, values.length * 4 + end);
            view.setUint32(i * 4, end += p.length, true);
        });
        return out;
    }
    const out = new Uint8Array(values.length * SIZES[type]), view = new DataView(out.buffer);
    values.forEach((v, i) => view[SETTERS[type]](i * SIZES[type], v, true));
    return out;
}

/* columns: [[number, type, group, values]] */
export function tile({kind, level = 14, index = 26118, flags = 0, baseNs = 1794953831855947776n, spanNs = 1099511627776n, leftOut = 0n, lost = 0n, columns})
{
    const parts = columns.map(([number, type, group, values]) => ({number, type, group, n: values.length, bytes: bytesOf(type, values)}));
    let at = 64 + parts.length * 16;
    for (const p of parts) {
        p.offset = at = Math.ceil(at / 8) * 8;
        at += p.bytes.length;
    }
    const out = new Uint8Array(Math.ceil(at / 8) * 8), view = new DataView(out.buffer);
    out.set(new TextEncoder().encode('GLT1'));
    [[4, 1], [6, kind], [8, level], [10, flags]].forEach(([o, v]) => view.setUint16(o, v, true));
    view.setBigInt64(16, BigInt(index), true);
    view.setBigInt64(24, baseNs, true);
    view.setBigUint64(32, spanNs, true);
    view.setUint32(40, parts.length, true);
    view.setUint32(44, out.length, true);
    view.setBigUint64(48, leftOut, true);
    view.setBigUint64(56, lost, true);
    parts.forEach((p, i) => {
        const o = 64 + i * 16;
        view.setUint16(o, p.number, true);
        out[o + 2] = p.type;
        out[o + 3] = p.group;
        view.setUint32(o + 4, p.n, true);
        view.setUint32(o + 8, p.offset, true);
        view.setUint32(o + 12, p.bytes.length, true);
        out.set(p.bytes, p.offset);
    });
    return sealed(out);
}

/* Puts the right checksum in. */
export function sealed(bytes)
{
    new DataView(bytes.buffer, bytes.byteOffset).setUint32(12, crcOf(bytes), true);
    return bytes;
}

export const seriesTile = (more = {}) => tile({kind: 1, columns: [
    [1, 4, 1, [268435456n]], [2, 7, 2, ['vm agent cpu cpu=all', 'nöde7 agent cpu cpu=0']], [3, 2, 0, [0, 0, 1]], [4, 3, 0, [0, 16777216, 4294967295]],
    [5, 6, 0, [1, 2, NaN]], [6, 6, 0, [1, 1, NaN]], [7, 6, 0, [3, 2, NaN]], [8, 6, 0, [3, 1.5, NaN]], [9, 3, 0, [4, 2, 1]],
], ...more});

export const lifelineTile = () => tile({kind: 3, columns: [
    [10, 1, 0, [11, 3]], [11, 7, 0, ['j-1', 'j-2']], [12, 7, 3, ['a', 'b', 'c']], [13, 7, 4, ['vm', '']], [14, 3, 5, [2, 5]], [15, 2, 6, [0, 1, 0, 1, 2]],
    [16, 3, 0, [0, 1]], [17, 3, 7, [1, 2, 3, 4, 5]], [18, 2, 7, [0, 0, 1, 1, 0]],
]});

export const densityTile = () => tile({kind: 4, columns: [
    [1, 4, 1, [1024n]], [12, 7, 3, ['a', 'b']], [13, 7, 4, ['vm']], [4, 3, 0, [5, 6]], [9, 3, 0, [10, 1]], [19, 2, 8, [65535, 0]], [20, 2, 8, [0, 1]], [21, 1, 8, [0, 0]], [22, 2, 0, [0, 1]],
    [23, 1, 0, [255, 40]], [24, 2, 9, [1]], [25, 3, 9, [7]], [26, 6, 9, [1e9]], [27, 1, 9, [3]], [28, 2, 9, [0]], [29, 7, 9, ['j-9']],
]});

export const pointsTile = () => tile({kind: 2, columns: [
    [1, 4, 1, [0n]], [2, 7, 2, ['vm app log']], [3, 2, 0, [0]], [4, 3, 0, [9]], [9, 3, 0, [1]], [10, 1, 0, [4]], [11, 7, 0, ['']],
]});

export const edgesTile = () => tile({kind: 5, columns: [
    [30, 7, 10, ['client', 'server']], [31, 3, 0, [0]], [32, 3, 0, [1]], [33, 5, 0, [1.5]], [9, 3, 0, [90]], [34, 3, 0, [2]], [35, 5, 0, [0.1]], [36, 5, 0, [0.5]],
]});
