/* time.js - the one time model: live (the range follows now), paused, playback (the range moves at a speed).
 *
 * Now is the gateway's: events are stamped with its time, and a clock of this machine that is off would leave the newest out.
 * The difference is found by Cristian's algorithm from answers that tell the gateway's time (api.js). */
import {signal, effect, untracked} from '@preact/signals-core';
import {view, setRange, SPAN_MIN, SPAN_MAX, SPEED_MIN, SPEED_MAX} from './state.js';
import {parseTimeAt, formatTime as format, isoTime, HOUR, MINUTE, SECOND, DAY} from './timetext.js';

export {parseSpan, formatSpan, spanText, isoTime, digitsFor, partsOf, SECOND, MINUTE, HOUR, DAY} from './timetext.js';

/* How far the gateway's clock is ahead of this one, and how wrong that may be; microseconds. */
export const clock = signal({offset: 0, bound: Infinity, at: 0});

/* now() and the clock of monotonic time, so that a step of this machine's clock does not move the picture. */
const origin = Date.now() * 1e3 - performance.now() * 1e3;
const here = () => origin + performance.now() * 1e3;

/* An offset that is within its own bound may be none: it is not applied. */
export function now()
{
    const {offset, bound} = clock.peek();
    return Math.round(here() + (Math.abs(offset) > bound ? offset : 0));
}

const DRIFT = 250e-6; /* until measured: what a clock may gain a second */

/* An answer with the gateway's time, between two of ours (performance.now, ms). */
export function tellClock(sentMs, gotMs, gatewayUs)
{
    const bound = (gotMs - sentMs) * 500;
    const old = clock.peek();
    const age = (gotMs - old.at) * 1e3;
    if (bound <= old.bound + DRIFT * age)
        clock.value = {offset: gatewayUs - (origin + (sentMs + gotMs) * 500), bound, at: gotMs};
}

export const parseTime = text => parseTimeAt(text, now(), view.zone.peek());
export const formatTime = (us, options = {}) => format(us, {zone: view.zone.value, ...options});

/* ---- what people do to time ---- */

export function goLive()
{
    const span = view.span.peek();
    setRange(now() - span, now(), {mode: 'live'});
}

export function pause()
{
    setRange(view.from.peek(), view.to.peek(), {mode: 'paused'});
}

/* Plays on from where the range is; from live, from the beginning of the range. */
export function play(speed = view.speed.peek())
{
    view.speed.value = Math.max(SPEED_MIN, Math.min(SPEED_MAX, speed));
    const from = view.from.peek(), to = view.to.peek();
    const shift = view.mode.peek() === 'live' || to >= now() - SECOND ? to - from : 0;
    setRange(from - shift, to - shift, {mode: 'play'});
}

/* Makes the range `factor` as wide around `at` (default: the cursor if it is in view, else the middle; live: the end, which stays). */
export function zoom(factor, at)
{
    const from = view.from.peek(), to = view.to.peek(), mode = view.mode.peek();
    const width = Math.max(SPAN_MIN, Math.min(SPAN_MAX, (to - from) * factor));
    if (mode === 'live' && at === undefined) {
        setRange(to - width, to, {mode});
        return;
    }
    const cursor = view.cursor.peek();
    at ??= cursor !== null && cursor >= from && cursor <= to ? cursor : (from + to) / 2;
    const start = at - (at - from) / (to - from) * width;
    setRange(start, start + width, {mode: mode === 'play' ? 'play' : 'paused'});
}

/* Moves the range by a part of its width; not further than half a width beyond now. */
export function pan(part)
{
    const from = view.from.peek(), width = view.to.peek() - from;
    const start = Math.min(from + part * width, now() - width / 2);
    setRange(start, start + width, {mode: view.mode.peek() === 'play' ? 'play' : 'paused'});
}

/* Puts a time into the middle and the cursor on it. */
export function goTo(us)
{
    const width = view.to.peek() - view.from.peek();
    view.cursor.value = Math.round(us);
    setRange(us - width / 2, us + width / 2);
}

/* ---- what moves by itself ---- */

/* How often a live range moves: often enough for a pixel, seldom enough to be cheap. */
export const tickMs = spanUs => Math.max(100, Math.min(1000, spanUs / 1e3 / 1500));

const PLAY_MS = 33;

/* Moves the range while it is live or plays and the page can be seen. Returns what ends it. */
export function runClock()
{
    let timer = 0, last = performance.now();
    const step = () => {
        timer = 0;
        const at = performance.now();
        const mode = view.mode.peek();
        if (mode === 'live') {
            const to = now();
            setRange(to - view.span.peek(), to, {mode, quiet: true});
        } else if (mode === 'play') {
            advance((at - last) * 1e3 * view.speed.peek());
        }
        last = at;
        arm();
    };
    const arm = () => {
        const mode = view.mode.peek();
        if (!timer && mode !== 'paused' && !document.hidden)
            timer = setTimeout(step, mode === 'play' ? PLAY_MS : tickMs(view.span.peek()));
    };
    const wake = () => {
        last = performance.now();
        clearTimeout(timer);
        timer = 0;
        if (!document.hidden)
            step();
    };
    const end = effect(() => {
        void view.mode.value;
        untracked(wake);
    });
    document.addEventListener('visibilitychange', wake);
    return () => {
        end();
        clearTimeout(timer);
        document.removeEventListener('visibilitychange', wake);
    };
}

function advance(us)
{
    const from = view.from.peek() + us, to = view.to.peek() + us;
    if (to >= now())
        goLive();
    else
        setRange(from, to, {mode: 'play', quiet: true});
}

/* Ranges that are offered. */
export const SPANS = [MINUTE, 5 * MINUTE, 15 * MINUTE, HOUR, 6 * HOUR, DAY, 7 * DAY, 30 * DAY];
