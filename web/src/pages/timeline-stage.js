/* timeline-stage.js - the timeline's canvases: keeps lanes and their tiles, draws when something changed, knows what is under a pixel.
 *
 * Three canvases above each other: back (grid, row lines; 2D), data (WebGL2, scene/), front (axis, cursor, selection, what is highlighted; 2D). Drawn flat,
 * all is on one: to put three together costs more than to draw them, where there is no GPU. The front is then empty, and takes the pointer. A
 * frame is drawn when it is asked for; while time runs, each frame that the machine is fast enough for: what took long waits as long again. */
import {signal, effect, untracked} from '@preact/signals-core';
import {view} from '../state.js';
import {now} from '../time.js';
import {tileSet, levelFor} from '../tiles.js';
import {live} from '../live.js';
import {palette, seriesColor} from '../palette.js';
import {hasNoGpu} from '../gpu.js';
import {createLane, updateLane, countScene} from '../scene/scene.js';
import {stack, heightOf} from '../scene/layout.js';
import {colourTable} from '../scene/records.js';
import {createGl} from '../scene/gl.js';
import {createFlat} from '../scene/flat.js';
import {hit} from '../scene/hit.js';
import {tileSpecs, pixelsOf} from './timeline-lanes.js';
import {drawBack, drawFront, isEmpty} from './timeline-overlay.js';

const FRAMES_KEPT = 240;

export class Stage {
    /* canvases: {back, gl, flat, front} */
    constructor(canvases)
    {
        Object.assign(this, {canvases, lanes: [], width: 0, height: 0, scroll: 0, dpr: 1, total: 0, offsets: null, bounds: null, hover: null, selection: null, highlight: null,
                             marks: [], frame: 0, timer: 0, isClosed: false, frames: 0, costs: [], lastCost: 0, lastEnd: 0, asked: 'auto', rendererKey: ''});
        this.info = signal([]);       /* per lane {rows, status, scale, colours, height, progress} */
        this.rendererName = signal('');
        this.ends = [];
        this.ends.push(effect(() => {
            void [view.from.value, view.to.value, view.mode.value, view.cursor.value, view.zone.value, palette.value];
            untracked(() => {
                this.want();
                this.invalidate();
            });
        }));
    }

    close()
    {
        this.isClosed = true;
        cancelAnimationFrame(this.frame);
        clearTimeout(this.timer);
        this.ends.forEach(end => end());
        this.lanes.forEach(closeLane);
        this.lanes = [];
        this.renderer?.close();
    }

    /* ---- the renderer ---- */

    /* name: 'webgl', 'flat' or 'auto': by WebGL where there is a GPU. A canvas keeps the kind of context that it had first, so there are two of them. */
    setRenderer(name)
    {
        if (name === this.asked && this.renderer)
            return;
        this.asked = name;
        this.renderer?.close();
        const onLost = () => {
            this.setRenderer('flat');
            this.invalidate();
        };
        this.renderer = null;
        if (name === 'webgl' || (name !== 'flat' && !hasNoGpu())) {
            try {
                this.renderer = createGl(this.freshCanvas(), {onLost, onRestored: () => {
                    this.isDrawn = false;
                    this.invalidate();
                }});
            } catch (e) {
                console.warn(e); /* a driver that can't: drawn flat */
            }
        }
        this.renderer ??= createFlat(this.canvases.flat);
        this.canvases.gl.hidden = this.renderer.name !== 'webgl';
        this.canvases.flat.hidden = this.renderer.name !== 'flat';
        this.canvases.back.hidden = this.renderer.isOver === true;
        this.rendererName.value = this.renderer.name;
        this.rendererKey = ''; /* resizing empties the canvases */
        this.isDrawn = false;
        this.resize(this.width, this.height);
    }

    /* A context that was given back never comes again on its canvas. */
    freshCanvas()
    {
        const old = this.canvases.gl, next = old.cloneNode(false);
        old.replaceWith(next);
        this.canvases.gl = next;
        return next;
    }

    /* ---- lanes ---- */

    /* specs: plain lanes; those whose tiles are the same keep them. */
    setLanes(specs, filter)
    {
        const left = [...this.lanes];
        this.lanes = specs.map(spec => {
            const needs = tileSpecs(spec, filter), key = JSON.stringify(needs);
            const i = left.findIndex(l => l.tilesKey === key);
            if (i >= 0) {
                const lane = left.splice(i, 1)[0];
                lane.spec = spec;
                lane.lastTiles = null;
                return lane;
            }
            return this.openLane(spec, needs, key);
        });
        left.forEach(closeLane);
        this.want();
        this.invalidate();
    }

    openLane(spec, needs, key)
    {
        const lane = createLane(spec);
        lane.tilesKey = key;
        lane.sets = needs.map(tileSet);
        lane.needs = needs;
        lane.lives = [];
        lane.liveLevel = -1;
        lane.isCancelled = false;
        lane.end = effect(() => {
            lane.entries = lane.sets.map(s => s.tiles.value);
            lane.progress = lane.sets.map(s => s.progress.value).reduce((a, p) => ({done: a.done + p.done, all: a.all + p.all, error: a.error ?? p.error}), {done: 0, all: 0, error: null});
            untracked(() => this.invalidate());
        });
        return lane;
    }

    /* Tiles for what is seen. */
    want()
    {
        if (!this.width || this.isClosed)
            return;
        const {from, to} = this.range();
        for (const lane of this.lanes) {
            if (lane.isCancelled || lane.spec.isFolded || !lane.sets)
                continue;
            const pixels = Math.max(64, pixelsOf(lane.spec, this.width));
            for (const set of lane.sets)
                set.want(from, to, pixels);
            followLive(lane, view.mode.peek() === 'live' ? levelFor(to - from, pixels) : -1);
        }
    }

    cancel(i)
    {
        const lane = this.lanes[i];
        lane.isCancelled = true;
        followLive(lane, -1);
        lane.sets?.forEach(s => s.cancel());
        this.invalidate();
    }

    resume(i)
    {
        this.lanes[i].isCancelled = false;
        this.want();
        this.invalidate();
    }

    /* ---- time and place ---- */

    /* In live mode each frame is of its own moment. */
    range()
    {
        if (this.frozen)
            return this.frozen;
        if (view.mode.peek() === 'live') {
            const to = now();
            return {from: to - view.span.peek(), to};
        }
        return {from: view.from.peek(), to: view.to.peek()};
    }

    viewport()
    {
        return {...this.range(), width: this.width, height: this.height, scroll: this.scroll, dpr: this.dpr, offsets: this.offsets};
    }

    timeAt(x)
    {
        const {from, to} = this.range();
        return from + x / this.width * (to - from);
    }

    xOf(us)
    {
        const {from, to} = this.range();
        return (us - from) / (to - from) * this.width;
    }

    resize(width, height)
    {
        this.dpr = window.devicePixelRatio || 1;
        this.width = Math.max(1, Math.floor(width));
        this.height = Math.max(1, Math.floor(height));
        const key = [this.width, this.height, this.dpr].join();
        if (key !== this.rendererKey) {
            this.rendererKey = key;
            this.isDrawn = false;
            for (const canvas of Object.values(this.canvases)) {
                canvas.width = Math.round(this.width * this.dpr);
                canvas.height = Math.round(this.height * this.dpr);
                canvas.style.setProperty('width', this.width + 'px');
                canvas.style.setProperty('height', this.height + 'px');
            }
        }
        this.want();
        this.invalidate();
    }

    setScroll(top)
    {
        if (top !== this.scroll) {
            this.scroll = top;
            this.invalidate();
        }
    }

    /* ---- drawing ---- */

    invalidate()
    {
        if (this.frame || this.isClosed)
            return;
        this.frame = requestAnimationFrame(() => {
            this.frame = 0;
            if (document.hidden)
                return;
            const rest = this.lastEnd + this.lastCost * 0.5 - performance.now();
            if (this.lastCost > 25 && rest > 4) { /* a slow machine: leave time for other things */
                clearTimeout(this.timer);
                this.timer = setTimeout(() => this.invalidate(), rest);
                return;
            }
            this.drawNow();
            if (view.mode.peek() === 'live' && !this.frozen && this.lanes.length)
                this.invalidate();
        });
    }

    drawNow()
    {
        if (!this.renderer || !this.width)
            return;
        const begin = performance.now();
        const port = this.viewport();
        for (const lane of this.lanes) {
            if (!lane.spec.isFolded)
                updateLane(lane, port);
        }
        this.place();
        if (this.colours?.of !== palette.peek()) {
            this.colours = {of: palette.peek(), table: colourTable(palette.peek(), seriesColor)};
        }
        if (this.hasChanged(port)) {
            const {back, flat, front} = this.canvases, isOne = this.renderer.isOver;
            drawBack(isOne ? flat : back, this, port);
            this.isDrawn = this.renderer.draw(this.seen().flatMap(l => l.batches), port, this.colours.table);
            drawFront(isOne ? flat : front, this, port, isOne);
        }
        this.lastEnd = performance.now();
        this.lastCost = this.lastEnd - begin;
        this.frames++;
        this.costs.push(this.lastCost);
        if (this.costs.length > FRAMES_KEPT)
            this.costs.shift();
        this.publish();
    }

    /* Would another picture come out? A quarter of a pixel further on is none: a wide range that follows now would be drawn anew for nothing. */
    hasChanged(port)
    {
        const quarter = (port.to - port.from) / port.width / 4;
        const key = JSON.stringify([Math.round(port.from / quarter), Math.round(port.to - port.from), port.scroll, this.rendererKey, this.pointer?.x, this.pointer?.y, this.selection, this.highlight,
                                    this.marks, this.hover, view.cursor.peek(), view.zone.peek(), this.lanes.map(l => [l.top, l.height, l.spec.isFolded, isEmpty(l)])]);
        const parts = [this.renderer, this.colours.table, this.bounds, ...this.lanes.map(l => l.batches)];
        const isSame = this.isDrawn && key === this.drawnKey && parts.length === this.drawnParts.length && parts.every((p, i) => p === this.drawnParts[i]);
        this.drawnKey = key;
        this.drawnParts = parts;
        return !isSame;
    }

    seen()
    {
        return this.lanes.filter(l => !l.spec.isFolded);
    }

    place()
    {
        const {lanes, height} = stack(this.lanes.map(l => l.spec.isFolded ? 0 : heightOf(l.spec, l.rows?.names.length)));
        this.lanes.forEach((lane, i) => Object.assign(lane, lanes[i]));
        this.total = height;
    }

    /* Tells the page what lanes say of themselves, when that has changed. */
    publish()
    {
        const next = this.lanes.map(l => ({rows: l.rows, status: l.status, scale: l.scale, colours: l.colours, height: l.height, pairs: l.pairs,
                                           progress: l.progress, isCancelled: l.isCancelled, order: l.order, curves: l.curves ? [...l.curves.keys()] : []}));
        const key = JSON.stringify([next.map(n => [n.rows?.names, n.status, n.scale, n.height, n.progress?.done, n.progress?.all, n.progress?.error?.message, n.isCancelled, n.curves, n.pairs?.slice(0, 12)]), this.total]);
        if (key !== this.infoKey) {
            this.infoKey = key;
            this.info.value = next;
        }
    }

    /* ---- what is where ---- */

    hitAt(x, y)
    {
        return hit(this.seen().flatMap(l => l.batches), this.viewport(), x, y);
    }

    debug()
    {
        const port = this.viewport();
        const sorted = [...this.costs].sort((a, b) => a - b);
        return {...countScene(this.lanes, port), renderer: this.renderer?.name ?? '', isSoftware: this.renderer?.isSoftware, calls: this.renderer?.stats.calls, losses: this.renderer?.stats.losses,
                frames: this.frames, frameP50: sorted[sorted.length >> 1] ?? 0, frameP95: sorted[Math.floor(sorted.length * 0.95)] ?? 0, width: this.width, height: this.height,
                lod: this.lanes.filter(l => l.spec.kind === 'lifelines').map(l => l.status.lod).join(), bytes: this.lanes.reduce((n, l) => n + (l.status.bytes ?? 0), 0),
                from: port.from, to: port.to,
                lanes: this.lanes.map(l => ({kind: l.spec.kind, rows: l.rows?.names ?? [], top: l.top - this.scroll, height: l.height, ...l.status, tiles: l.entries.flat().length,
                                             progress: l.progress && {done: l.progress.done, all: l.progress.all, error: l.progress.error?.message}}))};
    }
}

/* The newest tile of each of the lane's sets is pushed, at this level; −1: not any more. It goes to the cache, where the sets find it. */
function followLive(lane, level)
{
    if (level === lane.liveLevel)
        return;
    lane.lives.forEach(end => end());
    lane.liveLevel = level;
    lane.lives = level < 0 ? [] : lane.needs.map(need => live({...need, level}, () => {}));
}

function closeLane(lane)
{
    lane.end?.();
    if (lane.sets)
        followLive(lane, -1);
    lane.sets?.forEach(s => s.close());
    lane.batches = [];
    lane.made.clear();
}
