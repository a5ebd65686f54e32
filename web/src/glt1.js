/* glt1.js - decodes tiles (docs/tiles.md, GLT1).
 *
 * Everything that a drawing loop would trust is checked here: bounds, lengths, that numbers of streams, events, hosts and paths
 * are of ones that there are. Throws TileError on anything that is wrong; never hangs: each loop is bounded by the bytes.
 * Columns of numbers are typed arrays laid over the buffer, texts are arrays of strings. */

export class TileError extends Error {
    constructor(text)
    {
        super('tile: ' + text);
        this.name = 'TileError';
    }
}

const HEAD = 64, ENTRY = 16, COLUMNS_MAX = 256;
const OPEN = 1, COARSE = 4;

export const KINDS = {1: 'series', 2: 'points', 3: 'lifeline-exact', 4: 'lifeline-density', 5: 'edges'};

const NAMES = {
    1: 'bin_ns', 2: 'streams', 3: 'row', 4: 't', 5: 'first', 6: 'min', 7: 'max', 8: 'last', 9: 'count', 10: 'severity', 11: 'id',
    12: 'events', 13: 'hosts', 14: 'path_end', 15: 'path_event', 16: 'path', 17: 'vertex_t', 18: 'vertex_host', 19: 'pair_from',
    20: 'pair_to', 21: 'pair_late', 22: 'pair', 23: 'latency_bin', 24: 'outlier_pair', 25: 'outlier_t', 26: 'outlier_latency_ns',
    27: 'outlier_severity', 28: 'outlier_host', 29: 'outlier_id', 30: 'nodes', 31: 'src', 32: 'dst', 33: 'rate', 34: 'errors',
    35: 'p50', 36: 'p99', 37: 'hop_edge', 38: 'hop_t', 39: 'hop_latency', 40: 'hop_severity', 41: 'node_first',
};

const ARRAYS = {1: Uint8Array, 2: Uint16Array, 3: Uint32Array, 4: BigUint64Array, 5: Float32Array, 6: Float64Array};
const TEXT = 7;

/* The columns that each kind must have. */
const NEEDED = {
    series: ['bin_ns', 'streams', 'row', 't', 'first', 'min', 'max', 'last', 'count'],
    points: ['bin_ns', 'streams', 'row', 't', 'count', 'severity', 'id'],
    'lifeline-exact': ['severity', 'id', 'events', 'hosts', 'path_end', 'path_event', 'path', 'vertex_t', 'vertex_host'],
    'lifeline-density': ['bin_ns', 'events', 'hosts', 't', 'count', 'pair_from', 'pair_to', 'pair_late', 'pair', 'latency_bin', 'outlier_pair',
                         'outlier_t', 'outlier_latency_ns', 'outlier_severity', 'outlier_host', 'outlier_id'],
    edges: ['nodes', 'src', 'dst', 'rate', 'count', 'errors', 'p50', 'p99'],
};

/* Columns that are there all or not at all. */
const TOGETHER = ['hop_edge', 'hop_t', 'hop_latency', 'hop_severity'];

/* Numbers in `column` are those of values of `of`; but `none`, which means that there is no such. */
const REFERENCES = {
    series: [['row', 'streams']],
    points: [['row', 'streams']],
    'lifeline-exact': [['path_event', 'events'], ['path', 'path_end'], ['vertex_host', 'hosts']],
    'lifeline-density': [['pair_from', 'events', 65535], ['pair_to', 'events'], ['pair', 'pair_from'], ['outlier_pair', 'pair_from'],
                         ['outlier_host', 'hosts']],
    edges: [['src', 'nodes'], ['dst', 'nodes'], ['hop_edge', 'src']],
};

/* ---- CRC-32C, eight bytes at a time ---- */

const CRC = (() => {
    const tables = Array.from({length: 8}, () => new Uint32Array(256));
    for (let i = 0; i < 256; i++) {
        let c = i;
        for (let k = 0; k < 8; k++)
            c = c & 1 ? (c >>> 1) ^ 0x82f63b78 : c >>> 1;
        tables[0][i] = c >>> 0;
    }
    for (let i = 0; i < 256; i++) {
        for (let t = 1; t < 8; t++)
            tables[t][i] = tables[0][tables[t - 1][i] & 255] ^ (tables[t - 1][i] >>> 8);
    }
    return tables;
})();

function crcOver(crc, bytes, from, to)
{
    const [t0, t1, t2, t3, t4, t5, t6, t7] = CRC;
    let i = from;
    for (; i + 8 <= to; i += 8) {
        const a = crc ^ (bytes[i] | bytes[i + 1] << 8 | bytes[i + 2] << 16 | bytes[i + 3] << 24);
        crc = t7[a & 255] ^ t6[a >>> 8 & 255] ^ t5[a >>> 16 & 255] ^ t4[a >>> 24]
            ^ t3[bytes[i + 4]] ^ t2[bytes[i + 5]] ^ t1[bytes[i + 6]] ^ t0[bytes[i + 7]];
    }
    for (; i < to; i++)
        crc = t0[(crc ^ bytes[i]) & 255] ^ (crc >>> 8);
    return crc;
}

/* Of all bytes, those at 12 to 15 being 0. */
export function crcOf(bytes)
{
    let crc = crcOver(-1, bytes, 0, 12);
    crc = crcOver(crc, new Uint8Array(4), 0, 4);
    return ~crcOver(crc, bytes, 16, bytes.length) >>> 0;
}

/* ---- columns ---- */

const utf8 = new TextDecoder('utf-8');
const latin = new TextDecoder('latin1');

function textColumn(buffer, offset, bytes, values)
{
    if (values * 4 > bytes)
        throw new TileError('texts that are longer than their column');
    const ends = new Uint32Array(buffer, offset, values);
    const size = bytes - values * 4;
    for (let i = 0, last = 0; i < values; i++) {
        if (ends[i] < last || ends[i] > size)
            throw new TileError('a text that ends before it begins, or beyond its column');
        last = ends[i];
    }
    const raw = new Uint8Array(buffer, offset + values * 4, size);
    const isAscii = raw.every(c => c < 128);
    const all = isAscii ? latin.decode(raw) : '';
    const out = new Array(values);
    for (let i = 0, from = 0; i < values; from = ends[i++])
        out[i] = isAscii ? all.slice(from, ends[i]) : utf8.decode(raw.subarray(from, ends[i]));
    return out;
}

function column(buffer, {type, values, offset, bytes})
{
    if (offset % 8 || offset + bytes > buffer.byteLength || offset < HEAD)
        throw new TileError('a column that is not within the tile');
    if (type === TEXT)
        return textColumn(buffer, offset, bytes, values);
    const kind = ARRAYS[type];
    if (!kind || values * kind.BYTES_PER_ELEMENT !== bytes)
        throw new TileError('a column whose size is not that of its values');
    return new kind(buffer, offset, values);
}

function columnsOf(buffer, view, n)
{
    if (n > COLUMNS_MAX || HEAD + n * ENTRY > buffer.byteLength)
        throw new TileError('more columns than it has room for');
    const columns = {}, groups = new Map();
    for (let i = 0; i < n; i++) {
        const at = HEAD + i * ENTRY;
        const name = NAMES[view.getUint16(at, true)];
        if (!name)
            continue; /* of a later version */
        const entry = {type: view.getUint8(at + 2), values: view.getUint32(at + 4, true), offset: view.getUint32(at + 8, true),
                       bytes: view.getUint32(at + 12, true)};
        const group = view.getUint8(at + 3);
        if (columns[name] || (groups.has(group) && groups.get(group) !== entry.values))
            throw new TileError('columns that do not fit together: ' + name);
        groups.set(group, entry.values);
        columns[name] = column(buffer, entry);
    }
    return columns;
}

/* ---- what must hold among columns ---- */

function checkReferences(kind, columns)
{
    for (const [name, of, none] of REFERENCES[kind]) {
        const numbers = columns[name] ?? [], max = columns[of].length;
        for (let i = 0; i < numbers.length; i++) {
            if (numbers[i] >= max && numbers[i] !== none)
                throw new TileError(`${name} ${numbers[i]}, and ${of} has ${max}`);
        }
    }
}

/* The lengths of paths, and that the lifelines' vertices are just as many as these say. */
function checkPaths({path_end: ends, path_event: events, path, vertex_t: times})
{
    for (let i = 0, last = 0; i < ends.length; i++) {
        if (ends[i] < last || ends[i] > events.length)
            throw new TileError('a path that ends before it begins, or beyond its events');
        last = ends[i];
    }
    let vertices = 0;
    for (let i = 0; i < path.length; i++)
        vertices += ends[path[i]] - (path[i] ? ends[path[i] - 1] : 0);
    if (vertices !== times.length)
        throw new TileError(`${times.length} vertices for paths of ${vertices}`);
}

/* → {kind, level, index, flags, isOpen, isCoarse, baseNs, spanNs, leftOut, lost, bytes, columns: {name: typed array | string[]}} */
export function decode(buffer)
{
    if (buffer.byteLength < HEAD)
        throw new TileError(`${buffer.byteLength} bytes, too few for a head`);
    const view = new DataView(buffer);
    if (view.getUint32(0, true) !== 0x31544c47 || view.getUint16(4, true) !== 1)
        throw new TileError('not GLT1, version 1');
    const kind = KINDS[view.getUint16(6, true)];
    if (!kind)
        throw new TileError('a kind that nobody knows');
    if (view.getUint32(44, true) !== buffer.byteLength)
        throw new TileError(`${buffer.byteLength} bytes of ${view.getUint32(44, true)}`);
    if (view.getUint32(12, true) !== crcOf(new Uint8Array(buffer)))
        throw new TileError('its checksum is wrong');
    const columns = columnsOf(buffer, view, view.getUint32(40, true));
    for (const name of NEEDED[kind]) {
        if (!columns[name])
            throw new TileError(`a ${kind} tile without ${name}`);
    }
    if (TOGETHER.some(name => columns[name]) && !TOGETHER.every(name => columns[name]))
        throw new TileError('hops without all of their columns');
    checkReferences(kind, columns);
    if (kind === 'lifeline-exact')
        checkPaths(columns);
    const flags = view.getUint16(10, true);
    return {kind, level: view.getUint16(8, true), index: Number(view.getBigInt64(16, true)), flags, isOpen: (flags & OPEN) !== 0,
            isCoarse: (flags & COARSE) !== 0, baseNs: view.getBigInt64(24, true), spanNs: view.getBigUint64(32, true),
            leftOut: Number(view.getBigUint64(48, true)), lost: Number(view.getBigUint64(56, true)), bytes: buffer.byteLength, columns};
}

/* Microseconds of t = 0, and of one step of t: a time is base + t · step. */
export const baseUs = tile => Number(tile.baseNs / 1000n) + Number(tile.baseNs % 1000n) / 1000;
export const stepUs = tile => Number(tile.spanNs) / 1000 / 2 ** 32;

/* The exact time of t, in nanoseconds. */
export const exactNs = (tile, t) => tile.baseNs + (BigInt(t) * tile.spanNs >> 32n);
