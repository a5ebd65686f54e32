/* retention.js - what retention has deleted of the range of time that is shown. Pure. */
import {formatTime, formatSpan, digitsFor} from './timetext.js';

/* rows: [{event, from, to}] in µs, of raw events; to is not in. → {short, text}, or null where nothing of the range is deleted. */
export function deletedIn(rows, from, to, zone)
{
    const hit = rows.filter(r => r.from < to && r.to > from);
    if (hit.length === 0)
        return null;
    const end = Math.min(to, Math.max(...hit.map(r => r.to))), begin = Math.max(from, Math.min(...hit.map(r => r.from)));
    const at = formatTime(end, {zone, digits: digitsFor(to - from)});
    const names = hit.length === 1 ? hit[0].event : `${hit.length} event names`;
    return {short: `${formatSpan(end - begin)} deleted`,
            text: `Events of ${names} before ${at} are deleted by retention: ${formatSpan(end - begin)} of this range. Curves there come from tiers, as far as these are kept.`};
}
