/* axis.js - where the marks of an axis of time go and what is written at them. Pure. */
import {partsOf, SECOND, MINUTE, HOUR, DAY} from './timetext.js';

const STEPS = [
    ...[1, 2, 5, 10, 20, 50, 100, 200, 500].map(n => n), ...[1, 2, 5, 10, 20, 50, 100, 200, 500].map(n => n * 1e3),
    ...[1, 2, 5, 10, 15, 30].map(n => n * SECOND), ...[1, 2, 5, 10, 15, 30].map(n => n * MINUTE), ...[1, 2, 3, 6, 12].map(n => n * HOUR),
    ...[1, 2, 7, 14, 30, 90, 365, 1825, 7300, 36500].map(n => n * DAY),
];

const pad = (n, width = 2) => String(n).padStart(width, '0');

/* How far a zone's clock is ahead of UTC at a time, microseconds. */
const zoneOffset = (us, zone) => zone === 'utc' ? 0 : -new Date(us / 1e3).getTimezoneOffset() * MINUTE;

function labelOf(us, step, zone, before)
{
    const p = partsOf(us, zone);
    const isNewDay = before === null || partsOf(before, zone).day !== p.day;
    if (step >= DAY)
        return step >= 365 * DAY ? String(p.year) : `${pad(p.month)}-${pad(p.day)}`;
    if (p.hour === 0 && p.minute === 0 && p.second === 0 && p.micro === 0 && isNewDay)
        return `${pad(p.month)}-${pad(p.day)}`;
    if (step >= MINUTE)
        return `${pad(p.hour)}:${pad(p.minute)}`;
    if (step >= SECOND)
        return `${pad(p.hour)}:${pad(p.minute)}:${pad(p.second)}`;
    const isNewSecond = before === null || Math.floor(before / SECOND) !== Math.floor(us / SECOND);
    const digits = step >= 1e3 ? 3 : 6;
    return isNewSecond ? `${pad(p.hour)}:${pad(p.minute)}:${pad(p.second)}${p.micro ? '.' + pad(p.micro, 6).slice(0, digits) : ''}`
                       : '.' + pad(p.micro, 6).slice(0, digits);
}

/* At most `max` marks from `from` to `to` (µs), at round times of the zone: [{at, label}] */
export function timeTicks(from, to, max, zone = 'local')
{
    const step = STEPS.find(s => (to - from) / s <= Math.max(1, max)) ?? STEPS.at(-1);
    const shift = zoneOffset(from, zone);
    const out = [];
    for (let k = Math.ceil((from + shift) / step); out.length <= max + 2; k++) {
        let at = k * step - shift;
        at += shift - zoneOffset(at, zone); /* the clocks may have been changed on the way */
        if (at > to)
            break;
        if (at >= from)
            out.push({at, label: labelOf(at, step, zone, out.at(-1)?.at ?? null)});
    }
    return out;
}
