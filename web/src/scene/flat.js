/* flat.js - draws batches (records.js) without a GPU: where there is none, or where it is asked for.
 *
 * Pixels are computed here and put on a 2D canvas at once. Strokes of Canvas2D would do, but where there is no GPU ten thousand of them take seconds;
 * lines and glyphs are so simple that doing it ourselves takes a fiftieth, and a third of what a software renderer of WebGL takes. Edges are smooth: a pixel
 * gets as much of the colour as is covered; where there are thousands of lines they are single pixels. What is the same as before is not drawn anew: pointing moves only what is above it. */
import {WORDS, SHAPES, placeOf, isInView} from './records.js';

/* ---- a raster of pixels ---- */

/* What a colour of alpha a over one of alpha old (both 0 … 255) gives, at a << 8 | old: the alpha << 16 | the upper one's part of the colour, in 256ths. */
const OVER = new Uint32Array(65536);
for (let a = 1; a < 256; a++) {
    for (let old = 0; old < 256; old++) {
        const alpha = a + old * (255 - a) / 255;
        OVER[a << 8 | old] = Math.round(alpha) << 16 | Math.round(256 * a / alpha);
    }
}

const packed = ([r, g, b]) => r | g << 8 | b << 16;

export class Raster {
    constructor(width, height)
    {
        this.width = width;
        this.height = height;
        this.bytes = new Uint8ClampedArray(width * height * 4);
        this.words = new Uint32Array(this.bytes.buffer); /* little-endian: alpha, blue, green, red */
    }

    /* Rows from top to bottom, or all. */
    clear(top = 0, bottom = this.height)
    {
        this.words.fill(0, top * this.width, bottom * this.width);
    }

    /* The colour (packed) over the pixel, with alpha a (0 … 255). Two channels at a time: they are 16 bits apart, and parts of 256 leave room for both. */
    over(at, colour, a)
    {
        const old = this.words[at], k = OVER[a << 8 | old >>> 24], part = k & 65535, rest = 256 - part;
        this.words[at] = ((Math.imul(colour & 0xff00ff, part) + Math.imul(old & 0xff00ff, rest) + 0x800080) >>> 8 & 0xff00ff
            | (Math.imul(colour & 0xff00, part) + Math.imul(old & 0xff00, rest) + 0x8000) >>> 8 & 0xff00 | k >>> 16 << 24) >>> 0;
    }

    /* The colour over what is there, with alpha a (0 … 1); at: of its bytes. */
    blend(at, r, g, b, a)
    {
        this.over(at >> 2, packed([r, g, b]), Math.round(a * 255));
    }

    /* Pixels from x0 to x1 of a row (isFlipped: y0 to y1 of a column), the ends in part; colour packed, a from 0 to 255. */
    run(row, x0, x1, colour, a, isFlipped)
    {
        const width = isFlipped ? this.height : this.width;
        if (x1 <= 0 || x0 >= width)
            return;
        const first = Math.max(0, Math.floor(x0)), last = Math.min(width - 1, Math.ceil(x1) - 1);
        const step = isFlipped ? this.width : 1;
        for (let x = first, at = isFlipped ? first * this.width + row : row * this.width + first; x <= last; x++, at += step) {
            const alpha = Math.round(a * (Math.min(x + 1, x1) - Math.max(x, x0)));
            if (alpha > 0)
                this.over(at, colour, alpha);
        }
    }

    /* A line so many pixels thick: row by row where it is steep, else column by column. */
    line(x0, y0, x1, y1, thick, colour, a)
    {
        const isFlat = Math.abs(x1 - x0) > Math.abs(y1 - y0), ink = packed(colour);
        let u0 = isFlat ? y0 : x0, v0 = isFlat ? x0 : y0, u1 = isFlat ? y1 : x1, v1 = isFlat ? x1 : y1;
        if (v0 > v1)
            [u0, v0, u1, v1] = [u1, v1, u0, v0];
        const rows = isFlat ? this.width : this.height, far = v1 - v0;
        const slope = far > 0 ? (u1 - u0) / far : 0;
        const half = thick / 2 * Math.sqrt(1 + slope * slope);
        for (let v = Math.max(0, Math.floor(v0)), end = Math.min(rows, Math.ceil(v1)); v < end; v++) {
            const top = Math.max(v, v0), bottom = Math.min(v + 1, v1);
            const u = u0 + ((top + bottom) / 2 - v0) * slope;
            this.run(v, u - half, u + half, ink, a * (bottom - top) * 255, isFlat);
        }
    }

    /* A line of single pixels, one in each row, or in each column where it is flat: for many. */
    hair(x0, y0, x1, y1, colour, a)
    {
        const isFlat = Math.abs(x1 - x0) > Math.abs(y1 - y0), ink = packed(colour), alpha = Math.round(a * 255), {width, height} = this;
        let u0 = isFlat ? y0 : x0, v0 = isFlat ? x0 : y0, u1 = isFlat ? y1 : x1, v1 = isFlat ? x1 : y1;
        if (v0 > v1)
            [u0, v0, u1, v1] = [u1, v1, u0, v0];
        const slope = v1 > v0 ? (u1 - u0) / (v1 - v0) : 0, across = isFlat ? height : width;
        const first = Math.max(0, Math.ceil(v0 - 0.5)), end = Math.min(isFlat ? width : height, Math.ceil(v1 - 0.5));
        let u = u0 + (first + 0.5 - v0) * slope;
        for (let v = first; v < end; v++, u += slope) {
            if (u >= 0 && u < across)
                this.over(isFlat ? (u | 0) * width + v : v * width + (u | 0), ink, alpha);
        }
    }

    /* From x0 at y0 to x1 at y1, everywhere so wide. */
    quad(x0, y0, x1, y1, wide, colour, a)
    {
        const ink = packed(colour);
        if (y0 > y1)
            [x0, y0, x1, y1] = [x1, y1, x0, y0];
        if (y1 - y0 < 1)
            y1 = y0 + 1;
        const slope = (x1 - x0) / (y1 - y0);
        for (let y = Math.max(0, Math.floor(y0)); y < Math.min(this.height, Math.ceil(y1)); y++) {
            const top = Math.max(y, y0), bottom = Math.min(y + 1, y1);
            const x = x0 + ((top + bottom) / 2 - y0) * slope;
            this.run(y, x, x + wide, ink, a * (bottom - top) * 255, false);
        }
    }

    /* A mask {side, cover} in a colour, its middle at x, y. */
    glyph(x, y, {side, cover}, colour, a)
    {
        const ink = packed(colour);
        const left = Math.round(x - side / 2), top = Math.round(y - side / 2);
        for (let j = Math.max(0, -top); j < Math.min(side, this.height - top); j++) {
            for (let i = Math.max(0, -left); i < Math.min(side, this.width - left); i++) {
                const alpha = Math.round(255 * a * cover[j * side + i]);
                if (alpha > 0)
                    this.over((top + j) * this.width + left + i, ink, alpha);
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

export const THICK_MAX_SOFTWARE = 2500; /* lines in view; above, they are single pixels, as by gl.js */
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
    const isThick = seen.reduce((n, [b]) => n + b.lines.n, 0) <= THICK_MAX_SOFTWARE;
    const hair = (x0, y0, x1, y1, l, colour, alpha) => raster.hair(x0, y0, x1, y1, colour, alpha);
    const line = (x0, y0, x1, y1, l, colour, alpha) => raster.line(x0, y0, x1, y1, Math.max(1, styleOf(l) / 2) * dpr, colour, alpha);
    each('quads', (x0, y0, x1, y1, l, colour, alpha, p) => raster.quad(x0, y0, x1, y1, Math.max(p.wide, 1) * dpr, colour, alpha));
    each('lines', isThick ? line : hair);
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

/* What a picture depends on, as a list to be compared. */
const dependsOn = (batches, view, colours) => [colours, view.from, view.to, view.width, view.height, view.scroll, view.dpr, ...batches.flatMap(b => [b, b.lane.top, b.lane.height])];

/* Draws over what is on the canvas. */
export function createFlat(canvas)
{
    const c = canvas.getContext('2d', {willReadFrequently: true}); /* pixels come from here: no GPU wanted */
    const masks = new Map();
    const stats = {calls: 0, losses: 0};
    const layer = document.createElement('canvas'); /* the pixels, to be laid over what is on the canvas */
    let colours = null, table = null, lastDpr = 0, raster = null, drawn = [];
    const pixels = (batches, view) => {
        if (raster?.width !== canvas.width || raster.height !== canvas.height) {
            raster = new Raster(canvas.width, canvas.height);
            layer.width = canvas.width;
            layer.height = canvas.height;
        }
        raster.clear();
        stats.calls = drawInto(raster, batches, view, table, masks);
        layer.getContext('2d', {willReadFrequently: true}).putImageData(new ImageData(raster.bytes, raster.width, raster.height), 0, 0);
    };
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
            const now = dependsOn(batches, view, colours);
            if (now.length !== drawn.length || now.some((v, i) => v !== drawn[i])) {
                pixels(batches, view);
                drawn = now;
            }
            c.setTransform(1, 0, 0, 1, 0, 0);
            c.drawImage(layer, 0, 0);
            return true;
        },
        finish: () => {},
        close: () => {
            raster = null;
            drawn = [];
        },
    };
}
