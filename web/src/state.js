/* state.js - the one view state, in signals, and its URL hash.
 *
 * Everything that decides what is seen is here and in the hash, so that a link shows the same:
 *
 *     #/host?last=15m&host=node7&o={"hosts":["node7"]}
 *     #/timeline?from=2026-11-17T22:00:00Z&to=2026-11-17T22:05:00Z&at=2026-11-17T22:01:03.5Z&event=job.*&theme=dark
 *
 * last: live, so wide; from and to: paused; with play=SPEED: playing. What is not said is as at the beginning. A hash that is
 * wrong in places is read as far as it makes sense: nothing that is typed there is an error.
 *
 * A page change, and a range that a person chose, is an entry of the browser's history; what moves by itself is not. */
import {signal, batch, effect} from '@preact/signals-core';
import {parseSpan, parseTimeAt, spanText, isoTime, MINUTE, DAY} from './timetext.js';

export const PAGES = ['overview', 'host', 'timeline', 'map', 'sensors', 'faults', 'sql', 'system'];
export const SPEED_MIN = 0.1, SPEED_MAX = 1000;
export const SPAN_MIN = 1, SPAN_MAX = 7300 * DAY;

const THEMES = ['auto', 'dark', 'light'];
const ZONES = ['local', 'utc'];
const FILTER = {host: '', event: '', where: ''};

export const START = Object.freeze({page: 'overview', mode: 'live', span: 15 * MINUTE, from: 0, to: 0, speed: 1, cursor: null,
                                    filter: FILTER, theme: 'auto', zone: 'local', options: {}});

const clamp = (v, min, max) => Math.max(min, Math.min(max, v));

/* ---- the hash: pure ---- */

/* The hash of a plain state like START. */
export function hashOf(s)
{
    const out = [];
    const put = (name, value) => out.push(name + '=' + encodeURIComponent(value).replace(/%(3A|2F|2C|40|7B|7D|5B|5D|20)/g,
                                                                                        (all, hex) => hex === '20' ? '+' : unescapeHex(hex)));
    if (s.mode === 'live') {
        put('last', spanText(s.span));
    } else {
        put('from', isoTime(s.from));
        put('to', isoTime(s.to));
        if (s.mode === 'play')
            put('play', s.speed);
    }
    if (s.cursor !== null)
        put('at', isoTime(s.cursor));
    for (const name of Object.keys(FILTER)) {
        if (s.filter[name])
            put(name, s.filter[name]);
    }
    if (s.theme !== START.theme)
        put('theme', s.theme);
    if (s.zone !== START.zone)
        put('zone', s.zone);
    if (Object.keys(s.options).length)
        put('o', JSON.stringify(s.options));
    return '#/' + s.page + '?' + out.join('&');
}

const unescapeHex = hex => String.fromCharCode(parseInt(hex, 16));

/* The values of `a=b&c=d`; the first of a name counts. */
function valuesOf(text)
{
    const values = new Map();
    for (const part of text.split('&')) {
        const i = part.indexOf('=');
        const name = i < 0 ? part : part.slice(0, i);
        if (values.has(name) || i < 0)
            continue;
        try {
            values.set(name, decodeURIComponent(part.slice(i + 1).replace(/\+/g, ' ')));
        } catch {
            continue; /* a stray % */
        }
    }
    return values;
}

function rangeOf(values, nowUs)
{
    const from = parseTimeAt(values.get('from') ?? '', nowUs, 'utc');
    const to = parseTimeAt(values.get('to') ?? '', nowUs, 'utc');
    if (from !== null && to !== null && to - from >= SPAN_MIN && to - from <= SPAN_MAX) {
        const speed = Number(values.get('play'));
        const isPlay = speed >= SPEED_MIN && speed <= SPEED_MAX;
        return {mode: isPlay ? 'play' : 'paused', from, to, span: to - from, speed: isPlay ? speed : START.speed};
    }
    const span = parseSpan(values.get('last') ?? '');
    return {mode: 'live', from: 0, to: 0, span: span >= SPAN_MIN && span <= SPAN_MAX ? Math.round(span) : START.span, speed: START.speed};
}

function optionsOf(text)
{
    try {
        const value = JSON.parse(text);
        return value && typeof value === 'object' && !Array.isArray(value) ? value : {};
    } catch {
        return {};
    }
}

/* The plain state of a hash, whatever it is; `nowUs` for times like now-1h. */
export function stateOf(hash, nowUs = Date.now() * 1e3)
{
    const match = /^#?\/?([a-z]*)(?:\?(.*))?$/s.exec(hash) ?? [];
    const values = valuesOf(match[2] ?? '');
    const one = (name, of) => of.includes(values.get(name)) ? values.get(name) : START[name];
    return {
        page: PAGES.includes(match[1]) ? match[1] : START.page,
        ...rangeOf(values, nowUs),
        cursor: values.has('at') ? parseTimeAt(values.get('at'), nowUs, 'utc') : null,
        filter: Object.fromEntries(Object.keys(FILTER).map(name => [name, values.get(name) ?? ''])),
        theme: one('theme', THEMES),
        zone: one('zone', ZONES),
        options: optionsOf(values.get('o') ?? '{}'),
    };
}

/* ---- what is remembered on this machine, where the browser allows it ---- */

export const remembered = {
    get(name) {
        try {
            return localStorage.getItem('gridline.' + name);
        } catch {
            return null;
        }
    },
    set(name, value) {
        try {
            localStorage.setItem('gridline.' + name, value);
        } catch {
            /* no storage, or full: it is forgotten with the tab */
        }
    },
};

/* ---- the state ---- */

export const view = Object.fromEntries(Object.entries(START).map(([name, value]) => [name, signal(value)]));

/* Options of the pages that are not on now: page → options. */
const kept = new Map();

export const snapshot = () => Object.fromEntries(Object.keys(START).map(name => [name, view[name].value]));

function apply(s)
{
    batch(() => {
        if (s.page !== view.page.peek())
            kept.set(view.page.peek(), view.options.peek());
        for (const name of Object.keys(START)) {
            if ((name === 'from' || name === 'to') && s.mode === 'live')
                continue; /* the clock sets them */
            view[name].value = s[name];
        }
    });
}

/* Changes the page, keeps time and filter. Without options, those that the page had. */
export function go(page, options)
{
    batch(() => {
        kept.set(view.page.peek(), view.options.peek());
        view.page.value = page;
        view.options.value = options ?? kept.get(page) ?? {};
    });
    put(true);
}

/* Sets the range; mode 'paused' unless told. `quiet`: not an entry of the history. */
export function setRange(from, to, {mode = 'paused', quiet = false} = {})
{
    if (!Number.isFinite(from) || !Number.isFinite(to))
        return;
    if (from > to)
        [from, to] = [to, from];
    const span = clamp(Math.round(to - from), SPAN_MIN, SPAN_MAX);
    batch(() => {
        view.mode.value = mode;
        view.from.value = Math.round(from);
        view.to.value = Math.round(from) + span;
        view.span.value = span;
    });
    if (!quiet)
        put('burst');
}

export const setCursor = t => { view.cursor.value = t === null ? null : Math.round(t); };

export function setFilter(part)
{
    view.filter.value = {...view.filter.peek(), ...part};
    put('burst');
}

/* Of the page that is on; undefined takes one away. */
export function setOptions(part)
{
    const next = {...view.options.peek(), ...part};
    for (const name of Object.keys(next)) {
        if (next[name] === undefined)
            delete next[name];
    }
    view.options.value = next;
}

export function setTheme(theme)
{
    view.theme.value = theme;
    remembered.set('theme', theme);
}

export function setZone(zone)
{
    view.zone.value = zone;
    remembered.set('zone', zone);
}

/* ---- the hash and the history ---- */

const BURST_MS = 700, WRITE_MS = 400;
let lastPush = 0, writeTimer = 0, isApplying = false;

/* Writes the hash: a new entry (true), one unless there was one a moment ago ('burst'), or over the one that is there. */
function put(how)
{
    if (typeof history === 'undefined' || isApplying)
        return;
    clearTimeout(writeTimer);
    writeTimer = 0;
    const hash = hashOf(snapshot());
    if (hash === location.hash)
        return;
    const at = performance.now();
    if (how === true || (how === 'burst' && at - lastPush > BURST_MS)) {
        history.pushState(null, '', hash);
        lastPush = at;
    } else {
        history.replaceState(null, '', hash);
        if (how === 'burst')
            lastPush = at;
    }
}

/* Begins with the hash that is there, and keeps it and the state the same from then on. Returns what ends it. */
export function followHash(nowUs)
{
    const first = stateOf(location.hash, nowUs());
    for (const name of ['theme', 'zone']) {
        const own = remembered.get(name);
        if (!location.hash.includes(name + '=') && (name === 'theme' ? THEMES : ZONES).includes(own))
            first[name] = own;
    }
    apply(first);
    put(false);
    const onHash = () => {
        isApplying = true;
        apply(stateOf(location.hash, nowUs()));
        isApplying = false;
    };
    addEventListener('popstate', onHash);
    const end = effect(() => {
        hashOf(snapshot()); /* to follow all of it */
        if (!writeTimer)
            writeTimer = setTimeout(() => put(false), WRITE_MS);
    });
    return () => {
        end();
        clearTimeout(writeTimer);
        removeEventListener('popstate', onHash);
    };
}
