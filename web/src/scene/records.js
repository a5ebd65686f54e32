/* records.js - what renderers draw, as plain numbers.
 *
 * A batch is what one tile shows in one lane. Everything in it is a record of four 32-bit words:
 *
 *     word 0, 1   when: t of the two ends, in the batch's own units (time = baseUs + t · stepUs)
 *     word 2      how high: two 16-bit parts of the lane's height, 0 at its top, 65535 at its bottom
 *     word 3      bits 0–9 slot (the batch; the renderer's), 10–18 colour (below), 19–24 alpha, 25–31 style
 *
 * In four layers, drawn in this order: quads (from t0 at y0 to t1 at y1, each as wide as the batch's `wide` units), lines, top (lines that must
 * be seen: errors, outliers), points (a glyph at t0, y0). As times and heights are relative, panning, zooming, scrolling and resizing a
 * lane change a few numbers of the slot and no record. Both renderers take the same batches, so they draw the same. */

export const LAYERS = ['quads', 'lines', 'top', 'points'];
export const WORDS = 4;
export const SLOTS = 1024; /* slot 0 is nobody's: what has it is not drawn */

/* Colours 0–255 are those of texts and series (palette.js), then named ones. */
export const NAMED = ['accent', 'ok', 'warn', 'error', 'info', 'off', 'text', 'dim', 'heat-0', 'heat-1', 'heat-2', 'heat-3', 'heat-4', 'heat-5'];
export const COLOURS = 512;
export const named = name => 256 + NAMED.indexOf(name);

/* Styles: of lines how thick, in half pixels; of points shape + 8 · size. */
export const SHAPES = ['dot', 'circle', 'diamond', 'triangle', 'cross', 'tick'];
export const pointStyle = (shape, size) => SHAPES.indexOf(shape) | Math.min(15, size) << 3;

const unit16 = v => v <= 0 ? 0 : v >= 1 ? 65535 : Math.round(v * 65535);

/* A growing list of records, and for each where it comes from (a number that its maker understands). */
export class Records {
    constructor(capacity = 64)
    {
        this.n = 0;
        this.words = new Uint32Array(capacity * WORDS);
        this.source = new Uint32Array(capacity);
    }

    push(t0, t1, y0, y1, colour, alpha, style, source)
    {
        if (this.n === this.source.length)
            this.grow();
        const at = this.n * WORDS;
        this.words[at] = t0;
        this.words[at + 1] = t1;
        this.words[at + 2] = unit16(y0) | unit16(y1) << 16;
        this.words[at + 3] = colour << 10 | (alpha <= 0 ? 0 : alpha >= 1 ? 63 : Math.round(alpha * 63)) << 19 | style << 25;
        this.source[this.n++] = source;
    }

    grow()
    {
        const words = new Uint32Array(this.words.length * 2), source = new Uint32Array(this.source.length * 2);
        words.set(this.words);
        source.set(this.source);
        this.words = words;
        this.source = source;
    }

    setSlot(slot)
    {
        for (let i = 3; i < this.n * WORDS; i += WORDS)
            this.words[i] = (this.words[i] & ~1023 | slot) >>> 0;
    }
}

/* An empty batch of the times baseUs + t · stepUs; `wide` in units of t. */
export function batchOf(baseUs, stepUs, wide = 0)
{
    const batch = {baseUs, stepUs, wide, lane: null};
    for (const layer of LAYERS)
        batch[layer] = new Records();
    return batch;
}

/* Where t is on the canvas: x = (t − t0) · perUnit + x0, with t0 near the beginning of the view, so that single precision
 * does for the rest; y = top + part · height. */
export function placeOf(batch, view)
{
    const pxPerUs = view.width / (view.to - view.from);
    const t0 = Math.max(0, Math.min(2 ** 32 - 1, Math.floor((view.from - batch.baseUs) / batch.stepUs)));
    return {t0, perUnit: batch.stepUs * pxPerUs, x0: (batch.baseUs + t0 * batch.stepUs - view.from) * pxPerUs,
            wide: batch.wide * batch.stepUs * pxPerUs, top: batch.lane.top - view.scroll, height: batch.lane.height};
}

/* Whether any of it can be seen: by the lane, by its times. */
export function isInView(batch, view)
{
    const {top, height} = batch.lane;
    return top - view.scroll < view.height && top + height > view.scroll
        && batch.baseUs < view.to && batch.baseUs + 2 ** 32 * batch.stepUs > view.from;
}

/* The table of colours for a palette: 512 of #rrggbb. */
export function colourTable(p, seriesColor)
{
    const out = new Array(COLOURS).fill('#000000');
    for (let i = 0; i < 256; i++)
        out[i] = seriesColor(i, p);
    NAMED.forEach((name, i) => {
        out[256 + i] = name.startsWith('heat-') ? p.heat[Number(name.slice(5))] : p[name];
    });
    return out;
}

/* The number of the colour of a text; the same as palette.js colorOf. */
export function colourNumber(text)
{
    let hash = 2166136261;
    for (let i = 0; i < text.length; i++)
        hash = Math.imul(hash ^ text.charCodeAt(i), 16777619);
    return (hash >>> 0) % 256;
}
