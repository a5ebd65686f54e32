/* api.js - questions to the gateway, by /api/v1 (docs/http.md). All return promises, take {signal}, and throw ApiError. */
import {signal} from '@preact/signals-core';
import {tellClock} from './time.js';

const BASE = '/api/v1/';

export class ApiError extends Error {
    /* status 0: the gateway did not answer. `detail` says what, and what next; `request` is its number in the gateway's log. */
    constructor({status = 0, title = '', detail = '', request = null})
    {
        super(detail || title || 'the gateway does not answer');
        Object.assign(this, {name: 'ApiError', status, title, detail, request});
    }
}

/* Who we are, and whether that is enough: {state: 'unknown' | 'in' | 'out', who, may: Set of actions} */
export const who = signal({state: 'unknown', who: '', may: new Set()});

/* Requests under way, for idle() and tests. */
export const traffic = {open: 0, asked: 0, bytes: 0, failed: 0};

export const isAbort = e => e?.name === 'AbortError';

async function problemOf(response)
{
    let problem = {};
    try {
        problem = await response.json();
    } catch {
        /* no problem+json: the status has to do */
    }
    return new ApiError({status: response.status, title: problem.title ?? response.statusText, detail: problem.detail ?? '',
                         request: problem.request ?? response.headers.get('Gridline-Request')});
}

/* One request; the response if it is a success. */
export async function request(path, {signal: abort, method = 'GET', body, headers = {}, cache, priority} = {})
{
    traffic.open++;
    traffic.asked++;
    try {
        const response = await fetch(BASE + path, {
            method, signal: abort, cache, priority, credentials: 'same-origin',
            headers: body === undefined ? headers : {'Content-Type': 'application/json', ...headers},
            body: body === undefined ? undefined : JSON.stringify(body),
        });
        if (!response.ok)
            throw await problemOf(response);
        return response;
    } catch (e) {
        if (isAbort(e))
            throw e;
        traffic.failed++;
        if (e instanceof ApiError) {
            if (e.status === 401)
                who.value = {state: 'out', who: '', may: new Set()};
            throw e;
        }
        throw new ApiError({title: 'no answer', detail: 'The gateway does not answer: it is down, or the network between is. Trying again.'});
    } finally {
        traffic.open--;
    }
}

async function json(path, options)
{
    const response = await request(path, options);
    try {
        return await response.json();
    } catch (e) {
        if (isAbort(e))
            throw e;
        throw new ApiError({status: response.status, title: 'an answer that is no JSON', detail: 'The answer was cut off. Trying again.'});
    }
}

function queryOf(params)
{
    const given = Object.entries(params ?? {}).filter(([, v]) => v !== undefined && v !== null && v !== '');
    return given.length ? '?' + new URLSearchParams(given) : '';
}

/* ---- SQL ---- */

/* → {columns, rows: [[…]], lost, notices: [{code, text}], where there are any}. Integers beyond 2^53 are rounded by JSON: CAST(time AS TEXT) where all digits count. */
export async function sql(query, {signal: abort, rows = 10000, time = '30s'} = {})
{
    const answer = await json('sql?format=json', {signal: abort, method: 'POST', body: {q: query, rows, time}});
    if (answer.error)
        throw new ApiError({status: 200, title: 'the query broke off', detail: typeof answer.error === 'string' ? answer.error : answer.error.detail});
    return answer;
}

export async function sqlObjects(query, options)
{
    const {columns, rows} = await sql(query, options);
    return rows.map(row => Object.fromEntries(columns.map((name, i) => [name, row[i]])));
}

const there = new Set(); /* tables that have been seen */

/* Rows of a query of a table that may not be there yet: its first event makes it, and till then there are none. */
export async function sqlOnce(table, query, options)
{
    if (!there.has(table)) {
        const {rows} = await sql(`SELECT 1 FROM tables WHERE name = ${quote(table)}`, options);
        if (rows.length === 0)
            return [];
        there.add(table);
    }
    try {
        return await sqlObjects(query, options);
    } catch (e) {
        there.delete(table); /* it may be another archive by now */
        throw e;
    }
}

export const quote = text => "'" + String(text).replaceAll("'", "''") + "'";

/* ---- directory and orders ---- */

const PAGES_MAX = 64;

/* Rows of a question by GET, to the end: the gateway stops an answer at 4 MiB. */
async function rowsOf(path, params, {signal: abort} = {})
{
    let rows = [], after = params?.after, end;
    for (let i = 0; i < PAGES_MAX; i++) {
        const answer = await json(path + queryOf({...params, after}), {signal: abort});
        rows = rows.length ? rows.concat(answer.rows) : answer.rows;
        end = answer.end;
        after = end?.next;
        if (!after)
            break;
    }
    return {rows, end};
}

/* kind: '' (sensors), 'hosts', 'schemas', 'ledger', 'status', 'subscriptions' */
export const directory = async (kind, params, options) => (await rowsOf('directory' + (kind ? '/' + kind : ''), params, options)).rows;
export const latest = async (params, options) => (await rowsOf('latest', params, options)).rows;
export const summary = async (params, options) => (await rowsOf('summary', params, options)).rows;

/* Asks a verb (docs/protocol.md): → {rows, end}. Orders wait for the workers' answers, so give `timeout_ms` in args. */
export const control = (verb, args = {}, options = {}) => json('control', {...options, method: 'POST', body: {verb, args}});
export const ask = control;

/* What comes line by line, some lines at a time: onRows([row, …]); → end. For orders, whose rows are the workers' answers, and, with format=columns, for
 * answers of any length: then what comes is blocks of rows. */
export async function rowsAsTheyCome(path, {onRows, ...options})
{
    const response = await request(path, options);
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = '', end = null;
    const take = text => {
        const rows = JSON.parse('[' + text.trim().replaceAll('\n', ',') + ']'); /* a row a line; within texts it is \\n */
        if (rows.at(-1)?.end)
            end = rows.pop().end;
        if (rows.length)
            onRows(rows);
    };
    for (;;) {
        const {value, done} = await reader.read();
        if (done)
            break;
        const cut = value.lastIndexOf('\n');
        if (cut < 0) {
            rest += value;
            continue;
        }
        take(rest + value.slice(0, cut));
        rest = value.slice(cut + 1);
    }
    if (rest.trim())
        take(rest);
    if (!end)
        throw new ApiError({status: response.status, title: 'an answer without an end', detail: 'The answer was cut off: not all of it is here.'});
    return end;
}

export const orders = (verb, args, {onRows, signal: abort}) => rowsAsTheyCome('control?format=ndjson', {method: 'POST', body: {verb, args}, onRows, signal: abort});

/* ---- who we are ---- */

/* Who we are. Sets `who`. */
export async function whoAmI(options)
{
    const s = await json('session', options);
    const may = new Set(s.may);
    who.value = {state: may.has('query') ? 'in' : 'out', who: s.who ?? '', version: s.version ?? '', isSession: s.signed_in === true, may};
    return who.value;
}

/* What the asker may do here: rows of the access table, by action. */
export const access = async options => (await json('access', options)).rows;

/* Swaps a one-time key for a cookie. */
export const session = (key, options) => request('session', {...options, method: 'POST', body: {key}});
export const signOut = options => request('session', {...options, method: 'DELETE'});

export const may = action => who.value.may.has(action);

/* The gateway's clock: asked for now and then, by the frame. */
export async function askClock(options)
{
    const sent = performance.now();
    const {rows} = await sql("SELECT at('now') / 1000", options);
    tellClock(sent, performance.now(), rows[0][0]);
}
