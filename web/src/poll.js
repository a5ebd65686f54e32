/* poll.js - what is asked again and again.
 *
 * A poll asks, waits, asks again; never two at a time. It stops while the tab is hidden and asks at once when it is seen again.
 * After a failure it waits longer each time (with chance, so that a thousand tabs don't come back in one moment) and keeps the
 * value that it had: 'stale'. Polls of one name are one, shared by all who use it. */
import {signal, batch} from '@preact/signals-core';
import {useEffect, useMemo} from 'preact/hooks';
import {ApiError, isAbort} from './api.js';

const WAIT_MAX_MS = 30000;
const LOST_AFTER = 4;

/* How long to wait after so many failures in a row: twice as long each time, at most 30 s (or the period, if that is longer), less up to half. */
export function backoff(failures, everyMs, random = Math.random)
{
    if (failures === 0)
        return everyMs;
    const most = Math.max(everyMs, Math.min(WAIT_MAX_MS, Math.max(everyMs, 1000) * 2 ** Math.min(failures, 20)));
    return most * (1 - random() / 2);
}

/* Whether the gateway answers: 'ok' | 'reconnecting' | 'lost'. One that says no (403, 404) does answer. */
export const connection = signal('ok');
let silent = 0;

export function heard(isAnswer)
{
    silent = isAnswer ? 0 : silent + 1;
    connection.value = silent === 0 ? 'ok' : silent < LOST_AFTER ? 'reconnecting' : 'lost';
}

const polls = new Map();

/* fn({signal}) → value. Gives {value, error, state, at} as signals, again() to ask now, close(). */
export function poll(name, everyMs, fn)
{
    const shared = polls.get(name);
    if (shared) {
        shared.users++;
        return shared;
    }
    const p = {name, users: 1, value: signal(null), error: signal(null), state: signal('loading'), at: signal(0)};
    let timer = 0, failures = 0, asking = null, isClosed = false;

    const done = (value, error) => {
        failures = error ? failures + 1 : 0;
        batch(() => {
            if (!error)
                p.value.value = value;
            p.error.value = error;
            p.state.value = !error ? 'ok' : p.at.peek() ? 'stale' : 'failed';
            if (!error)
                p.at.value = performance.now();
            heard(!error || !(error instanceof ApiError) || error.status !== 0);
        });
    };
    const round = async () => {
        timer = 0;
        if (asking || isClosed || isHidden())
            return;
        asking = new AbortController();
        try {
            done(await fn({signal: asking.signal}), null);
        } catch (e) {
            if (!isAbort(e))
                done(null, e);
        }
        asking = null;
        if (!isClosed && !isHidden())
            timer = setTimeout(round, backoff(failures, everyMs));
    };
    const seen = () => {
        clearTimeout(timer);
        round();
    };
    p.again = seen;
    p.close = () => {
        if (--p.users > 0 || isClosed)
            return;
        isClosed = true;
        polls.delete(name);
        clearTimeout(timer);
        asking?.abort();
        globalThis.document?.removeEventListener('visibilitychange', seen);
    };
    globalThis.document?.addEventListener('visibilitychange', seen);
    polls.set(name, p);
    round();
    return p;
}

const isHidden = () => globalThis.document?.hidden ?? false;

export const pollsOpen = () => [...polls.keys()];
export const pollsFailed = () => [...polls.values()].filter(p => p.error.peek()).map(p => `${p.name}: ${p.error.peek().message}`);

/* As a hook: begins with the component, and anew when the name changes, ends with it. The name must say all that is asked for. */
export function usePoll(name, everyMs, fn)
{
    const p = useMemo(() => poll(name, everyMs, fn), [name, everyMs]);
    useEffect(() => () => p.close(), [p]);
    return p;
}
