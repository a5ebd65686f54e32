/* The map: graphs from tiles, columns, where things are, what moves. */
import test from 'node:test';
import assert from 'node:assert/strict';
import {graphOf, rank, layout, placesOf, columnsOf, tileOfJobs, nodeList, particlesAt, lanesAt, lanesMost, curveOf, pointAt, widthOf, toneOf,
        BOUNDS, perTime, nextNode, madeUp, firstFrom} from '../../../web/src/pages/map_model.js';

/* client, scheduler, two servers; as docs/tiles.md has it. */
function tileOf({base = 0, hops = true} = {})
{
    const columns = {
        nodes: ['h client', 'h scheduler', 'h server-1', 'h server-2'], node_first: Uint32Array.of(10, 0, 0, 0),
        src: Uint32Array.of(0, 1, 1, 2, 3, 1, 2, 3), dst: Uint32Array.of(1, 2, 3, 1, 1, 0, 2, 3),
        count: Uint32Array.of(10, 5, 5, 5, 5, 10, 5, 5), errors: Uint32Array.of(0, 0, 2, 0, 0, 0, 0, 0),
        p50: Float32Array.of(.001, .001, .002, .001, .001, .001, .25, .5), p99: Float32Array.of(.002, .002, .4, .001, .001, .001, .25, .5),
        rate: new Float32Array(8),
    };
    if (hops) {
        columns.hop_edge = Uint16Array.of(0, 1, 6, 6);
        columns.hop_t = Uint32Array.of(2 ** 30, 2 ** 30 + 1e6, 2 ** 31, 2 ** 31 + 1e6);
        columns.hop_latency = Float32Array.of(.001, .002, .25, .25);
        columns.hop_severity = Uint8Array.of(11, 3, 11, 11);
    }
    return {from: base, to: base + 1e6, tile: {baseNs: BigInt(base) * 1000n, spanNs: 1_000_000_000n, leftOut: 0, lost: 0, columns}};
}

test('tiles add up to one graph', () => {
    const g = graphOf([tileOf(), tileOf({base: 1e6})], 0, 2e6);
    assert.equal(g.nodes.length, 4);
    assert.equal(g.edges.length, 6);
    const e = g.edges.find(e => g.nodes[e.src].prog === 'client');
    assert.equal(e.count, 20);
    assert.equal(e.rate, 10);
    assert.ok(Math.abs(e.p99 - .002) < 1e-6);
    const s1 = g.nodes.find(n => n.prog === 'server-1');
    assert.deepEqual([s1.in, s1.out, s1.busy.count], [10, 10, 10]);
    assert.equal(g.nodes.find(n => n.prog === 'server-2').errors, 4);
    assert.equal(g.hops.n, 8);
    for (let i = 1; i < g.hops.n; i++)
        assert.ok(g.hops.start[i] >= g.hops.start[i - 1]);
});

test('a tile that is half in the range counts half', () => {
    const g = graphOf([tileOf({hops: false})], 500e3, 1500e3);
    assert.equal(g.edges[0].count, 5);
    assert.equal(g.share, 0);
    assert.equal(graphOf([tileOf()], 5e6, 6e6).nodes.length, 0);
});

test('of a tile that stands in for others only the part asked for is taken', () => {
    const coarse = tileOf();
    const g = graphOf([{...coarse, from: 0, to: 500e3}, {...coarse, from: 500e3, to: 1e6}], 0, 1e6);
    assert.equal(g.edges[0].count, 10);
    assert.equal(g.hops.n, 4);
});

test('hops that stay count as work, not as edges', () => {
    const g = graphOf([tileOf()], 0, 1e6);
    assert.ok(g.edges.every(e => e.src !== e.dst));
    const counts = lanesAt(g.hops, 400e3, new Uint32Array(4));
    assert.equal(counts[g.nodes.findIndex(n => n.prog === 'server-1')], 2);
    assert.equal(lanesMost(g)[g.nodes.findIndex(n => n.prog === 'server-1')], 2);
    assert.equal(lanesAt(g.hops, 900e3, counts)[2], 0);
});

test('roles: by where ids begin and by names', () => {
    const g = rank(graphOf([tileOf()], 0, 1e6));
    assert.deepEqual(g.nodes.map(n => n.role), ['client', 'scheduler', 'server', 'server']);
    const plain = tileOf();
    plain.tile.columns.nodes = ['h a', 'h b', 'h x', 'h y'];
    assert.deepEqual(rank(graphOf([plain], 0, 1e6)).nodes.map(n => n.role), ['client', 'scheduler', 'server', 'server']);
    delete plain.tile.columns.node_first;
    assert.equal(rank(graphOf([plain], 0, 1e6)).nodes.length, 4); /* nothing is known of where they begin: still drawn */
});

test('the layout stays when a node comes', () => {
    const g = rank(graphOf([tileOf()], 0, 1e6));
    const first = layout(g, 1000, 600);
    assert.ok(first.boxes[0].x < first.boxes[1].x && first.boxes[1].x < first.boxes[2].x);
    const more = tileOf();
    more.tile.columns.nodes = ['h server-0', ...more.tile.columns.nodes];
    more.tile.columns.node_first = Uint32Array.of(0, 10, 0, 0, 0);
    more.tile.columns.src = more.tile.columns.src.map(i => i + 1);
    more.tile.columns.dst = more.tile.columns.dst.map(i => i + 1);
    more.tile.columns.src = Uint32Array.of(...more.tile.columns.src, 2);
    more.tile.columns.dst = Uint32Array.of(...more.tile.columns.dst, 0);
    for (const name of ['count', 'errors', 'p50', 'p99'])
        more.tile.columns[name] = more.tile.columns[name].constructor.of(...more.tile.columns[name], 1);
    const h = rank(graphOf([more], 0, 1e6));
    const columns = columnsOf(h, placesOf(g, first));
    const order = columns[2].map(i => h.nodes[i].prog).filter(p => p !== 'server-0');
    assert.deepEqual(order, first.columns[2].map(i => g.nodes[i].prog));
});

test('a layout of 500 nodes has no two boxes over each other, and none outside', () => {
    const g = madeUp(500, 5000);
    for (const [width, height] of [[1280, 720], [800, 500], [320, 480]]) {
        const l = layout(g, width, height);
        assert.equal(l.boxes.length, 500);
        l.boxes.forEach((a, i) => {
            assert.ok(a.x >= 0 && a.y >= 0 && a.y + a.h <= height + 1, `${width}: box ${i} is inside`);
            if (width >= 800)
                assert.ok(a.x + a.w <= width + 1);
            for (let k = 0; k < i; k++) {
                const b = l.boxes[k];
                assert.ok(a.x + a.w <= b.x || b.x + b.w <= a.x || a.y + a.h <= b.y + 0.01 || b.y + b.h <= a.y + 0.01, `${width}: ${i} is over ${k}`);
            }
        });
    }
});

test('particles: under way, seen long enough, never more than asked for', () => {
    const g = graphOf([tileOf()], 0, 1e6);
    const seen = [];
    const n = particlesAt(g.hops, 260e3, 100e3, 2000, (edge, part, isError) => seen.push([edge, part, isError]));
    assert.equal(n, 2);
    assert.ok(seen.every(([edge, part]) => edge >= 0 && part >= 0 && part < 1));
    assert.equal(seen.filter(([, , isError]) => isError).length, 1);
    let drawn = 0;
    const many = madeUp(50, 200, 600);
    assert.ok(particlesAt(many.hops, 30e6, 20e6, 100, () => drawn++) > 1000);
    assert.ok(drawn <= 101 && drawn >= 90, String(drawn));
    assert.equal(firstFrom(many.hops, Infinity), many.hops.n);
});

test('curves begin and end at the boxes', () => {
    const a = {x: 10, y: 10, w: 100, h: 20}, b = {x: 400, y: 200, w: 100, h: 20};
    const c = curveOf(a, b);
    assert.deepEqual([...pointAt(c, 0, [])], [c[0], c[1]]);
    assert.equal(c[0], 110);
    assert.equal(c[6], 400);
    assert.equal(curveOf(b, a)[0], 400);
});

test('widths and tones', () => {
    assert.deepEqual([perTime(12), perTime(0.05), perTime(0.001), perTime(0)], [[12, 's'], [3, 'min'], [3.6, 'h'], [0, 's']]);
    assert.equal(widthOf(0, 10), 1);
    assert.equal(widthOf(10, 10), 7);
    assert.ok(widthOf(1, 10) < widthOf(5, 10));
    assert.equal(toneOf({errors: 1, p99: 1e-6}, BOUNDS), 4);
    assert.equal(toneOf({errors: 0, p99: 5e-2}, BOUNDS), 2);
    assert.equal(toneOf({errors: 0, p99: NaN}, BOUNDS), 0);
});

test('jobs of a batch system', () => {
    const at = (time, id, state, more) => ({time, host: 'head', prog: 'slurmctld', id, state, ...more});
    const tile = tileOfJobs([
        at(1e6, '1', 'PENDING', {user: 'ann'}), at(2e6, '2', 'PENDING', {user: 'bob'}), at(3e6, '1', 'RUNNING', {nodes: 'n[1-2]'}),
        at(4e6, '2', 'RUNNING', {nodes: 'n3'}), at(8e6, '1', 'COMPLETED'), at(9e6, '2', 'FAILED'),
    ], 0, 10e6);
    const g = rank(graphOf([{tile, from: 0, to: 10e6}], 0, 10e6));
    assert.deepEqual(Object.fromEntries(g.nodes.map(n => [n.name, n.role])),
                     {'head slurmctld': 'scheduler', 'user ann': 'client', 'user bob': 'client', n1: 'server', n2: 'server', n3: 'server'});
    assert.equal(g.nodes.find(n => n.name === 'n3').busy.count, 1);
    assert.equal(lanesAt(g.hops, 6e6, new Uint32Array(g.nodes.length)).reduce((a, b) => a + b), 3);
    assert.ok(g.edges.some(e => e.errors === 1));
    assert.deepEqual(nodeList('n[01-03,7],m2'), ['n01', 'n02', 'n03', 'n7', 'm2']);
    assert.deepEqual(nodeList('(null)'), []);
    assert.equal(nodeList('n[1-9999999]').length, 64);
});

test('arrow keys go from node to node', () => {
    const g = rank(graphOf([tileOf()], 0, 1e6));
    const l = layout(g, 1000, 600);
    assert.equal(nextNode(l, -1, 'ArrowRight'), 0);
    assert.equal(nextNode(l, 0, 'ArrowRight'), 1);
    const down = nextNode(l, l.columns[2][0], 'ArrowDown');
    assert.equal(down, l.columns[2][1]);
    assert.equal(nextNode(l, 0, 'ArrowLeft'), 0);
});
