/* live.js - the one streaming connection of a tab (/api/v1/live, docs/http.md): the newest tiles of lanes, pushed when they change.
 *
 * All lanes of the tab share it; when they change it is opened again with the new list. While the tab is hidden there is none. What
 * comes goes to the tile cache, too, so that tile sets have it without asking. More lanes than the gateway takes are left
 * to the tile sets, which ask once a second. */
import {effect} from '@preact/signals-core';
import {decode} from './glt1.js';
import {putTile, follow, tileSet, tileUs} from './tiles.js';
import {backoff, heard} from './poll.js';
import {now} from './time.js';

const LANES_MAX = 32, FRAME_MAX = 4 << 20, HEAD = 8;
const TILE = 1, NOTE = 2;
const SETTLE_MS = 120;      /* lanes that come together go into one request */
const SILENT_MS = 40000;    /* the gateway gives a sign of life every 15 s */

/* ---- frames: pure ---- */

/* Cuts a stream of bytes into frames {lane, kind, payload: ArrayBuffer}. Throws on one that is too long. */
export function frameReader(onFrame)
{
    let rest = new Uint8Array(0);
    return chunk => {
        const all = new Uint8Array(rest.length + chunk.length);
        all.set(rest);
        all.set(chunk, rest.length);
        const view = new DataView(all.buffer);
        let at = 0;
        while (all.length - at >= HEAD) {
            const size = view.getUint32(at, true);
            if (size > FRAME_MAX)
                throw new Error(`live: a frame of ${size} bytes`);
            if (all.length - at - HEAD < size)
                break;
            onFrame({lane: view.getUint16(at + 4, true), kind: view.getUint8(at + 6), payload: all.buffer.slice(at + HEAD, at + HEAD + size)});
            at += HEAD + size;
        }
        rest = all.slice(at);
    };
}

/* ---- the connection ---- */

const lanes = new Map(); /* key → {number, spec, level, users: Set of onTile, unfollow} */
let nextNumber = 1, connection = null, timer = 0, failures = 0;

export const liveState = {connects: 0, frames: 0, bytes: 0, skipped: 0, errors: 0, isOpen: false, lanes: () => lanes.size};

const keyOf = ({kind, name, level, params}) => JSON.stringify([kind, name, level, Object.entries(params ?? {}).sort()]);

function again(ms)
{
    clearTimeout(timer);
    timer = setTimeout(connect, ms);
}

function disconnect()
{
    connection?.abort();
    connection = null;
    liveState.isOpen = false;
    for (const lane of lanes.values()) {
        lane.unfollow?.();
        lane.unfollow = null;
    }
}

function onFrame({lane: number, kind, payload})
{
    liveState.frames++;
    if (kind === NOTE) {
        const note = JSON.parse(new TextDecoder().decode(payload));
        liveState.skipped += note.skipped ?? 0;
        return;
    }
    const lane = [...lanes.values()].find(l => l.number === number);
    if (kind !== TILE || !lane)
        return;
    let tile;
    try {
        tile = decode(payload);
    } catch {
        liveState.errors++; /* a tile that is damaged on the way: the next one, or a tile set, mends it */
        return;
    }
    putTile(lane.spec, tile);
    for (const onTile of lane.users)
        onTile(tile);
}

async function connect()
{
    disconnect();
    if (!lanes.size || document.hidden)
        return;
    const mine = connection = new AbortController();
    const list = [...lanes.values()].slice(0, LANES_MAX);
    let watchdog = 0;
    const alive = () => {
        clearTimeout(watchdog);
        watchdog = setTimeout(() => mine.abort(), SILENT_MS);
    };
    try {
        alive();
        liveState.connects++;
        const response = await fetch('/api/v1/live', {method: 'POST', credentials: 'same-origin', signal: mine.signal, headers: {'Content-Type': 'application/json'},
            body: JSON.stringify({lanes: list.map(l => ({lane: l.number, kind: l.spec.kind, name: l.spec.name, level: l.level, params: l.spec.params ?? {}})), every: '200ms'})});
        if (!response.ok)
            throw new Error('live: ' + response.status);
        heard(true);
        liveState.isOpen = true;
        for (const lane of list)
            lane.unfollow = follow(lane.spec, lane.level);
        const read = frameReader(onFrame), reader = response.body.getReader();
        for (let chunk; !(chunk = await reader.read()).done;) {
            alive();
            failures = 0;
            liveState.bytes += chunk.value.length;
            read(chunk.value);
        }
    } catch {
        /* cut off, refused or wrong: all the same, it is opened again */
    }
    clearTimeout(watchdog);
    if (connection !== mine)
        return; /* another one has taken its place */
    disconnect();
    failures++;
    again(backoff(failures, 500));
}

/* {kind, name, level, params}: calls onTile(tile) with each new version of the lane's newest tiles. Returns what ends it. */
export function live({kind, name, level, params}, onTile)
{
    const key = keyOf({kind, name, level, params});
    let lane = lanes.get(key);
    if (lane) {
        lane.users.add(onTile);
    } else {
        if (lanes.size >= LANES_MAX)
            return ask({kind, name, level, params}, onTile);
        lanes.set(key, lane = {number: nextNumber = nextNumber % 65535 + 1, spec: {kind, name, params}, level, users: new Set([onTile]), unfollow: null});
        again(SETTLE_MS);
    }
    return () => {
        lane.users.delete(onTile);
        if (lane.users.size || lanes.get(key) !== lane)
            return;
        lane.unfollow?.();
        lanes.delete(key);
        again(SETTLE_MS);
    };
}

/* The same by asking, for a lane too many. */
function ask({kind, name, level, params}, onTile)
{
    const set = tileSet({kind, name, params});
    const look = () => set.want(now() - tileUs(level) / 256, now(), 1, level);
    const every = setInterval(look, 1000);
    let last = null;
    const end = effect(() => {
        const newest = set.tiles.value.at(-1)?.tile;
        if (newest && newest !== last)
            onTile(last = newest);
    });
    look();
    return () => {
        clearInterval(every);
        end();
        set.close();
    };
}

globalThis.document?.addEventListener('visibilitychange', () => again(0));
