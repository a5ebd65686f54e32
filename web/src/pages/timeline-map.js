/* timeline-map.js - the minimap: how many events there were around what is seen, and where errors were; its window can be dragged. */
import {html, useEffect, useRef, useState} from '../html.js';
import {effect, untracked} from '@preact/signals-core';
import {view, setRange} from '../state.js';
import {now, formatTime, formatSpan, MINUTE} from '../time.js';
import {tileSet} from '../tiles.js';
import {timeTicks} from '../axis.js';
import {palette} from '../palette.js';
import {baseUs, stepUs} from '../glt1.js';

const TIMES = 8, EDGE_PX = 7;
const HEIGHT = 44;

/* The time of the map: eight times what is seen, not beyond now, and still while the window is within its middle. Pure. */
export function mapRange(from, to, nowUs, last)
{
    const span = Math.max((to - from) * TIMES, 15 * MINUTE);
    if (last && last.span === span && from >= last.from + span * 0.05 && to <= last.to - (last.to >= nowUs - span * 0.2 ? 0 : span * 0.05))
        return last;
    const end = Math.min(Math.max(nowUs, to) + span * 0.02, (from + to) / 2 + span / 2);
    return {from: end - span, to: end, span};
}

/* Events a column, of tiles of points: Float64Array of counts. Pure. */
export function columnsOf(entries, {from, to}, n)
{
    const out = new Float64Array(n);
    for (const {tile, from: first, to: last} of entries) {
        const c = tile.columns, base = baseUs(tile), step = stepUs(tile);
        for (let i = 0; i < c.t.length; i++) {
            const us = base + c.t[i] * step;
            const at = Math.floor((us - from) / (to - from) * n);
            if (us >= first && us < last && at >= 0 && at < n)
                out[at] += c.count[i];
        }
    }
    return out;
}

export function Minimap({filter})
{
    const canvas = useRef(null), box = useRef(null);
    const [label, setLabel] = useState('');
    const state = useRef({map: null, drag: null});
    useEffect(() => {
        const all = tileSet({kind: 'points', name: filter.event || '*', params: {host: filter.host || undefined}});
        const bad = tileSet({kind: 'points', name: filter.event || '*', params: {host: filter.host || undefined, where: "level <= 'error'"}});
        let frame = 0;
        const draw = () => {
            frame = 0;
            if (canvas.current)
                drawMap(canvas.current, state.current.map, all.tiles.peek(), bad.tiles.peek());
        };
        const soon = () => { frame ||= requestAnimationFrame(draw); };
        const end = effect(() => {
            const from = view.from.value, to = view.to.value;
            void [palette.value, all.tiles.value, bad.tiles.value, view.zone.value];
            untracked(() => {
                if (!state.current.drag)
                    state.current.map = mapRange(from, to, now(), state.current.map);
                const {map} = state.current;
                const width = box.current?.clientWidth ?? 400;
                all.want(map.from, map.to, width / 2);
                bad.want(map.from, map.to, width / 2);
                setLabel(`${formatTime(from, {digits: 0})}, ${formatSpan(to - from)}`);
                soon();
            });
        });
        const observer = new ResizeObserver(soon);
        observer.observe(box.current);
        return () => {
            end();
            observer.disconnect();
            cancelAnimationFrame(frame);
            all.close();
            bad.close();
        };
    }, [filter.host, filter.event]);

    const timeAt = e => {
        const r = box.current.getBoundingClientRect(), {map} = state.current;
        return map.from + (e.clientX - r.left) / r.width * (map.to - map.from);
    };
    const down = e => {
        box.current.setPointerCapture(e.pointerId);
        const at = timeAt(e), {map} = state.current, px = (map.to - map.from) / box.current.clientWidth;
        const from = view.from.peek(), to = view.to.peek();
        const what = Math.abs(at - from) < EDGE_PX * px ? 'from' : Math.abs(at - to) < EDGE_PX * px ? 'to' : at > from && at < to ? 'move' : 'jump';
        state.current.drag = {what, at, from, to};
        if (what === 'jump')
            setRange(at - (to - from) / 2, at + (to - from) / 2);
    };
    const move = e => {
        const d = state.current.drag;
        if (!d)
            return;
        const by = timeAt(e) - d.at;
        if (d.what === 'from')
            setRange(Math.min(d.from + by, d.to - 1), d.to, {quiet: true});
        else if (d.what === 'to')
            setRange(d.from, Math.max(d.to + by, d.from + 1), {quiet: true});
        else if (d.what === 'move')
            setRange(d.from + by, d.to + by, {quiet: true});
    };
    const up = () => { state.current.drag = null; };
    return html`<div class="tl-map" ref=${box} role="img" aria-label=${'Events around the range: ' + label} onPointerDown=${down} onPointerMove=${move} onPointerUp=${up} onPointerCancel=${up}>
        <canvas ref=${canvas}></canvas></div>`;
}

function drawMap(canvas, map, all, bad)
{
    const width = canvas.parentElement.clientWidth, dpr = window.devicePixelRatio || 1, p = palette.peek();
    if (canvas.width !== Math.round(width * dpr)) {
        canvas.width = Math.round(width * dpr);
        canvas.height = Math.round(HEIGHT * dpr);
        canvas.style.setProperty('width', width + 'px');
        canvas.style.setProperty('height', HEIGHT + 'px');
    }
    const c = canvas.getContext('2d');
    c.setTransform(dpr, 0, 0, dpr, 0, 0);
    c.clearRect(0, 0, width, HEIGHT);
    const n = Math.max(1, Math.floor(width / 2));
    const counts = columnsOf(all, map, n), errors = columnsOf(bad, map, n);
    const most = Math.max(1, ...counts);
    const height = v => v ? 3 + Math.log2(1 + v) / Math.log2(1 + most) * (HEIGHT - 20) : 0;
    c.fillStyle = p.accent;
    c.globalAlpha = 0.55;
    counts.forEach((v, i) => c.fillRect(i * 2, HEIGHT - 12 - height(v), 2, height(v)));
    c.globalAlpha = 1;
    c.fillStyle = p.error;
    errors.forEach((v, i) => v && c.fillRect(i * 2 - 1, 0, 3, 7));
    c.fillStyle = p.axis;
    c.font = '10px system-ui, sans-serif';
    c.textAlign = 'center';
    for (const {at, label} of timeTicks(map.from, map.to, width / 110, view.zone.peek()))
        c.fillText(label, (at - map.from) / (map.to - map.from) * width, HEIGHT - 2);
    const x = us => (us - map.from) / (map.to - map.from) * width;
    const x0 = x(view.from.peek()), x1 = Math.max(x0 + 2, x(view.to.peek()));
    c.fillStyle = p.bg;
    c.globalAlpha = 0.55;
    c.fillRect(0, 0, x0, HEIGHT - 12);
    c.fillRect(x1, 0, width - x1, HEIGHT - 12);
    c.globalAlpha = 1;
    c.strokeStyle = p.accent;
    c.strokeRect(x0 + 0.5, 0.5, Math.max(1, x1 - x0 - 1), HEIGHT - 13);
    c.fillStyle = p.accent;
    for (const at of [x0, x1])
        c.fillRect(at - 1.5, (HEIGHT - 12) / 2 - 7, 3, 14);
}
