/* tiles.js - which tiles a range needs (docs/tiles.md), and getting them: one cache, few requests at a time, what is seen first.
 *
 * A tile set is one lane of a picture: want() says which range and how many pixels; `tiles` is what there is to draw of it, in
 * order of time, without overlaps. Where a tile has not come yet, a coarser one that is at hand stands in for it.
 * Tiles that are still being filled (open) are asked for again, the newest every second, or come by live.js. A tile that the gateway
 * refuses for too many events (422: of ids that are not declared, or with a filter) is made of its parts, one after the other. */
import {signal} from '@preact/signals-core';
import {request, isAbort} from './api.js';
import {decode} from './glt1.js';
import {now} from './time.js';
import {view} from './state.js';
import {heard, backoff} from './poll.js';

export const BINS = 256, LEVEL_MAX = 26;
const ASKED_MAX = 4;                 /* requests at a time: a browser has six connections to a host */
const CACHE_BYTES = 48 << 20, CACHE_TILES = 4096;
const TILES_MAX = 512;               /* of one range */
const OPEN_MS = 1000, LATER_MS = 30000; /* how old an open tile may get: one that has the present (or a bin, at most 10 s); one that late events may still reach */
const STAND_IN = 4;                  /* levels up that are looked at for one that stands in */
const SPLIT = 3;                     /* levels down that are asked for where a tile would have too many events */

/* ---- which tiles: pure ---- */

export const binUs = level => 4 ** level / 1000;
export const tileUs = level => BINS * binUs(level);

/* The level whose bins are nearest to a pixel: half a pixel to two. */
export function levelFor(spanUs, pixels)
{
    const level = Math.round(Math.log(spanUs * 1000 / Math.max(1, pixels)) / Math.log(4));
    return Math.max(0, Math.min(LEVEL_MAX, level));
}

/* The tile that a whole microsecond is in: exact, which Numbers are not for tiles of nanoseconds. A shift rounds down. */
const indexOf = (us, level) => Number(BigInt(Math.floor(us)) * 1000n >> BigInt(8 + 2 * level));

/* The tiles of a level that a range touches; its end is not within. */
export function tilesOf(fromUs, toUs, level)
{
    const first = indexOf(fromUs, level);
    const last = Math.min(Math.max(first, indexOf(Math.ceil(toUs) - 1, level) + (level < 5 ? 1 : 0)), first + TILES_MAX - 1);
    return Array.from({length: last - first + 1}, (_, i) => ({level, index: first + i}));
}

export const startUs = ({level, index}) => index * tileUs(level);

/* The address of a tile, below /api/v1/. */
export function addressOf({kind, name, params}, {level, index})
{
    const given = Object.entries(params ?? {}).filter(([, v]) => v !== undefined && v !== null && v !== '').sort();
    const query = given.length ? '?' + new URLSearchParams(given) : '';
    return `tile/${kind}/${encodeURIComponent(name)}/${level}/${index}${query}`;
}

/* ---- the cache: address → {tile, error, at}; the oldest used goes first ---- */

const cache = new Map();
let cacheBytes = 0;

function remember(address, entry)
{
    forget(address);
    cache.set(address, entry);
    cacheBytes += entry.tile?.bytes ?? 0;
    for (const [oldest, old] of cache) {
        if (cacheBytes <= CACHE_BYTES && cache.size <= CACHE_TILES)
            break;
        cache.delete(oldest);
        cacheBytes -= old.tile?.bytes ?? 0;
    }
}

function forget(address)
{
    const old = cache.get(address);
    if (old) {
        cache.delete(address);
        cacheBytes -= old.tile?.bytes ?? 0;
    }
}

function used(address)
{
    const entry = cache.get(address);
    if (entry) {
        cache.delete(address);
        cache.set(address, entry);
    }
    return entry;
}

export const cacheSize = () => ({tiles: cache.size, bytes: cacheBytes, asking: asking.size, waiting: waiting.size});
export const clearCache = () => { cache.clear(); cacheBytes = 0; };

/* Lanes whose newest tiles are pushed (live.js): they are not asked for. */
const followed = new Map();
const laneOf = (spec, level) => addressOf(spec, {level, index: ''});

export function follow(spec, level)
{
    const lane = laneOf(spec, level);
    followed.set(lane, (followed.get(lane) ?? 0) + 1);
    return () => {
        const left = followed.get(lane) - 1;
        left ? followed.set(lane, left) : followed.delete(lane);
    };
}

/* Is it time to ask for it again? */
function isOld(entry, id, spec)
{
    const age = performance.now() - entry.at;
    if (entry.error)
        return age > backoff(entry.failures, OPEN_MS, () => 0) && isWorthAsking(entry.error);
    if (!entry.tile.isOpen)
        return false;
    const end = startUs(id) + tileUs(id.level);
    if (end > now() && age < LATER_MS && followed.has(laneOf(spec, id.level)))
        return false;
    return age >= 0.9 * (end > now() - 10e6 ? openMs(id.level) : LATER_MS);
}

const openMs = level => Math.max(OPEN_MS, Math.min(10000, binUs(level) / 1000));

/* What the gateway has refused it will refuse again. */
const isWorthAsking = error => !(error.status >= 400 && error.status < 500 && error.status !== 429);

/* ---- the queue: one for all lanes; address → {id, spec, priority, users} ---- */

const waiting = new Map(), asking = new Map();

function enqueue(address, spec, id, priority, user)
{
    const there = asking.get(address) ?? waiting.get(address);
    if (there) {
        there.users.add(user);
        there.priority = Math.min(there.priority, priority);
        return;
    }
    waiting.set(address, {address, spec, id, priority, users: new Set([user]), abort: null});
}

function leave(user, isKept)
{
    for (const map of [waiting, asking]) {
        for (const [address, job] of map) {
            if (!job.users.has(user) || isKept(address))
                continue;
            job.users.delete(user);
            if (job.users.size)
                continue;
            map.delete(address);
            job.abort?.abort();
        }
    }
}

function pump()
{
    while (asking.size < ASKED_MAX && waiting.size) {
        let best = null;
        for (const job of waiting.values()) {
            if (!best || job.priority < best.priority)
                best = job;
        }
        waiting.delete(best.address);
        asking.set(best.address, best);
        fetchTile(best);
    }
}

async function fetchTile(job)
{
    job.abort = new AbortController();
    const old = cache.get(job.address);
    let entry;
    try {
        const response = await request(job.address, {signal: job.abort.signal, priority: job.priority ? 'low' : 'high'});
        const tile = decode(await response.arrayBuffer());
        heard(true);
        entry = {tile, error: null, failures: 0, at: performance.now()};
    } catch (error) {
        if (isAbort(error)) {
            pump();
            return;
        }
        if (error.status === 0)
            heard(false);
        entry = {tile: old?.tile ?? null, error, failures: (old?.failures ?? 0) + 1, at: performance.now()};
    }
    asking.delete(job.address);
    remember(job.address, entry);
    for (const user of job.users)
        user.came();
    pump();
}

/* A tile that came by itself (live.js). */
export function putTile(spec, tile)
{
    const address = addressOf(spec, tile);
    remember(address, {tile, error: null, failures: 0, at: performance.now()});
    for (const user of users)
        user.got(address);
}

/* ---- sets ---- */

const users = new Set();

/* A coarser tile at hand that has the time of `id`. */
function standIn(spec, id)
{
    for (let up = 1, index = id.index; up <= STAND_IN && id.level + up <= LEVEL_MAX; up++) {
        index = Math.floor(index / 4);
        const entry = cache.get(addressOf(spec, {level: id.level + up, index}));
        if (entry?.tile)
            return entry.tile;
    }
    return null;
}

/* The tile, or its parts where it was refused for its size; none that begin later than now. */
function partsOf(spec, id, deepest)
{
    if (cache.get(id.address)?.error?.status !== 422 || id.level <= deepest)
        return [id];
    const parts = [0, 1, 2, 3].map(i => ({level: id.level - 1, index: 4 * id.index + i})).filter(part => startUs(part) <= now());
    return parts.flatMap(part => partsOf(spec, {...part, address: addressOf(spec, part)}, deepest));
}

/* {kind, name, params} → {want(from, to, pixels), tiles, progress, cancel(), close()}
 * tiles: signal [{level, index, from, to, tile}]: draw of each tile what is from `from` to `to` (µs).
 * progress: signal {done, all, error}. */
export function tileSet(spec)
{
    const tiles = signal([]), progress = signal({done: 0, all: 0, error: null});
    let asked = [], wanted = [], addresses = new Set(), timer = 0, frame = 0, isClosed = false;

    /* Of what was asked for, what is to be had. */
    const split = () => {
        const next = asked.flatMap(id => partsOf(spec, id, Math.max(0, id.level - SPLIT)));
        wanted = next.length <= TILES_MAX ? next : asked;
        addresses = new Set(wanted.map(id => id.address));
    };
    const gather = () => {
        frame = 0;
        const before = wanted.length;
        split();
        if (wanted.length > before)
            refresh();
        let done = 0, error = null;
        const out = [];
        for (const id of wanted) {
            const entry = used(id.address);
            const tile = entry?.tile ?? standIn(spec, id);
            done += entry ? 1 : 0;
            error ??= entry?.error ?? null;
            if (tile)
                out.push({level: tile.level, index: tile.index, from: startUs(id), to: startUs(id) + tileUs(id.level), tile});
        }
        if (out.length !== tiles.peek().length || out.some((e, i) => e.tile !== tiles.peek()[i].tile || e.from !== tiles.peek()[i].from))
            tiles.value = out;
        const was = progress.peek();
        if (was.done !== done || was.all !== wanted.length || was.error !== error)
            progress.value = {done, all: wanted.length, error};
    };
    const user = {
        came() {
            if (!frame && !isClosed)
                frame = setTimeout(gather, 8);
        },
        got(address) {
            if (addresses.has(address))
                user.came();
        },
    };
    const refresh = () => {
        clearTimeout(timer);
        timer = 0;
        if (isClosed || document.hidden)
            return;
        let isAnyOpen = false;
        for (const id of wanted) {
            const entry = cache.get(id.address);
            isAnyOpen ||= !entry || entry.error || entry.tile.isOpen;
            if (!entry || isOld(entry, id, spec))
                enqueue(id.address, spec, id, 0, user);
        }
        pump();
        if (isAnyOpen)
            timer = setTimeout(refresh, openMs(wanted[0].level));
    };
    users.add(user);
    return {
        tiles, progress,
        want(from, to, pixels, level = levelFor(to - from, pixels)) {
            const ids = tilesOf(from, Math.max(from, Math.min(to, now())), level);
            const next = ids.map(id => ({...id, address: addressOf(spec, id)}));
            const isSame = next.length === asked.length && next.every((id, i) => id.address === asked[i].address);
            if (isSame && timer)
                return;
            asked = next;
            split();
            leave(user, address => addresses.has(address));
            refresh();
            if (view.mode.peek() !== 'live')
                prefetch(spec, user, next, addresses);
            gather();
        },
        cancel() { leave(user, () => false); },
        close() {
            isClosed = true;
            clearTimeout(timer);
            clearTimeout(frame);
            users.delete(user);
            leave(user, () => false);
            asked = wanted = [];
        },
    };
}

/* One tile more on the left, and on the right where that is the past; when nothing else is to be done. */
function prefetch(spec, user, ids, addresses)
{
    const first = ids[0], last = ids[ids.length - 1];
    for (const id of [{level: first.level, index: first.index - 1}, {level: last.level, index: last.index + 1}]) {
        const address = addressOf(spec, id);
        if (startUs(id) > now() || cache.has(address))
            continue;
        addresses.add(address);
        enqueue(address, spec, id, 1, user);
    }
    pump();
}
