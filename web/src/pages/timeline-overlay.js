/* timeline-overlay.js - what is drawn below and above the data: grid, axis of time, scales, cursor, selection, marks, the lifeline that is highlighted. */
import {view} from '../state.js';
import {formatTime, digitsFor} from '../time.js';
import {timeTicks} from '../axis.js';
import {palette} from '../palette.js';
import {short, seconds} from '../format.js';
import {AXIS_PX} from '../scene/layout.js';
import {LAYERS} from '../scene/records.js';
import {binNs} from '../scene/stats.js';
import {baseUs, stepUs} from '../glt1.js';
import {prepare, tileStart} from '../scene/lifelines.js';

const FONT = '11px system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif';

function begin(canvas, {width, height, dpr}, {isSoftware, isKept = false})
{
    const c = canvas.getContext('2d', {willReadFrequently: isSoftware});
    c.setTransform(dpr, 0, 0, dpr, 0, 0);
    if (!isKept)
        c.clearRect(0, 0, width, height);
    c.font = FONT;
    c.textBaseline = 'middle';
    c.lineWidth = 1;
    return c;
}

const crisp = v => Math.round(v) + 0.5;

function line(c, x0, y0, x1, y1)
{
    c.beginPath();
    c.moveTo(x0, y0);
    c.lineTo(x1, y1);
    c.stroke();
}

/* Text on a ground of its own, kept within the canvas. */
function label(c, text, x, y, {ground, color, width, align = 'center'})
{
    const w = c.measureText(text).width + 10;
    const left = Math.max(0, Math.min(width - w, align === 'center' ? x - w / 2 : align === 'end' ? x - w : x));
    c.fillStyle = ground;
    c.beginPath();
    c.roundRect(left, y - 9, w, 18, 4);
    c.fill();
    c.fillStyle = color;
    c.textAlign = 'left';
    c.fillText(text, left + 5, y + 0.5);
}

/* Everything has come, and there is nothing to draw. */
export const isEmpty = ({progress, batches}) => Boolean(progress) && !progress.error && progress.done === progress.all && batches.every(b => LAYERS.every(layer => b[layer].n === 0));

/* ---- below ---- */

export function drawBack(canvas, stage, port)
{
    const c = begin(canvas, port, stage.renderer), p = palette.peek();
    stage.ticks = timeTicks(port.from, port.to, Math.max(2, port.width / 110), view.zone.peek());
    for (const lane of stage.lanes) {
        if (lane.spec.isFolded)
            continue;
        const top = lane.top - port.scroll;
        if (top > port.height || top + lane.height < 0)
            continue;
        c.fillStyle = p.panel;
        c.fillRect(0, top, port.width, lane.height);
        c.strokeStyle = p.grid;
        for (const {at} of stage.ticks) {
            const x = crisp(stage.xOf(at));
            line(c, x, top, x, top + lane.height);
        }
        (lane.rows?.names ?? []).forEach((_, i) => {
            const y = crisp(top + lane.rows.y(i) * lane.height);
            line(c, 0, y, port.width, y);
        });
        if (lane.scale?.step) {
            for (const {y} of scaleMarks(lane, top))
                line(c, 0, crisp(y), port.width, crisp(y));
        }
        c.strokeStyle = p.line;
        line(c, 0, crisp(top + lane.height), port.width, crisp(top + lane.height));
        if (isEmpty(lane)) {
            c.fillStyle = p.dim;
            c.textAlign = 'left';
            c.fillText('nothing in this time', 10, top + lane.height / 2);
        }
    }
}

/* Where values are written: [{y, text}] */
export function scaleMarks(lane, top)
{
    const {scale, height} = lane;
    if (!scale)
        return [];
    if (scale.first !== undefined) {
        const out = [];
        const every = Math.max(4, Math.ceil((scale.last - scale.first) / Math.max(1, height / 22) / 4) * 4);
        for (let b = Math.ceil(scale.first / every) * every; b <= scale.last; b += every)
            out.push({y: top + height * (1 - (b - scale.first) / (scale.last + 1 - scale.first)), text: seconds(binNs(b) / 1e9)});
        return out;
    }
    const out = [];
    const marks = Math.round((scale.high - scale.low) / scale.step);
    const skip = Math.max(1, Math.ceil(marks * 16 / height));
    for (let i = 0; i <= marks; i += skip) {
        const value = scale.low + i * scale.step;
        out.push({y: top + height * (1 - (value - scale.low) / (scale.high - scale.low)), text: short(Math.abs(value) < scale.step / 1e6 ? 0 : value)});
    }
    return out;
}

/* ---- above ---- */

/* isKept: over what is on the canvas. */
export function drawFront(canvas, stage, port, isKept)
{
    const c = begin(canvas, port, {...stage.renderer, isKept}), p = palette.peek();
    for (const lane of stage.lanes) {
        if (!lane.spec.isFolded && lane.scale)
            drawScale(c, lane, port, p);
    }
    if (stage.highlight)
        drawHighlight(c, stage, port, p);
    if (stage.selection)
        drawSelection(c, stage, port, p);
    stage.marks.forEach(at => drawMark(c, stage, at, port, p));
    if (stage.bounds && stage.hover?.host)
        drawBound(c, stage, port, p);
    drawNow(c, stage, port, p);
    drawAxis(c, stage, port, p);
    drawCursor(c, stage, port, p);
}

function drawScale(c, lane, port, p)
{
    const top = lane.top - port.scroll;
    c.textAlign = 'left';
    for (const {y, text} of scaleMarks(lane, top)) {
        const at = Math.max(top + 7, Math.min(top + lane.height - 6, y));
        const w = c.measureText(text).width;
        c.globalAlpha = 0.75;
        c.fillStyle = p.panel;
        c.fillRect(2, at - 7, w + 4, 14);
        c.globalAlpha = 1;
        c.fillStyle = p.axis;
        c.fillText(text, 4, at);
    }
}

function drawAxis(c, stage, port, p)
{
    c.fillStyle = p.bg;
    c.fillRect(0, 0, port.width, AXIS_PX);
    c.fillStyle = p.axis;
    c.strokeStyle = p.strong;
    c.textAlign = 'center';
    for (const {at, label: text} of stage.ticks) {
        const x = stage.xOf(at);
        line(c, crisp(x), AXIS_PX - 5, crisp(x), AXIS_PX);
        const half = c.measureText(text).width / 2;
        if (x - half >= 0 && x + half <= port.width)
            c.fillText(text, x, AXIS_PX / 2 - 1);
    }
    line(c, 0, AXIS_PX - 0.5, port.width, AXIS_PX - 0.5);
}

/* What is not yet: behind now. */
function drawNow(c, stage, port, p)
{
    const x = stage.xOf(stage.nowUs?.() ?? Infinity);
    if (!(x < port.width))
        return;
    c.fillStyle = p.offGround;
    c.globalAlpha = 0.5;
    c.fillRect(Math.max(0, x), AXIS_PX, port.width - x, port.height);
    c.globalAlpha = 1;
}

function drawCursor(c, stage, port, p)
{
    const at = stage.pointer ? stage.timeAt(stage.pointer.x) : view.cursor.peek();
    for (const [us, isPointer] of [[view.cursor.peek(), false], [stage.pointer ? at : null, true]]) {
        if (us === null)
            continue;
        const x = stage.xOf(us);
        if (x < 0 || x > port.width)
            continue;
        c.strokeStyle = p.cursor;
        c.globalAlpha = isPointer ? 0.35 : 0.8;
        c.setLineDash(isPointer ? [] : [4, 3]);
        line(c, crisp(x), AXIS_PX, crisp(x), port.height);
        c.setLineDash([]);
        c.globalAlpha = 1;
        label(c, formatTime(us, {digits: Math.min(6, digitsFor(port.to - port.from) + 3), date: false}), x, AXIS_PX / 2, {ground: p.raised, color: p.text, width: port.width});
    }
}

function drawMark(c, stage, at, port, p)
{
    const x = stage.xOf(at);
    if (x < 0 || x > port.width)
        return;
    c.strokeStyle = p.warn;
    line(c, crisp(x), AXIS_PX, crisp(x), port.height);
}

function drawSelection(c, stage, port, p)
{
    const {from, to, lane} = stage.selection;
    const x0 = stage.xOf(from), x1 = stage.xOf(to);
    const own = lane === null || lane === undefined ? null : stage.lanes[lane];
    const top = own ? own.top - port.scroll : AXIS_PX, height = own ? own.height : port.height;
    c.fillStyle = p.band;
    c.fillRect(x0, top, x1 - x0, height);
    c.strokeStyle = p.accent;
    line(c, crisp(x0), top, crisp(x0), top + height);
    line(c, crisp(x1), top, crisp(x1), top + height);
    label(c, seconds((to - from) / 1e6), (Math.max(0, x0) + Math.min(port.width, x1)) / 2, top + 12, {ground: p.accent, color: p.accentText, width: port.width});
}

/* ± the bound of the host's clock, beside the pointer. */
function drawBound(c, stage, port, p)
{
    const bound = stage.bounds.get(stage.hover.host)?.boundUs;
    if (!bound)
        return;
    const x = stage.xOf(stage.hover.us), half = Math.max(2, bound / (port.to - port.from) * port.width), y = stage.hover.y;
    c.strokeStyle = p.warn;
    line(c, x - half, y, x + half, y);
    line(c, x - half, y - 4, x - half, y + 4);
    line(c, x + half, y - 4, x + half, y + 4);
}

/* ---- one lifeline ---- */

const numbers = new WeakMap();

/* The number of an id in a tile, or −1. */
export function numberOf(tile, id)
{
    let map = numbers.get(tile);
    if (!map)
        numbers.set(tile, map = new Map(tile.columns.id.map((text, i) => [text, i])));
    return map.get(id) ?? -1;
}

/* Its vertices in a lane, in order of time: [{us, y (0 … 1), event, host, tile, v}] */
export function verticesOf(lane, id, offsets)
{
    const out = [];
    for (const {tile, from, to} of lane.entries[0] ?? []) {
        if (tile.kind !== 'lifeline-exact')
            continue;
        const l = numberOf(tile, id);
        if (l < 0)
            continue;
        const p = prepare(tile), c = tile.columns, base = baseUs(tile), step = stepUs(tile);
        for (let v = p.start[l]; v < p.start[l + 1]; v++) {
            const us = base + c.vertex_t[v] * step, host = c.hosts[c.vertex_host[v]], event = c.events[p.event[v]];
            const row = lane.rows?.of(event, host) ?? -1;
            const isLead = c.vertex_t[v] < tileStart(tile) || us < from || us >= to;
            if (row >= 0 && !(isLead && out.length))
                out.push({us: us - (offsets?.get(host) ?? 0), y: lane.rows.y(row), event, host, tile, v, t: c.vertex_t[v], severity: c.severity[l]});
        }
    }
    return out.sort((a, b) => a.us - b.us);
}

function drawHighlight(c, stage, port, p)
{
    const {lane: number, id} = stage.highlight;
    const lane = stage.lanes[number];
    if (!lane?.rows || lane.spec.isFolded)
        return;
    const top = lane.top - port.scroll;
    const points = verticesOf(lane, id, port.offsets).map(v => [stage.xOf(v.us), top + v.y * lane.height]);
    for (const [width, colour, alpha] of [[6, p.bg, 0.8], [2.5, p.text, 1]]) {
        c.strokeStyle = c.fillStyle = colour;
        c.globalAlpha = alpha;
        c.lineWidth = width;
        c.lineJoin = 'round';
        c.beginPath();
        points.forEach(([x, y], i) => i ? c.lineTo(x, y) : c.moveTo(x, y));
        c.stroke();
        for (const [x, y] of points)
            c.fillRect(x - width * 0.9, y - width * 0.9, width * 1.8, width * 1.8);
    }
    c.globalAlpha = 1;
    c.lineWidth = 1;
}
