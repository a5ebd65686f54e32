/* map_model.js - who calls whom: nodes, edges and hops of a range, put together from edges tiles (docs/tiles.md) and from job
 * events; which column each node is in; where it is drawn. Pure.
 *
 * A graph is
 *     nodes  [{name, host, prog, first, in, out, errors, busy: {count, p50, p99}, activity: [count a slice], role}]
 *     edges  [{src, dst, count, rate, errors, p50, p99}]        numbers of nodes; src != dst
 *     hops   {edge, src, dst, start, end, isError}: columns, in order of start; start and end in µs. edge -1: it stays at src
 *     share  how many of the interactions of the range are in hops, 0 … 1 (1: every one) */

export const ROLES = ['client', 'scheduler', 'server'];
export const HOPS_MAX = 40000;

const LEVEL_ERROR = 3;

/* Part of the tile that is in the range, 0 … 1. */
function overlap(fromUs, toUs, from, to)
{
    return Math.max(0, Math.min(toUs, to) - Math.max(fromUs, from)) / (toUs - fromUs);
}

/* tiles: [{tile, from, to}] as tiles.js gives them: of each tile what is between the two; from, to: µs; slices: of the activity strips. */
export function graphOf(tiles, from, to, slices = 24)
{
    const g = {nodes: [], edges: [], hops: null, share: 1, leftOut: 0, lost: 0, from, to, seconds: Math.max(1e-9, (to - from) / 1e6)};
    const nodeOf = new Map(), edgeOf = new Map(), hops = [];
    let all = 0, single = 0;

    const node = name => {
        let i = nodeOf.get(name);
        if (i === undefined) {
            i = g.nodes.length;
            nodeOf.set(name, i);
            const space = name.indexOf(' ');
            g.nodes.push({name, host: space < 0 ? name : name.slice(0, space), prog: space < 0 ? '' : name.slice(space + 1), first: 0,
                          in: 0, out: 0, errors: 0, busy: {count: 0, p50: NaN, p99: NaN}, activity: new Float64Array(slices), role: ''});
        }
        return i;
    };
    const edge = (src, dst) => {
        const key = src * 0x100000 + dst;
        let e = edgeOf.get(key);
        if (!e) {
            e = {src, dst, count: 0, rate: 0, errors: 0, p50: NaN, p99: NaN, number: g.edges.length};
            edgeOf.set(key, e);
            if (src !== dst)
                g.edges.push(e);
        }
        return e;
    };

    for (const {tile, from: begin, to: end} of tiles) {
        const c = tile.columns;
        const base = Number(tile.baseNs) / 1e3, span = Number(tile.spanNs) / 1e3;
        const part = overlap(base, base + span, Math.max(from, begin), Math.min(to, end));
        if (part === 0)
            continue;
        g.leftOut += tile.leftOut;
        g.lost += tile.lost;
        const numbers = c.nodes.map(node);
        c.node_first?.forEach((n, i) => { g.nodes[numbers[i]].first += n * part; });
        const slice = Math.max(0, Math.min(slices - 1, Math.floor(((begin + end) / 2 - from) / (to - from) * slices)));
        const own = []; /* the tile's edges */
        for (let i = 0; i < c.src.length; i++) {
            const e = edge(numbers[c.src[i]], numbers[c.dst[i]]);
            own.push(e);
            add(e, c.count[i] * part, c.errors[i] * part, c.p50[i], c.p99[i]);
            all += c.count[i] * part;
            if (!c.hop_t)
                spread(g.nodes[e.dst].activity, slice, end - begin, (to - from) / slices, c.count[i] * part);
        }
        if (c.hop_t)
            single += takeHops(g, hops, c, own, {base, span, begin, end});
    }
    finish(g, edgeOf, hops);
    g.share = all > 0 ? Math.min(1, single / all) : 1;
    return g;
}

/* Counts add up; of times the middle is weighted, the slow end the worst. */
function add(e, count, errors, p50, p99)
{
    if (count > 0 && p50 === p50)
        e.p50 = e.count > 0 && e.p50 === e.p50 ? (e.p50 * e.count + p50 * count) / (e.count + count) : p50;
    if (p99 === p99)
        e.p99 = e.p99 === e.p99 ? Math.max(e.p99, p99) : p99;
    e.count += count;
    e.errors += errors;
}

/* A tile's count over the slices that it covers. */
function spread(activity, middle, span, width, count)
{
    const n = Math.max(1, Math.round(span / width)), first = middle - Math.floor((n - 1) / 2);
    for (let i = 0; i < n; i++) {
        if (first + i >= 0 && first + i < activity.length)
            activity[first + i] += count / n;
    }
}

function takeHops(g, hops, c, own, {base, span, begin, end: until})
{
    const {from, to} = g;
    const all = c.count.reduce((sum, n) => sum + n, 0), weight = all / Math.max(1, c.hop_t.length);
    const slices = g.nodes[0]?.activity.length ?? 1;
    let taken = 0;
    for (let i = 0; i < c.hop_t.length; i++) {
        const e = own[c.hop_edge[i]];
        const end = base + c.hop_t[i] / 2 ** 32 * span, latency = c.hop_latency[i] * 1e6;
        if (end < begin || end >= until)
            continue;
        if (end >= from && end < to) {
            taken++;
            const slice = Math.floor((end - from) / (to - from) * slices);
            g.nodes[e.dst].activity[slice] += weight;
        }
        if (hops.length < HOPS_MAX)
            hops.push({e, start: end - latency, end, isError: c.hop_severity[i] <= LEVEL_ERROR});
    }
    return taken;
}

function finish(g, edgeOf, hops)
{
    for (const e of edgeOf.values()) {
        e.rate = e.count / g.seconds;
        const src = g.nodes[e.src], dst = g.nodes[e.dst];
        dst.errors += e.errors;
        if (e.src === e.dst) {
            src.busy = {count: e.count, p50: e.p50, p99: e.p99};
            continue;
        }
        src.out += e.count;
        dst.in += e.count;
    }
    hops.sort((a, b) => a.start - b.start);
    const n = hops.length;
    g.hops = {n, edge: new Int32Array(n), src: new Uint32Array(n), dst: new Uint32Array(n), start: new Float64Array(n),
              end: new Float64Array(n), isError: new Uint8Array(n), longest: 0};
    const place = new Map(g.edges.map((e, i) => [e, i]));
    hops.forEach((h, i) => {
        g.hops.edge[i] = place.get(h.e) ?? -1;
        g.hops.src[i] = h.e.src;
        g.hops.dst[i] = h.e.dst;
        g.hops.start[i] = h.start;
        g.hops.end[i] = h.end;
        g.hops.isError[i] = h.isError ? 1 : 0;
        g.hops.longest = Math.max(g.hops.longest, h.end - h.start);
    });
}

/* ---- jobs: what Slurm's and others' job.state says, as a tile of its own ---- */

const ENDED = {COMPLETED: false, COMPLETING: false, FAILED: true, TIMEOUT: true, NODE_FAIL: true, OUT_OF_MEMORY: true, CANCELLED: true,
               PREEMPTED: true, BOOT_FAIL: true, DEADLINE: true};

/* rows: {time (µs), host, prog, id, state, user, nodes} in order of time → hops from user to scheduler to node and back, as a tile
 * that graphOf takes. */
export function tileOfJobs(rows, from, to)
{
    const names = new Map(), edges = new Map(), jobs = new Map(), firsts = [], hops = [];
    const number = name => {
        if (!names.has(name)) {
            names.set(name, names.size);
            firsts.push(0);
        }
        return names.get(name);
    };
    const hop = (src, dst, start, end, isError) => {
        const key = src + ' ' + dst;
        if (!edges.has(key))
            edges.set(key, {src, dst, number: edges.size, count: 0, errors: 0, times: []});
        const e = edges.get(key);
        e.count++;
        e.errors += isError ? 1 : 0;
        e.times.push((end - start) / 1e6);
        hops.push({edge: e.number, t: end, latency: (end - start) / 1e6, severity: isError ? LEVEL_ERROR : 11});
    };
    for (const r of rows) {
        const scheduler = number(r.host + ' ' + (r.prog || 'scheduler'));
        let job = jobs.get(r.id);
        if (!job) {
            const user = number('user ' + (r.user || 'unknown'));
            job = {user, at: scheduler, since: r.time, nodes: []};
            jobs.set(r.id, job);
            firsts[user]++;
            hop(user, scheduler, r.time, r.time, false);
        }
        if (r.state === 'RUNNING' && job.nodes.length === 0) {
            job.nodes = nodeList(r.nodes).map(number);
            for (const n of job.nodes)
                hop(scheduler, n, job.since, r.time, false);
            job.since = r.time;
        } else if (r.state in ENDED && !job.isOver) {
            job.isOver = true;
            for (const n of job.nodes)
                hop(n, n, job.since, r.time, ENDED[r.state]);
            for (const n of job.nodes)
                hop(n, scheduler, r.time, r.time, ENDED[r.state]);
            if (job.nodes.length === 0)
                hop(scheduler, job.user, job.since, r.time, ENDED[r.state]);
        }
    }
    return asTile([...names.keys()], firsts, [...edges.values()], hops, from, to);
}

function asTile(nodes, firsts, edges, hops, from, to)
{
    const column = (list, of, Type) => Type.from(list, of);
    const quantile = (times, p) => {
        const sorted = times.toSorted((a, b) => a - b);
        return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * p))];
    };
    return {
        baseNs: BigInt(Math.round(from)) * 1000n, spanNs: BigInt(Math.max(1, Math.round(to - from))) * 1000n, leftOut: 0, lost: 0,
        columns: {
            nodes, node_first: Uint32Array.from(firsts),
            src: column(edges, e => e.src, Uint32Array), dst: column(edges, e => e.dst, Uint32Array),
            count: column(edges, e => e.count, Uint32Array), errors: column(edges, e => e.errors, Uint32Array),
            p50: column(edges, e => quantile(e.times, 0.5), Float32Array), p99: column(edges, e => quantile(e.times, 0.99), Float32Array),
            hop_edge: column(hops, h => h.edge, Uint16Array),
            hop_t: column(hops, h => Math.max(0, Math.min(2 ** 32 - 1, (h.t - from) / (to - from) * 2 ** 32)), Uint32Array),
            hop_latency: column(hops, h => h.latency, Float32Array), hop_severity: column(hops, h => h.severity, Uint8Array),
        },
    };
}

/* Slurm's lists of nodes: n[1-3,7],m2 → n1 n2 n3 n7 m2; at most 64. */
export function nodeList(text)
{
    const out = [];
    for (const [, prefix, list] of String(text ?? '').matchAll(/([^,[\]\s]+)(?:\[([^\]]*)\])?/g)) {
        if (list === undefined) {
            out.push(prefix);
            continue;
        }
        for (const part of list.split(',')) {
            const [first, last] = part.split('-');
            const width = first.length;
            for (let i = Number(first); i <= Number(last ?? first) && out.length < 64; i++)
                out.push(prefix + String(i).padStart(width, '0'));
        }
    }
    return out.filter(n => n !== '(null)').slice(0, 64);
}

/* ---- roles ---- */

const HINTS = [
    [/(^|[^a-z])(client|submit|user|portal|cli|sbatch|frontend)/i, 0],
    [/(sched|agent|broker|dispatch|queue|slurmctld|pbs_server|negotiator|collector|master|manager|gatekeeper|controller|proxy|balancer)/i, 1],
    [/(server|worker|slurmd|compute|storage|executor|startd|starter|node|replica|disk|mover)/i, 2],
];

const hintOf = n => HINTS.find(([pattern]) => pattern.test(n.prog || n.host))?.[1];

/* Gives each node a role, and a column from 0: how many hops it is away from where ids begin. Programs whose name says what they
 * are, are that; between two of a kind the one that others go through is the scheduler. */
export function rank(g)
{
    const near = g.nodes.map(() => new Set());
    for (const e of g.edges) {
        near[e.src].add(e.dst);
        near[e.dst].add(e.src);
    }
    const begins = g.nodes.map((n, i) => n.first > 0 && n.first >= 0.5 * (n.first + n.in) ? i : -1).filter(i => i >= 0);
    const sources = begins.length ? begins : sourcesByFlow(g);
    const depth = distances(near, sources);
    const deepest = Math.max(0, ...depth.filter(Number.isFinite));
    g.nodes.forEach((n, i) => {
        const hint = hintOf(n);
        const d = Number.isFinite(depth[i]) ? depth[i] : deepest;
        const isHub = near[i].size >= 2;
        n.depth = d;
        n.role = ROLES[hint ?? (d === 0 ? 0 : isHub && (d < deepest || deepest === 1 && near[i].size > 2) ? 1 : 2)];
    });
    return g;
}

/* No ids begin in what is seen: those that send more than they get. */
function sourcesByFlow(g)
{
    const hinted = g.nodes.map((n, i) => hintOf(n) === 0 ? i : -1).filter(i => i >= 0);
    if (hinted.length)
        return hinted;
    const out = g.nodes.map((n, i) => n.out > n.in * 1.05 + 1 ? i : -1).filter(i => i >= 0);
    return out.length ? out : g.nodes.length ? [0] : [];
}

function distances(near, sources)
{
    const depth = near.map(() => Infinity);
    let wave = sources;
    sources.forEach(i => { depth[i] = 0; });
    for (let d = 1; wave.length; d++) {
        const next = [];
        for (const i of wave) {
            for (const j of near[i]) {
                if (depth[j] === Infinity) {
                    depth[j] = d;
                    next.push(j);
                }
            }
        }
        wave = next;
    }
    return depth;
}

/* ---- layout ---- */

/* Columns from left to right, each a list of numbers of nodes from top to bottom. `before`: Map name → {column, place} of the last
 * time: what was there keeps its column and its order, what is new comes where its neighbours are. */
export function columnsOf(g, before = new Map())
{
    const columnOf = n => before.get(n.name)?.column ?? ROLES.indexOf(n.role);
    const columns = [[], [], []];
    g.nodes.forEach((n, i) => columns[columnOf(n)].push(i));
    const at = new Float64Array(g.nodes.length);
    const near = g.nodes.map(() => []);
    for (const e of g.edges) {
        near[e.src].push(e.dst);
        near[e.dst].push(e.src);
    }
    for (const list of columns) {
        list.sort((a, b) => byName(g.nodes[a], g.nodes[b]));
        list.forEach((i, place) => { at[i] = list.length > 1 ? place / (list.length - 1) : 0.5; });
    }
    for (let sweep = 0; sweep < 3; sweep++) {
        for (const list of columns)
            settle(g, list, near, at, before);
    }
    return columns;
}

/* By the mean place of its neighbours; what was there stays in its order. */
function settle(g, list, near, at, before)
{
    const known = list.filter(i => before.has(g.nodes[i].name))
        .sort((a, b) => before.get(g.nodes[a].name).place - before.get(g.nodes[b].name).place);
    const wish = i => near[i].length ? near[i].reduce((sum, j) => sum + at[j], 0) / near[i].length : at[i];
    const fresh = list.filter(i => !before.has(g.nodes[i].name)).map(i => [i, wish(i)])
        .sort((a, b) => a[1] - b[1] || byName(g.nodes[a[0]], g.nodes[b[0]])).map(([i]) => i);
    const merged = [];
    let k = 0;
    for (const i of fresh) {
        while (k < known.length && wish(known[k]) <= wish(i))
            merged.push(known[k++]);
        merged.push(i);
    }
    merged.push(...known.slice(k));
    merged.forEach((i, place) => {
        list[place] = i;
        at[i] = merged.length > 1 ? place / (merged.length - 1) : 0.5;
    });
}

const collator = new Intl.Collator('en', {numeric: true});
const byName = (a, b) => collator.compare(a.prog || a.host, b.prog || b.host) || collator.compare(a.name, b.name);

/* Where each node's box is: {boxes: [{x, y, w, h}], size: 'full' | 'compact' | 'dot', columns}. Tall columns are broken into several. */
export function layout(g, width, height, before)
{
    const columns = columnsOf(g, before);
    const size = SIZES.find(s => fits(columns, s, width, height)) ?? SIZES.at(-1);
    const boxes = [];
    const used = columns.map(list => list.length);
    const lanes = columns.map(list => Math.max(1, Math.ceil(list.length / rowsOf(size, height))));
    const widths = columns.map((list, i) => list.length ? lanes[i] * size.w + (lanes[i] - 1) * size.gapX : 0);
    const shown = used.filter(n => n > 0).length;
    const free = width - 2 * MARGIN - widths.reduce((a, b) => a + b, 0);
    const gap = shown > 1 ? Math.max(size.gapX, free / (shown - 1)) : 0;
    let x = shown > 1 ? MARGIN : MARGIN + free / 2;
    columns.forEach((list, c) => {
        if (!list.length)
            return;
        const rows = Math.ceil(list.length / lanes[c]);
        const step = Math.min(size.h * 3, (height - TOP - MARGIN) / rows);
        const top = TOP + Math.max(0, (height - TOP - MARGIN - step * rows) / 2) + Math.max(0, (step - size.h) / 2);
        list.forEach((i, place) => {
            const lane = Math.floor(place / rows);
            boxes[i] = {x: x + lane * (size.w + size.gapX), y: top + (place % rows) * step, w: size.w, h: Math.min(size.h, Math.max(3, step - 1)),
                        column: c, place};
        });
        x += widths[c] + gap;
    });
    return {boxes, size: size.name, columns};
}

const MARGIN = 12, TOP = 30;
const SIZES = [
    {name: 'full', w: 176, h: 58, gapX: 36},
    {name: 'full', w: 132, h: 54, gapX: 24},
    {name: 'compact', w: 108, h: 18, gapX: 14},
    {name: 'compact', w: 72, h: 14, gapX: 8},
    {name: 'dot', w: 10, h: 8, gapX: 6},
    {name: 'dot', w: 5, h: 4, gapX: 3},
];

const rowsOf = (size, height) => Math.max(1, Math.floor((height - TOP - MARGIN) / (size.h + (size.name === 'full' ? 14 : size.name === 'compact' ? 4 : 2))));

function fits(columns, size, width, height)
{
    const rows = rowsOf(size, height);
    let need = 2 * MARGIN, n = 0;
    for (const list of columns) {
        if (!list.length)
            continue;
        need += Math.ceil(list.length / rows) * (size.w + size.gapX);
        n++;
    }
    return need + (n - 1) * (size.name === 'full' ? Math.min(60, width / 12) : 30) <= width;
}

/* For columnsOf of the next time. */
export const placesOf = (g, l) => new Map(g.nodes.map((n, i) => [n.name, {column: l.boxes[i].column, place: l.boxes[i].place}]));

/* ---- what an edge looks like ---- */

/* 12/s, 3/min, 2/h: what a person can picture. */
export const perTime = rate => rate >= 0.5 || !(rate > 0) ? [rate || 0, 's'] : rate >= 0.5 / 60 ? [rate * 60, 'min'] : [rate * 3600, 'h'];

/* Points of a curve from src's box to dst's: x0 y0, two control points, x1 y1. Back ones leave at the left, and lower; those that pass
 * a column go around it, above or below. */
export function curveOf(a, b)
{
    const isBack = b.x < a.x, isSame = Math.abs(a.x - b.x) < 1;
    const dy = isBack ? 0.72 : 0.38;
    const x0 = isSame || !isBack ? a.x + a.w : a.x, x1 = isSame ? b.x + b.w : isBack ? b.x + b.w : b.x;
    const y0 = a.y + a.h * dy, y1 = b.y + b.h * dy;
    const bend = isSame ? 26 + Math.abs(y1 - y0) * 0.12 : (x1 - x0) * 0.45;
    const around = Math.abs((a.column ?? 0) - (b.column ?? 0)) > 1 ? (isBack ? 1 : -1) * (a.h + 60) : 0;
    return isSame ? [x0, y0, x0 + bend, y0, x1 + bend, y1, x1, y1] : [x0, y0, x0 + bend, y0 + around, x1 - bend, y1 + around, x1, y1];
}

export function pointAt(c, t, out)
{
    const u = 1 - t, a = u * u * u, b = 3 * u * u * t, d = 3 * u * t * t, e = t * t * t;
    out[0] = a * c[0] + b * c[2] + d * c[4] + e * c[6];
    out[1] = a * c[1] + b * c[3] + d * c[5] + e * c[7];
    return out;
}

/* 1 … 7 px by the rate, in proportion to its logarithm. */
export const widthOf = (rate, most) => most > 0 && rate > 0 ? Math.max(1, Math.min(7, 1 + 6 * Math.log1p(rate * 20) / Math.log1p(most * 20))) : 1;

/* 0 … 3 by the slow end: fast, usual, slow, very slow among all edges; 4: errors. */
export function toneOf(e, bounds)
{
    if (e.errors >= 0.5)
        return 4;
    return e.p99 !== e.p99 ? 0 : e.p99 <= bounds[0] ? 0 : e.p99 <= bounds[1] ? 1 : e.p99 <= bounds[2] ? 2 : 3;
}
export const TONES = ['up to 1 ms', 'up to 10 ms', 'up to 100 ms', 'more than 100 ms', 'with errors'];
export const BOUNDS = [1e-3, 1e-2, 1e-1];

/* ---- what moves ---- */

/* The first hop that starts at or after t. */
export function firstFrom(hops, t)
{
    let lo = 0, hi = hops.n;
    while (lo < hi) {
        const mid = (lo + hi) >> 1;
        if (hops.start[mid] < t)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* Particles at time t (µs): calls put(edge, 0 … 1, isError) for at most `max` hops that are under way, evenly chosen. A hop is seen
 * for at least `least` µs: what takes microseconds could not be seen otherwise. Returns how many are under way. */
export function particlesAt(hops, t, least, max, put)
{
    const back = Math.min(Math.max(hops.longest, least), 600e6);
    const first = firstFrom(hops, t - back), last = firstFrom(hops, t + 1);
    let n = 0;
    for (let i = first; i < last; i++)
        n += isUnderWay(hops, i, t, least) ? 1 : 0;
    const step = Math.max(1, n / max);
    let k = 0, next = 0;
    for (let i = first; i < last; i++) {
        if (!isUnderWay(hops, i, t, least))
            continue;
        if (k++ < next)
            continue;
        next += step;
        put(hops.edge[i], (t - hops.start[i]) / Math.max(least, hops.end[i] - hops.start[i]), hops.isError[i] === 1);
    }
    return n;
}

const isUnderWay = (h, i, t, least) => h.edge[i] >= 0 && h.start[i] <= t && t < h.start[i] + Math.max(least, h.end[i] - h.start[i]);

/* How many ids are being worked on at each node at time t: those between two events of one place. */
export function lanesAt(hops, t, counts)
{
    counts.fill(0);
    const last = firstFrom(hops, t + 1);
    for (let i = firstFrom(hops, t - Math.min(hops.longest, 3600e6)); i < last; i++) {
        if (hops.edge[i] < 0 && t < hops.end[i])
            counts[hops.src[i]]++;
    }
    return counts;
}

/* The most at a time at each node, over all hops. */
export function lanesMost(g)
{
    const most = new Uint32Array(g.nodes.length), open = g.nodes.map(() => []);
    for (let i = 0; i < g.hops.n; i++) {
        if (g.hops.edge[i] >= 0)
            continue;
        const n = g.hops.src[i], start = g.hops.start[i];
        open[n] = open[n].filter(end => end > start);
        if (open[n].length < 4096)
            open[n].push(g.hops.end[i]);
        most[n] = Math.max(most[n], open[n].length);
    }
    return most;
}

/* ---- keyboard ---- */

/* The node that an arrow key goes to. */
export function nextNode(l, i, key)
{
    const all = l.boxes.map((b, k) => ({k, b})).filter(x => x.b);
    if (!all.length)
        return -1;
    if (i < 0 || !l.boxes[i])
        return l.columns.find(c => c.length)?.[0] ?? -1;
    const here = l.boxes[i];
    const cx = here.x + here.w / 2, cy = here.y + here.h / 2;
    let best = i, score = Infinity;
    for (const {k, b} of all) {
        const dx = b.x + b.w / 2 - cx, dy = b.y + b.h / 2 - cy;
        const along = key === 'ArrowRight' ? dx : key === 'ArrowLeft' ? -dx : key === 'ArrowDown' ? dy : -dy;
        const across = key === 'ArrowRight' || key === 'ArrowLeft' ? Math.abs(dy) : Math.abs(dx);
        if (k === i || along < 1)
            continue;
        const s = along + across * (key === 'ArrowRight' || key === 'ArrowLeft' ? 0.3 : 4);
        if (s < score) {
            score = s;
            best = k;
        }
    }
    return best;
}

/* A graph of so many nodes and edges, with hops of one minute, for bench and tests. */
export function madeUp(nodes, edges, hopsPerSecond = 2000, from = 0)
{
    let seed = 1;
    const random = () => (seed = Math.imul(seed, 1103515245) + 12345 & 0x7fffffff) / 0x7fffffff;
    const clients = Math.max(1, Math.floor(nodes * 0.3)), schedulers = Math.max(1, Math.floor(nodes * 0.02));
    const names = Array.from({length: nodes}, (_, i) => i < clients ? `c${i} client` : i < clients + schedulers ? `s${i} scheduler` : `n${i} server`);
    const pick = (first, n) => first + Math.floor(random() * n);
    const list = [];
    for (let i = 0; i < edges; i++) {
        const s = pick(clients, schedulers), kind = i % 4;
        const [src, dst] = kind === 0 ? [pick(0, clients), s] : kind === 1 ? [s, pick(clients + schedulers, nodes - clients - schedulers)]
            : kind === 2 ? [pick(clients + schedulers, nodes - clients - schedulers), s] : [pick(0, clients), pick(clients + schedulers, nodes - clients - schedulers)];
        list.push({src, dst, count: 1 + Math.floor(random() * 1000), errors: random() < 0.02 ? 3 : 0, times: [10 ** (-4 + 4 * random())]});
    }
    const to = from + 60e6, hops = [];
    for (let i = 0; i < Math.min(HOPS_MAX, hopsPerSecond * 60); i++)
        hops.push({edge: Math.floor(random() * edges), t: from + random() * 60e6, latency: 10 ** (-3 + 3 * random()), severity: random() < 0.01 ? 3 : 11});
    const firsts = names.map((_, i) => i < clients ? 10 : 0);
    return rank(graphOf([{tile: asTile(names, firsts, list, hops, from, to), from, to}], from, to));
}
