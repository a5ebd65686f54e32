/* flat.js - draws batches (records.js) without a GPU: where there is no WebGL, or where it is asked for.
 *
 * Pixels are computed here and put on a 2D canvas at once. Strokes of Canvas2D would do, but where there is no GPU ten thousand of them take seconds;
 * lines and glyphs are so simple that doing it ourselves takes a fiftieth. Edges are smooth: a pixel gets as much of the colour as is covered. */
import {WORDS, SHAPES, placeOf, isInView} from './records.js';

/* ---- a raster of pixels ---- */

export class Raster {
    constructor(width, height)
    {
        this.width = width;
        this.height = height;
        this.bytes = new Uint8ClampedArray(width * height * 4);
        this.words = new Uint32Array(this.bytes.buffer);
    }

    clear()
    {
        this.words.fill(0);
    }

    /* The colour over what is there, with alpha a (0 … 1). */
    blend(at, r, g, b, a)
    {
        const p = this.bytes, old = p[at + 3] / 255;
        const alpha = a + old * (1 - a), part = a / alpha;
        p[at] += (r - p[at]) * part;
        p[at + 1] += (g - p[at + 1]) * part;
        p[at + 2] += (b - p[at + 2]) * part;
        p[at + 3] = alpha * 255;
    }

    /* Pixels from x0 to x1 of a row (isFlipped: y0 to y1 of a column), the ends in part. */
    run(row, x0, x1, [r, g, b], a, isFlipped)
    {
        const width = isFlipped ? this.height : this.width;
        if (x1 <= 0 || x0 >= width)
            return;
        const first = Math.max(0, Math.floor(x0)), last = Math.min(width - 1, Math.ceil(x1) - 1);
        const step = isFlipped ? this.width * 4 : 4;
        for (let x = first, at = isFlipped ? (first * this.width + row) * 4 : (row * this.width + first) * 4; x <= last; x++, at += step) {
            const covered = Math.min(x + 1, x1) - Math.max(x, x0);
            if (covered > 0)
                this.blend(at, r, g, b, a * covered);
        }
    }

    /* A line so many pixels thick: row by row where it is steep, else column by column. */
    line(x0, y0, x1, y1, thick, colour, a)
    {
        const isFlat = Math.abs(x1 - x0) > Math.abs(y1 - y0);
        let [u0, v0, u1, v1] = isFlat ? [y0, x0, y1, x1] : [x0, y0, x1, y1];
        if (v0 > v1)
            [u0, v0, u1, v1] = [u1, v1, u0, v0];
        const rows = isFlat ? this.width : this.height, far = v1 - v0;
        const slope = far > 0 ? (u1 - u0) / far : 0;
        const half = thick / 2 * Math.hypot(1, slope);
        for (let v = Math.max(0, Math.floor(v0)); v < Math.min(rows, Math.ceil(v1)); v++) {
            const top = Math.max(v, v0), bottom = Math.min(v + 1, v1);
            const u = u0 + ((top + bottom) / 2 - v0) * slope;
            this.run(v, u - half, u + half, colour, a * (bottom - top), isFlat);
        }
    }

    /* From x0 at y0 to x1 at y1, everywhere so wide. */
    quad(x0, y0, x1, y1, wide, colour, a)
    {
        if (y0 > y1)
            [x0, y0, x1, y1] = [x1, y1, x0, y0];
        if (y1 - y0 < 1)
            y1 = y0 + 1;
        const slope = (x1 - x0) / (y1 - y0);
        for (let y = Math.max(0, Math.floor(y0)); y < Math.min(this.height, Math.ceil(y1)); y++) {
            const top = Math.max(y, y0), bottom = Math.min(y + 1, y1);
            const x = x0 + ((top + bottom) / 2 - y0) * slope;
            this.run(y, x, x + wide, colour, a * (bottom - top), false);
        }
    }

    /* A mask {side, cover} in a colour, its middle at x, y. */
    glyph(x, y, {side, cover}, [r, g, b], a)
    {
        const left = Math.round(x - side / 2), top = Math.round(y - side / 2);
        for (let j = Math.max(0, -top); j < Math.min(side, this.height - top); j++) {
            for (let i = Math.max(0, -left); i < Math.min(side, this.width - left); i++) {
                const covered = cover[j * side + i];
                if (covered > 0)
                    this.blend(((top + j) * this.width + left + i) * 4, r, g, b, a * covered);
            }
        }
    }
}

/* ---- glyphs: the same shapes as those of gl.js ---- */

/* How far within a shape, in half sizes; x, y from −1 to 1. */
const WITHIN = {
    dot: (x, y) => 1 - Math.hypot(x, y),
    circle: (x, y) => 0.22 - Math.abs(Math.hypot(x, y) - 0.75),
    diamond: (x, y) => 1 - (Math.abs(x) + Math.abs(y)),
    triangle: (x, y) => Math.min((y + 1) * 0.5 - Math.abs(x), 0.9 - y),
    cross: (x, y) => Math.min(0.27 - Math.abs(Math.abs(x) - Math.abs(y)) * Math.SQRT1_2, 0.95 - Math.max(Math.abs(x), Math.abs(y))),
    tick: (x, y) => Math.min(0.2 - Math.abs(x), 1 - Math.abs(y)),
};

export function maskOf(style, dpr)
{
    const size = (style >> 3) * dpr, side = Math.ceil(size) + 2;
    const within = WITHIN[SHAPES[style & 7] ?? 'dot'];
    const cover = new Float32Array(side * side);
    for (let j = 0; j < side; j++) {
        for (let i = 0; i < side; i++)
            cover[j * side + i] = Math.max(0, Math.min(1, within((i + 0.5 - side / 2) * 2 / size, (j + 0.5 - side / 2) * 2 / size) * size / 2 + 0.5));
    }
    return {side, cover};
}

/* ---- batches ---- */

const look = word => word >>> 10; /* all but the slot */
const colourOf = l => l & 511, alphaOf = l => (l >>> 9 & 63) / 63, styleOf = l => l >>> 15;

/* Draws batches into a raster of device pixels. table: colours as [r, g, b]; masks: a Map that keeps glyphs. */
export function drawInto(raster, batches, view, table, masks)
{
    const {dpr} = view;
    const seen = batches.filter(b => isInView(b, view)).map(b => [b, placeOf(b, view)]);
    const each = (layer, run) => {
        for (const [batch, p] of seen) {
            const {n, words} = batch[layer];
            for (let i = 0; i < n * WORDS; i += WORDS) {
                const x0 = ((words[i] - p.t0) * p.perUnit + p.x0) * dpr, x1 = ((words[i + 1] - p.t0) * p.perUnit + p.x0) * dpr;
                if (Math.max(x0, x1) + Math.max(p.wide, 16) * dpr < 0 || Math.min(x0, x1) > raster.width + 16 * dpr)
                    continue;
                const l = look(words[i + 3]);
                run(x0, (p.top + (words[i + 2] & 65535) / 65535 * p.height) * dpr, x1, (p.top + (words[i + 2] >>> 16) / 65535 * p.height) * dpr, l, table[colourOf(l)], alphaOf(l), p);
            }
        }
    };
    const line = (x0, y0, x1, y1, l, colour, alpha) => raster.line(x0, y0, x1, y1, Math.max(1, styleOf(l) / 2) * dpr, colour, alpha);
    each('quads', (x0, y0, x1, y1, l, colour, alpha, p) => raster.quad(x0, y0, x1, y1, Math.max(p.wide, 1) * dpr, colour, alpha));
    each('lines', line);
    each('top', line);
    each('points', (x0, y0, x1, y1, l, colour, alpha) => {
        let mask = masks.get(styleOf(l));
        if (!mask)
            masks.set(styleOf(l), mask = maskOf(styleOf(l), dpr)); /* at most 128 */
        raster.glyph(x0, y0, mask, colour, alpha);
    });
    return seen.length;
}

const rgb = text => [1, 3, 5].map(i => parseInt(text.slice(i, i + 2), 16));

/* Draws over what is on the canvas. */
export function createFlat(canvas)
{
    const c = canvas.getContext('2d', {willReadFrequently: true}); /* pixels come from here: no GPU wanted */
    const masks = new Map();
    const stats = {calls: 0, losses: 0};
    const layer = document.createElement('canvas'); /* the pixels, to be laid over what is on the canvas */
    let colours = null, table = null, lastDpr = 0, raster = null;
    return {
        name: 'flat', isSoftware: true, isOver: true, stats,
        draw: (batches, view, given) => {
            if (given !== colours) {
                colours = given;
                table = given.map(rgb);
            }
            if (view.dpr !== lastDpr) {
                masks.clear();
                lastDpr = view.dpr;
            }
            if (raster?.width !== canvas.width || raster.height !== canvas.height) {
                raster = new Raster(canvas.width, canvas.height);
                layer.width = canvas.width;
                layer.height = canvas.height;
            }
            raster.clear();
            stats.calls = drawInto(raster, batches, view, table, masks);
            layer.getContext('2d', {willReadFrequently: true}).putImageData(new ImageData(raster.bytes, raster.width, raster.height), 0, 0);
            c.setTransform(1, 0, 0, 1, 0, 0);
            c.drawImage(layer, 0, 0);
            return true;
        },
        finish: () => {},
        close: () => { raster = null; },
    };
}
