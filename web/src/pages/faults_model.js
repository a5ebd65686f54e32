/* faults_model.js - faults over time: episodes from fault.state events, strips of them, what a back-test says. Pure. Times in µs. */

export const SEVERITY_ORDER = ['critical', 'error', 'warning', 'notice', 'info'];
const STATE_ORDER = ['firing', 'acknowledged', 'clearing', 'pending', 'cleared'];

const rankOf = (list, v) => {
    const i = list.indexOf(v);
    return i < 0 ? list.length : i;
};

/* The gravest first: state, severity, then the newest. */
export function byGravity(a, b)
{
    return rankOf(STATE_ORDER, a.state) - rankOf(STATE_ORDER, b.state) || rankOf(SEVERITY_ORDER, a.severity) - rankOf(SEVERITY_ORDER, b.severity)
        || (b.sinceUs ?? 0) - (a.sinceUs ?? 0);
}

export const timeOfText = text => text ? Date.parse(text) * 1e3 : NaN;

/* Rows of `faults` with times as numbers, in order. */
export const openFaults = rows => rows.map(r => ({...r, sinceUs: timeOfText(r.since), firedUs: timeOfText(r.fired), clearedUs: timeOfText(r.cleared)})).sort(byGravity);

/* What holds its notices back, in words; '' : nothing does. */
export function heldBack(f)
{
    const why = [f.silenced && 'silenced', f.hidden && 'hidden by another fault', f.quiet && 'quiet time', f.state === 'acknowledged' && 'acknowledged'];
    return why.filter(Boolean).join(', ');
}

/* rows: {time (µs), fault, rule, target, state, severity, summary, episode} in order of time. A strip for each fault: pieces of one
 * state each, from the first word about it, cut to the range; what was open before is drawn from its beginning. */
export function stripsOf(rows, from, to)
{
    const strips = new Map();
    for (const r of rows) {
        let s = strips.get(r.fault);
        if (!s)
            strips.set(r.fault, s = {fault: r.fault, rule: r.rule, target: r.target, severity: r.severity, summary: r.summary, pieces: [], fires: 0, firingUs: 0, last: null, episodes: new Set()});
        close(s, r.time);
        s.severity = r.severity || s.severity;
        s.summary = r.summary || s.summary;
        if (r.state === 'firing' && !s.episodes.has(r.episode)) {
            s.episodes.add(r.episode);
            s.fires += r.time >= from ? 1 : 0;
        }
        s.last = r.state === 'cleared' || r.state === 'none' ? null : {state: r.state, from: r.time};
        s.state = r.state;
    }
    for (const s of strips.values()) {
        close(s, to);
        s.pieces = s.pieces.map(p => ({...p, from: Math.max(from, p.from), to: Math.min(to, p.to)})).filter(p => p.to > p.from);
        s.firingUs = s.pieces.reduce((sum, p) => sum + p.to - p.from, 0);
        delete s.last;
    }
    return [...strips.values()].filter(s => s.pieces.length || s.fires)
        .sort((a, b) => rankOf(SEVERITY_ORDER, a.severity) - rankOf(SEVERITY_ORDER, b.severity) || b.firingUs - a.firingUs);
}

function close(s, at)
{
    if (s.last && at > s.last.from) {
        const before = s.pieces.at(-1);
        if (before && before.state === s.last.state && before.to === s.last.from)
            before.to = at;
        else
            s.pieces.push({state: s.last.state, from: s.last.from, to: at});
    }
}

/* ---- back-tests ---- */

/* Deeds of a back-test ({at, rule, what, lasted_s, actions, fault, summary, severity}) as strips and sums. */
export function backtestOf(rows, from, to)
{
    const strips = new Map(), notices = {fire: 0, repeat: 0, escalate: 0, clear: 0};
    const actions = new Map();
    const deeds = rows.filter(r => r.what).map(r => ({...r, time: timeOfText(r.at)})).sort((a, b) => a.time - b.time);
    for (const d of deeds) {
        const key = d.fault ?? d.rule + ' ' + d.summary;
        let s = strips.get(key);
        if (!s)
            strips.set(key, s = {fault: key, rule: d.rule, target: '', severity: d.severity, summary: d.summary, pieces: [], fires: 0, firingUs: 0, open: null});
        if (d.what === 'fires') {
            s.open = d.time;
            s.fires++;
        } else if (d.what === 'clears') {
            s.pieces.push({state: 'firing', from: s.open ?? Math.max(from, d.time - (d.lasted_s ?? 0) * 1e6), to: d.time});
            s.open = null;
        } else if (d.what in notices) {
            notices[d.what]++;
            for (const a of String(d.actions ?? '').split(',').map(x => x.trim()).filter(Boolean))
                actions.set(a, (actions.get(a) ?? 0) + 1);
        }
    }
    for (const s of strips.values()) {
        if (s.open !== null)
            s.pieces.push({state: 'firing', from: s.open, to});
        s.isOpen = s.open !== null;
        delete s.open;
        s.pieces = s.pieces.filter(p => p.to > p.from);
        s.firingUs = s.pieces.reduce((sum, p) => sum + p.to - p.from, 0);
    }
    const list = [...strips.values()];
    return {strips: list.sort((a, b) => b.firingUs - a.firingUs), deeds, notices, actions: [...actions].sort((a, b) => b[1] - a[1]),
            fires: list.reduce((n, s) => n + s.fires, 0), open: list.filter(s => s.isOpen).length,
            firingUs: list.reduce((n, s) => n + s.firingUs, 0)};
}

/* In one sentence: what the rule would have done. */
export function backtestSentence(result, duration)
{
    const {fires, notices, strips, open} = result;
    if (fires === 0)
        return 'It would not have fired.';
    const told = notices.fire + notices.repeat + notices.escalate + notices.clear;
    return `It would have fired ${times(fires)} for ${strips.length === 1 ? 'one fault' : strips.length + ' faults'}, ${duration(result.firingUs)} in all`
        + (open ? `, ${open} of them still at the end` : '') + (told ? `; actions would have been told ${times(told)}.` : '.');
}

const times = n => n === 1 ? 'once' : n === 2 ? 'twice' : n + ' times';

/* ---- silences ---- */

/* What to silence: {args} for the verb, or {error}. */
export function silenceArgs({rule, host, where, note, hours, everything}, nowUs)
{
    const length = Number(hours);
    if (!(length > 0 && length <= 24 * 366))
        return {error: {hours: 'how long? From a minute to a year.'}};
    if (!everything && !rule && !host && !where)
        return {error: {rule: 'of what? A rule, a host, or everything.'}};
    if (where && !where.trim().split(/\s+/).every(w => /^[^=\s]+=\S+$/.test(w)))
        return {error: {where: 'name=value, by blanks: mount=/scratch device=sdb'}};
    const args = {until: Math.round((nowUs + length * 3600e6) * 1e3)};
    for (const [name, value] of Object.entries({rule: everything ? '' : rule, host: everything ? '' : host, where: everything ? '' : where, note})) {
        if (value?.trim())
            args[name] = value.trim();
    }
    return {args};
}

/* Does a silence (rule, hosts: patterns with *) hold for the fault? */
export function isSilencedBy(silence, fault)
{
    const matches = (pattern, text) => !pattern || new RegExp('^' + pattern.split('*').map(p => p.replace(/[.+?^${}()|[\]\\]/g, '\\$&')).join('.*') + '$').test(text ?? '');
    return matches(silence.rule, fault.rule) && matches(silence.hosts, fault.host ?? fault.target);
}
