/* Tiles for tests and benches of the scene, decoded, as glt1.js gives them. Random ones come from a seed. */

export function seeded(seed)
{
    let x = seed >>> 0 || 1;
    return () => {
        x ^= x << 13;
        x >>>= 0;
        x ^= x >>> 17;
        x ^= x << 5;
        x >>>= 0;
        return x / 2 ** 32;
    };
}

const SECOND = 1_000_000_000n;

const tile = (kind, level, index, columns, more = {}) => {
    const span = 1n << BigInt(2 * level + 8);
    const isExact = kind === 'lifeline-exact';
    return {kind, level, index, flags: 0, isOpen: false, isCoarse: false, baseNs: span * BigInt(isExact ? index - 1 : index), spanNs: isExact ? span * 4n : span, leftOut: 0, lost: 0,
            bytes: 0, columns, ...more};
};

export const tileUs = level => Number(1n << BigInt(2 * level + 8)) / 1000;

/* lives: [{id, severity, at: [[event, us, host]]}], with us from the beginning of the tile. */
export function exactTile(lives, {level = 14, index = 1000, ...more} = {})
{
    const events = [], hosts = [], paths = [], path = [], t = [], host = [];
    const number = (list, v) => list.includes(v) ? list.indexOf(v) : list.push(v) - 1;
    const unit = Number(1n << BigInt(2 * level + 8)) * 4 / 1000 / 2 ** 32;
    for (const {at} of lives) {
        const names = at.map(([event]) => number(events, event)).join();
        path.push(number(paths, names));
        for (const [, us, on = 'h'] of at) {
            t.push(Math.round(us / unit) + 2 ** 30);
            host.push(number(hosts, on));
        }
    }
    const ends = [];
    const list = paths.flatMap(p => {
        const of = p.split(',').map(Number);
        ends.push((ends.at(-1) ?? 0) + of.length);
        return of;
    });
    return tile('lifeline-exact', level, index, {severity: Uint8Array.from(lives, l => l.severity ?? 11), id: lives.map(l => l.id), events, hosts, path_end: Uint32Array.from(ends), path_event: Uint16Array.from(list),
                                                 path: Uint32Array.from(path), vertex_t: Uint32Array.from(t), vertex_host: Uint16Array.from(host)}, more);
}

/* Many lifelines of the same five events; one in `bad` has an error. */
export function manyLifelines(n, {level = 14, index = 1000, seed = 1, bad = 1000, names = ['client.send', 'sched.queue', 'server.start', 'server.end', 'client.recv']} = {})
{
    const random = seeded(seed), k = names.length;
    const t = new Uint32Array(n * k), host = new Uint16Array(n * k), severity = new Uint8Array(n).fill(11), id = new Array(n);
    const quarter = 2 ** 30;
    for (let l = 0; l < n; l++) {
        let at = quarter + random() * quarter * 0.995;
        for (let i = 0; i < k; i++) {
            t[l * k + i] = at;
            host[l * k + i] = i % 3;
            at = Math.min(2 ** 31 - 1, at + quarter * 0.0002 * (0.2 + random()) * (random() < 0.01 ? 12 : 1));
        }
        id[l] = 'job-' + index + '-' + l;
        if (l % bad === 0)
            severity[l] = 3;
    }
    return tile('lifeline-exact', level, index, {severity, id, events: names, hosts: ['a', 'b', 'c'], path_end: Uint32Array.of(k), path_event: Uint16Array.from(names, (_, i) => i), path: new Uint32Array(n),
                                                 vertex_t: t, vertex_host: host});
}

/* cells: [[pair, t (0 … 63), latency bin, count]]; pairs: [[from or null, to]]; outliers: [[pair, t part, ns, severity, id]] */
export function densityTile(pairs, cells, outliers = [], {level = 14, index = 1000, ...more} = {})
{
    const events = [...new Set(pairs.flat().filter(Boolean))];
    const col = (kind, list, of) => kind.from(list, of);
    return tile('lifeline-density', level, index, {
        bin_ns: BigUint64Array.of((1n << BigInt(2 * level + 8)) / 64n), events, hosts: ['h'], t: col(Uint32Array, cells, c => c[1] * 2 ** 26), count: col(Uint32Array, cells, c => c[3]),
        pair_from: col(Uint16Array, pairs, p => p[0] ? events.indexOf(p[0]) : 65535), pair_to: col(Uint16Array, pairs, p => events.indexOf(p[1])), pair_late: new Uint8Array(pairs.length),
        pair: col(Uint16Array, cells, c => c[0]), latency_bin: col(Uint8Array, cells, c => c[2]), outlier_pair: col(Uint16Array, outliers, o => o[0]),
        outlier_t: col(Uint32Array, outliers, o => o[1] * 2 ** 32), outlier_latency_ns: col(Float64Array, outliers, o => o[2]), outlier_severity: col(Uint8Array, outliers, o => o[3]),
        outlier_host: new Uint16Array(outliers.length), outlier_id: outliers.map(o => o[4])}, more);
}

/* rows: [[stream, t part, value or [first, min, max, last], count]] */
export function seriesTile(rows, {level = 14, index = 1000, ...more} = {})
{
    const streams = [...new Set(rows.map(r => r[0]))];
    const part = i => Float64Array.from(rows, r => Array.isArray(r[2]) ? r[2][i] : r[2]);
    return tile('series', level, index, {bin_ns: BigUint64Array.of(1n << BigInt(2 * level)), streams, row: Uint16Array.from(rows, r => streams.indexOf(r[0])), t: Uint32Array.from(rows, r => r[1] * 2 ** 32),
                                         first: part(0), min: part(1), max: part(2), last: part(3), count: Uint32Array.from(rows, r => r[3] ?? 1)}, more);
}

/* rows: [[stream, t part, severity, count, id]] */
export function pointsTile(rows, {level = 14, index = 1000, bin = 0n, ...more} = {})
{
    const streams = [...new Set(rows.map(r => r[0]))], number = new Map(streams.map((s, i) => [s, i]));
    return tile('points', level, index, {bin_ns: BigUint64Array.of(bin), streams, row: Uint16Array.from(rows, r => number.get(r[0])), t: Uint32Array.from(rows, r => r[1] * 2 ** 32),
                                         count: Uint32Array.from(rows, r => r[3] ?? 1), severity: Uint8Array.from(rows, r => r[2]), id: rows.map(r => r[4] ?? '')}, more);
}

export const entryOf = t => ({tile: t, level: t.level, index: t.index, from: t.index * tileUs(t.level), to: (t.index + 1) * tileUs(t.level)});
export {SECOND};
