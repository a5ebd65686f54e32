/* map_draw.js - the map: what changes with the data (edges, boxes, texts) is drawn on a canvas that is not seen; each frame that, and what
 * moves (particles, lanes) on top, is drawn on the one that is. One opaque canvas is the cheapest for a browser to show.
 * Up to a few hundred edges are strokes, those of one look one path. Thousands would take seconds: they are pixels of our own (scene/flat.js), kept
 * until the data change; what is chosen is drawn over them. */
import {curveOf, pointAt, perTime, widthOf, toneOf, particlesAt, lanesAt, BOUNDS} from './map_model.js';
import {number, seconds, short} from '../format.js';
import {Raster} from '../scene/flat.js';

export const PARTICLES_MAX = 2000;
const STROKES_MAX = 400, LABELS_MAX = 16, FONT = '12px system-ui, sans-serif', SMALL = '10.5px system-ui, sans-serif';
export const DASHES = [[], [], [22, 4], [10, 4], [3, 4]];
export const toneColor = (p, tone) => [p.series[2], p.series[0], p.series[1], p.series[5], p.error][tone];
const BUCKETS = [1, 1.6, 2.5, 4, 5.5, 7];

/* What both need of a graph and its layout, made once: curves, looks. */
export function sceneOf(graph, layout)
{
    const most = graph.edges.reduce((m, e) => Math.max(m, e.rate), 0);
    return {
        graph, layout, lanes: new Uint32Array(graph.nodes.length),
        curves: graph.edges.map(e => curveOf(layout.boxes[e.src], layout.boxes[e.dst])),
        tones: graph.edges.map(e => toneOf(e, BOUNDS)),
        widths: graph.edges.map(e => widthOf(e.rate, most)),
    };
}

function trace(path, c)
{
    path.moveTo(c[0], c[1]);
    path.bezierCurveTo(c[2], c[3], c[4], c[5], c[6], c[7]);
}

const at = [0, 0], ahead = [0, 0];
const DIM = 0.35; /* how much is left of what is not chosen */

const isOn = (e, i, chosen) => chosen !== null && chosen !== undefined && (chosen.edge === i || chosen.node === e.src || chosen.node === e.dst);

function drawEdges(ctx, scene, p, chosen)
{
    const {graph, curves, tones, widths} = scene;
    const paths = new Map();
    graph.edges.forEach((e, i) => {
        const bucket = BUCKETS.findIndex(b => widths[i] <= b);
        const key = (isOn(e, i, chosen) ? 1000 : 0) + tones[i] * 10 + bucket;
        let path = paths.get(key);
        if (!path)
            paths.set(key, path = new Path2D());
        trace(path, curves[i]);
    });
    const faint = graph.edges.length > 150 ? 0.45 : 0.62;
    for (const [key, path] of [...paths].sort(([a], [b]) => a - b)) {
        const tone = Math.floor(key % 1000 / 10);
        ctx.globalAlpha = key >= 1000 ? 1 : chosen ? faint * DIM : faint;
        ctx.strokeStyle = toneColor(p, tone);
        ctx.lineWidth = BUCKETS[key % 10];
        ctx.setLineDash(DASHES[tone]);
        ctx.stroke(path);
    }
    ctx.globalAlpha = 1;
    ctx.setLineDash([]);
}

/* ---- thousands of edges ---- */

const rgb = text => [1, 3, 5].map(i => parseInt(text.slice(i, i + 2), 16));

/* A curve as short lines, in pixels; of a dashed one every other stretch. */
function rasterCurve(raster, c, thick, colour, alpha, dash, ratio)
{
    const far = Math.hypot(c[6] - c[0], c[7] - c[1]) + Math.abs(c[2] - c[0]);
    const n = Math.max(6, Math.min(dash.length ? 400 : 32, Math.ceil(far / (dash.length ? 3 : 24))));
    let x = c[0] * ratio, y = c[1] * ratio, along = 0;
    for (let k = 1; k <= n; k++) {
        pointAt(c, k / n, at);
        const nextX = at[0] * ratio, nextY = at[1] * ratio;
        if (!dash.length || along % (dash[0] + dash[1]) < dash[0])
            raster.line(x, y, nextX, nextY, thick * ratio, colour, alpha);
        along += Math.hypot(nextX - x, nextY - y) / ratio;
        x = nextX;
        y = nextY;
    }
}

/* All edges, faint; those with errors above the others. Kept with the scene. */
function manyEdges(scene, p, width, height, ratio)
{
    const had = scene.many;
    if (had && had.palette === p && had.raster.width === width && had.raster.height === height && had.ratio === ratio)
        return had.raster;
    const {graph, curves, tones, widths} = scene, raster = new Raster(width, height);
    const [r, g, b] = rgb(p.panel);
    raster.words.fill((r | g << 8 | b << 16 | 255 << 24) >>> 0);
    const alpha = graph.edges.length > 1000 ? 0.13 : 0.35;
    for (const i of graph.edges.map((_, k) => k).sort((a, k) => tones[a] - tones[k]))
        rasterCurve(raster, curves[i], Math.min(1.6, widths[i]), rgb(toneColor(p, tones[i])), alpha, [], ratio);
    scene.many = {raster, palette: p, ratio};
    return raster;
}

/* All of them, what is chosen over what is left of the others. */
function drawManyEdges(ctx, scene, p, chosen)
{
    const {width, height} = ctx.canvas, ratio = ctx.getTransform().a;
    let raster = manyEdges(scene, p, width, height, ratio);
    if (chosen) {
        const all = raster, panel = rgb(p.panel);
        raster = new Raster(width, height);
        raster.words.set(all.words);
        for (let y = 0; y < height; y++)
            raster.run(y, 0, width, panel[0] | panel[1] << 8 | panel[2] << 16, 255 * (1 - DIM), false);
        scene.graph.edges.forEach((e, i) => {
            if (isOn(e, i, chosen))
                rasterCurve(raster, scene.curves[i], Math.min(2.5, Math.max(1.2, scene.widths[i])), rgb(toneColor(p, scene.tones[i])), 1, DASHES[scene.tones[i]], ratio);
        });
    }
    ctx.putImageData(new ImageData(raster.bytes, width, height), 0, 0);
}

export const rateText = rate => perTime(rate).map((v, i) => i ? v : number(v)).join('/');

/* Arrows and numbers, for few edges, or where nothing moves. */
function drawLabels(ctx, scene, p, isStill, chosen)
{
    const {graph, curves, tones} = scene;
    const isAll = graph.edges.length <= LABELS_MAX;
    ctx.font = SMALL;
    ctx.textAlign = 'center';
    ctx.textBaseline = 'middle';
    graph.edges.forEach((e, i) => {
        if (!isAll && !isOn(e, i, chosen))
            return;
        pointAt(curves[i], 0.3, at);
        const text = `${rateText(e.rate)}${e.p50 > 0 ? ' · ' + seconds(e.p50) : ''}${e.errors >= 0.5 ? ` · ${short(Math.round(e.errors))} errors` : ''}`;
        const w = ctx.measureText(text).width + 8;
        ctx.fillStyle = p.bg;
        ctx.globalAlpha = 0.88;
        ctx.fillRect(at[0] - w / 2, at[1] - 8, w, 16);
        ctx.globalAlpha = 1;
        ctx.fillStyle = tones[i] === 4 ? p.error : p.dim;
        ctx.fillText(text, at[0], at[1]);
        if (isStill)
            arrow(ctx, curves[i], toneColor(p, tones[i]));
    });
}

function arrow(ctx, curve, color)
{
    pointAt(curve, 0.62, at);
    pointAt(curve, 0.66, ahead);
    const a = Math.atan2(ahead[1] - at[1], ahead[0] - at[0]);
    ctx.fillStyle = color;
    ctx.beginPath();
    ctx.moveTo(at[0] + 8 * Math.cos(a), at[1] + 8 * Math.sin(a));
    ctx.lineTo(at[0] + 6 * Math.cos(a + 2.4), at[1] + 6 * Math.sin(a + 2.4));
    ctx.lineTo(at[0] + 6 * Math.cos(a - 2.4), at[1] + 6 * Math.sin(a - 2.4));
    ctx.fill();
}

/* Programs of one name are told apart by their hosts: in a small box there is room for one of the two. */
const nameOf = (n, size, isAlone) => n.prog && (size === 'full' || isAlone) ? n.prog : n.host;

/* As much of a text as there is room for. */
function fit(ctx, text, width)
{
    if (ctx.measureText(text).width <= width)
        return text;
    let n = Math.max(1, Math.floor(text.length * width / ctx.measureText(text).width));
    while (n > 1 && ctx.measureText(text.slice(0, n) + '…').width > width)
        n--;
    return text.slice(0, n) + '…';
}

function drawStrip(ctx, n, b, p)
{
    const bars = n.activity.length, most = n.activity.reduce((m, v) => Math.max(m, v), 0);
    const w = (b.w - 12) / bars, base = b.y + b.h - 5, h = 12;
    ctx.fillStyle = p.grid;
    ctx.fillRect(b.x + 6, base - h, b.w - 12, h);
    ctx.fillStyle = p.accent;
    for (let i = 0; most > 0 && i < bars; i++)
        ctx.fillRect(b.x + 6 + i * w, base - h * n.activity[i] / most, Math.max(1, w - 1), h * n.activity[i] / most);
}

const ROLE_COLOR = {client: 0, scheduler: 3, server: 2};

function drawNode(ctx, n, b, size, p, {isChosen, isDim, isAlone, sees})
{
    ctx.globalAlpha = isDim ? 0.45 : 1;
    const role = p.series[ROLE_COLOR[n.role]];
    ctx.fillStyle = size === 'dot' ? (n.errors >= 0.5 ? p.error : role) : p.raised;
    ctx.fillRect(b.x, b.y, b.w, b.h);
    if (size !== 'dot') {
        ctx.fillStyle = n.errors >= 0.5 ? p.error : role;
        ctx.fillRect(b.x, b.y, 4, b.h);
        ctx.strokeStyle = isChosen ? p.accent : p.strong;
        ctx.lineWidth = isChosen ? 2 : 1;
        ctx.strokeRect(b.x + 0.5, b.y + 0.5, b.w - 1, b.h - 1);
        ctx.fillStyle = p.text;
        ctx.textAlign = 'left';
        ctx.textBaseline = 'middle';
        ctx.font = size === 'full' ? '600 ' + FONT : SMALL;
        const y = b.y + (size === 'full' ? 12 : b.h / 2), room = b.w - (size === 'full' && n.busy.count ? 58 : 14), name = fit(ctx, nameOf(n, size, isAlone), room);
        ctx.fillText(name, b.x + 9, y);
        if (size === 'full' && n.prog) {
            const wide = ctx.measureText(name).width + 6;
            ctx.font = SMALL;
            ctx.fillStyle = p.dim;
            if (room - wide > 12)
                ctx.fillText(fit(ctx, n.host, room - wide), b.x + 9 + wide, y);
        }
    } else if (isChosen) {
        ctx.strokeStyle = p.cursor;
        ctx.lineWidth = 2;
        ctx.strokeRect(b.x - 2, b.y - 2, b.w + 4, b.h + 4);
    }
    if (size === 'full') {
        ctx.font = SMALL;
        ctx.fillStyle = n.errors >= 0.5 ? p.error : p.dim;
        ctx.fillText(fit(ctx, sees(n), b.w - 14), b.x + 9, b.y + 27);
        drawStrip(ctx, n, b, p);
    }
    ctx.globalAlpha = 1;
}

const HEADS = {client: 'Clients', scheduler: 'Schedulers', server: 'Servers'};

function drawHeads(ctx, scene, p)
{
    ctx.font = '600 ' + FONT;
    ctx.textBaseline = 'middle';
    scene.layout.columns.forEach((list, c) => {
        if (!list.length)
            return;
        const boxes = list.map(i => scene.layout.boxes[i]);
        const left = Math.min(...boxes.map(b => b.x)), right = Math.max(...boxes.map(b => b.x + b.w));
        ctx.fillStyle = p.series[c === 0 ? 0 : c === 1 ? 3 : 2];
        ctx.textAlign = c === 0 ? 'left' : c === 2 ? 'right' : 'center';
        ctx.fillText(`${Object.values(HEADS)[c]} · ${list.length}`, c === 0 ? left : c === 2 ? right : (left + right) / 2, 13);
    });
}

/* What changes with the data. isStill: nothing moves (reduced motion), so arrows and numbers. */
export function drawBase(ctx, scene, p, {width, height, chosen, isStill})
{
    const {graph, layout} = scene;
    const seconds_ = graph.seconds;
    const sees = n => `${rateText((n.in + n.first) / seconds_)}${n.busy.p50 > 0 ? ` · ${seconds(n.busy.p50)}` : ''}${n.errors >= 0.5 ? ` · ${short(Math.round(n.errors))} errors` : ''}`;
    ctx.fillStyle = p.panel;
    ctx.fillRect(0, 0, width, height);
    (graph.edges.length > STROKES_MAX ? drawManyEdges : drawEdges)(ctx, scene, p, chosen);
    const near = chosen && new Set([chosen.node]);
    graph.edges.forEach((e, i) => isOn(e, i, chosen) && near.add(e.src).add(e.dst));
    const uses = new Map();
    graph.nodes.forEach(n => uses.set(n.prog, (uses.get(n.prog) ?? 0) + 1));
    graph.nodes.forEach((n, i) => drawNode(ctx, n, layout.boxes[i], layout.size, p, {isChosen: chosen?.node === i, isDim: near && !near.has(i), isAlone: uses.get(n.prog) === 1, sees}));
    drawLabels(ctx, scene, p, isStill, chosen);
    drawHeads(ctx, scene, p);
}

/* What moves, at time t (µs). Returns {particles, underWay}. */
export function drawMoving(ctx, scene, p, {width, height, base, t, least, isStill, chosen})
{
    const {graph, curves, layout} = scene;
    let particles = 0, underWay = 0;
    ctx.drawImage(base, 0, 0, width, height);
    if (!isStill) {
        const size = graph.edges.length > 500 ? 3 : 5;
        ctx.fillStyle = p.cursor;
        const wrong = [];
        underWay = particlesAt(graph.hops, t, least, PARTICLES_MAX, (edge, part, isError) => {
            particles++;
            if (chosen && !isOn(graph.edges[edge], edge, chosen))
                return;
            pointAt(curves[edge], part, at);
            if (isError)
                wrong.push(at[0], at[1]);
            else
                ctx.fillRect(at[0] - size / 2, at[1] - size / 2, size, size);
        });
        ctx.strokeStyle = p.error;
        ctx.lineWidth = 2;
        ctx.beginPath();
        for (let i = 0; i < wrong.length; i += 2) { /* errors are crosses */
            ctx.moveTo(wrong[i] - 4, wrong[i + 1] - 4);
            ctx.lineTo(wrong[i] + 4, wrong[i + 1] + 4);
            ctx.moveTo(wrong[i] + 4, wrong[i + 1] - 4);
            ctx.lineTo(wrong[i] - 4, wrong[i + 1] + 4);
        }
        ctx.stroke();
    }
    if (layout.size === 'full')
        drawLanes(ctx, scene, p, t);
    return {particles, underWay};
}

const LANES = 8;

/* How many calls a server works on: a lane each. */
function drawLanes(ctx, scene, p, t)
{
    const {graph, layout} = scene;
    const counts = lanesAt(graph.hops, t, scene.lanes);
    ctx.textAlign = 'left';
    ctx.textBaseline = 'middle';
    ctx.font = SMALL;
    graph.nodes.forEach((n, i) => {
        if (!n.busy.count || n.role === 'client')
            return;
        const b = layout.boxes[i], k = Math.min(LANES, counts[i]);
        for (let l = 0; l < Math.max(k, 1); l++) { /* within the box, at its upper right */
            ctx.fillStyle = l < k ? p.ok : p.grid;
            ctx.fillRect(b.x + b.w - 11 - l * 8, b.y + 8, 6, 9);
        }
        if (counts[i] > LANES) {
            ctx.fillStyle = p.ok;
            ctx.fillText(String(counts[i]), b.x + b.w - 11 - LANES * 8, b.y + 13);
        }
    });
}

/* {node} or {edge} at a place, or null. */
export function hitAt(scene, x, y)
{
    const {boxes} = scene.layout;
    for (let i = 0; i < boxes.length; i++) {
        const b = boxes[i], pad = scene.layout.size === 'dot' ? 2 : 0;
        if (x >= b.x - pad && x <= b.x + b.w + pad && y >= b.y - pad && y <= b.y + b.h + pad)
            return {node: i, edge: -1};
    }
    let best = -1, least = 49;
    scene.curves.forEach((c, i) => {
        if (x < Math.min(c[0], c[6]) - 40 || x > Math.max(c[0], c[6]) + 40 || y < Math.min(c[1], c[7]) - 12 || y > Math.max(c[1], c[7]) + 12)
            return;
        for (let k = 0; k <= 24; k++) {
            pointAt(c, k / 24, at);
            const d = (at[0] - x) ** 2 + (at[1] - y) ** 2;
            if (d < least) {
                least = d;
                best = i;
            }
        }
    });
    return best < 0 ? null : {node: -1, edge: best};
}
