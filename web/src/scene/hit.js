/* hit.js - what is under the pointer: of what is drawn, the nearest. */
import {WORDS, placeOf, isInView} from './records.js';

const NEAR = 7; /* pixels */
const WEIGHT = {points: 0.6, top: 0.8, lines: 1, quads: 1.5}; /* what lies on top is meant sooner */

/* The distance of a point from a segment. */
export function toSegment(x, y, x0, y0, x1, y1)
{
    const dx = x1 - x0, dy = y1 - y0, all = dx * dx + dy * dy;
    const part = all > 0 ? Math.max(0, Math.min(1, ((x - x0) * dx + (y - y0) * dy) / all)) : 0;
    return Math.hypot(x - x0 - part * dx, y - y0 - part * dy);
}

function distance(layer, p, words, i, x, y)
{
    const x0 = (words[i] - p.t0) * p.perUnit + p.x0, y0 = p.top + (words[i + 2] & 65535) / 65535 * p.height;
    if (layer === 'points')
        return Math.hypot(x - x0, y - y0);
    const x1 = (words[i + 1] - p.t0) * p.perUnit + p.x0, y1 = p.top + (words[i + 2] >>> 16) / 65535 * p.height;
    if (layer !== 'quads')
        return Math.abs(x - (x0 + x1) / 2) > Math.abs(x1 - x0) / 2 + NEAR ? Infinity : toSegment(x, y, x0, y0, x1, y1);
    if (y < Math.min(y0, y1) - 2 || y > Math.max(y0, y1) + 2)
        return Infinity;
    const left = x0 + (x1 - x0) * (y1 === y0 ? 0 : (y - y0) / (y1 - y0));
    return x >= left - 1 && x <= left + Math.max(2, p.wide) ? 1 : Infinity;
}

/* {batch, layer, number, source, distance}, or null. */
export function hit(batches, view, x, y, near = NEAR)
{
    let best = null, least = near;
    for (const batch of batches) {
        if (!isInView(batch, view))
            continue;
        const p = placeOf(batch, view);
        if (y < p.top - near || y > p.top + p.height + near)
            continue;
        for (const layer of ['points', 'top', 'lines', 'quads']) {
            const {n, words, source} = batch[layer];
            for (let k = 0; k < n; k++) {
                const d = distance(layer, p, words, k * WORDS, x, y) * WEIGHT[layer];
                if (d < least) {
                    least = d;
                    best = {batch, layer, number: k, source: source[k], distance: d};
                }
            }
        }
    }
    return best;
}
