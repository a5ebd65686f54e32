/* layout.js - where lanes and rows are. Pure. */

export const HEAD_PX = 24;  /* above each lane: its name, what it shows */
export const AXIS_PX = 26;  /* the axis of time, above all lanes */
const GAP_PX = 6;
export const HEIGHTS = {lifelines: 240, curves: 84, points: 72, heat: 120};
export const HEIGHT_MIN = 36, HEIGHT_MAX = 1200, ROW_PX = 24;

/* How high a lane is: as told, else by what it has. */
export function heightOf(spec, rows)
{
    if (spec.height)
        return Math.max(HEIGHT_MIN, Math.min(HEIGHT_MAX, spec.height));
    if (spec.kind === 'lifelines' && rows)
        return Math.max(150, Math.min(560, rows * 40));
    if (spec.kind === 'points' && rows)
        return Math.max(HEIGHT_MIN, Math.min(240, rows * ROW_PX));
    return HEIGHTS[spec.kind] ?? 100;
}

/* [{height}] → [{top, height}], top being where its drawing begins, below its head; and how high all are. */
export function stack(heights)
{
    let at = AXIS_PX;
    const lanes = heights.map(height => {
        const lane = {top: at + HEAD_PX, height};
        at += HEAD_PX + height + GAP_PX;
        return lane;
    });
    return {lanes, height: at};
}

/* Rows by name: the first at the bottom, as in nlv. of(name) → number or −1; y(number) → 0 (top) … 1. */
export function rowsOf(names, keyOf = name => name)
{
    const at = new Map(names.map((name, i) => [name, i]));
    const n = Math.max(1, names.length);
    return {names, n, of: (...parts) => at.get(keyOf(...parts)) ?? -1, y: row => 1 - (row + 0.5) / n};
}

/* The row that a height of the lane is at: the number of a name, or −1. */
export function rowAt(rows, part)
{
    const row = Math.floor((1 - part) * rows.n);
    return row >= 0 && row < rows.names.length ? row : -1;
}

/* The lane whose drawing or head has the height y; its number, or −1. */
export function laneAt(lanes, y)
{
    return lanes.findIndex(l => y >= l.top - HEAD_PX && y < l.top + l.height + GAP_PX / 2);
}
