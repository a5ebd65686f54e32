/* timeline-find.js - what the timeline asks by SQL: the events of a lifeline, statistics of an area, the next error, clocks. */
import {sql, sqlObjects, quote} from '../api.js';

const TABLES_MAX = 48; /* SELECTs of one UNION: 64 are allowed */

export const name = text => '"' + String(text).replaceAll('"', '""') + '"';
const ns = us => String(BigInt(Math.round(us)) * 1000n);

/* 'job+task@gridftp.*' → ['job', 'task'] */
export const idFields = ids => ids.split('@')[0].split('+').map(s => s.trim()).filter(Boolean);

/* The values of an id of a tile: 'a+b', with \ before a + or \ of a value. */
export function idValues(id, fields)
{
    if (fields.length === 1)
        return [id];
    const out = [''];
    for (let i = 0; i < id.length; i++) {
        if (id[i] === '\\' && i + 1 < id.length)
            out[out.length - 1] += id[++i];
        else if (id[i] === '+')
            out.push('');
        else
            out[out.length - 1] += id[i];
    }
    return out;
}

/* The table of an event: {sql: its name, columns(field) → the columns that a field has, one for each type}. */
export function tableOf(known, event)
{
    const t = known?.tables.find(k => k.event === event);
    return {event, sql: name(t?.table ?? event), columns: field => t ? t.fields.filter(f => f === field || f.startsWith(field + ':')) : [field]};
}

/* The tables of events that have all the fields of an id. */
const tablesOf = (known, events, ids) => events.map(e => tableOf(known, e)).filter(t => idFields(ids).every(f => t.columns(f).length)).slice(0, TABLES_MAX);

/* A field's value in a tile is a text; in its table it may be a number. */
const isValue = (column, value) => /^-?(0|[1-9]\d{0,17})$/.test(value) ? `${name(column)} IN (${value}, ${quote(value)})` : `${name(column)} = ${quote(value)}`;

export function whereId(table, ids, id)
{
    const fields = idFields(ids), values = idValues(id, fields);
    return fields.map((f, i) => {
        const any = table.columns(f).map(column => isValue(column, values[i] ?? '')).join(' OR ');
        return table.columns(f).length > 1 ? `(${any})` : any || '0';
    }).join(' AND ');
}

const fieldText = (table, field) => {
    const texts = table.columns(field).map(c => `CAST(${name(c)} AS TEXT)`);
    return texts.length > 1 ? `coalesce(${texts.join(', ')})` : texts[0];
};
const idText = (table, ids) => idFields(ids).map(f => fieldText(table, f)).join(" || '+' || ");

/* ---- one lifeline ---- */

/* All events of one id: [{event, ns, host, prog, level, fields: [[name, value]]}], in order. events: names that it may have. */
export async function lifelineEvents(known, ids, id, events, {from, to}, options)
{
    const answers = await Promise.all(tablesOf(known, events, ids).map(table =>
        sql(`SELECT CAST(time AS TEXT) AS "$time", * FROM ${table.sql} WHERE ${whereId(table, ids, id)} AND time BETWEEN ${ns(from)} AND ${ns(to)} ORDER BY time LIMIT 500`, options)
            .then(a => rowsOf(table.event, a))));
    return answers.flat().sort((a, b) => a.ns < b.ns ? -1 : a.ns > b.ns ? 1 : 0);
}

/* The same as one query, for people. */
export const lifelineQuery = (known, ids, id, events) => tablesOf(known, events, ids)
    .map(t => `SELECT time_text(time) AS time, ${quote(t.event)} AS event, host, level FROM ${t.sql} WHERE ${whereId(t, ids, id)}`).join('\nUNION ALL ') + '\nORDER BY 1';

function rowsOf(event, {columns, rows})
{
    const at = n => columns.indexOf(n);
    return rows.map(row => ({event, ns: BigInt(row[0]), host: row[at('host')], prog: row[at('prog')], level: row[at('level')],
                             fields: columns.map((c, i) => [c, row[i]]).filter(([c, v], i) => i > 0 && v !== null && !['time', 'host', 'prog', 'level'].includes(c))}));
}

/* One event, with all its fields. A tile's times are rounded to `within` ns; the nearest is meant. */
export async function oneEvent(known, event, {ns: at, within, ids, id}, options)
{
    const table = tableOf(known, event);
    const own = id !== undefined && ids ? ' AND ' + whereId(table, ids, id) : '';
    const answer = await sql(`SELECT CAST(time AS TEXT) AS "$time", * FROM ${table.sql} WHERE time BETWEEN ${at - within} AND ${at + within}${own} ORDER BY abs(time - ${at}) LIMIT 1`, options);
    return rowsOf(event, answer)[0] ?? null;
}

/* ---- hops ---- */

/* Per hop count, min, mean, max, p50, p95, p99 (ns), of the hops that end in a time; hops may have begun up to `before` µs earlier. */
export function hopQuery(known, {ids, events, from, to, before})
{
    const tables = tablesOf(known, events, ids).map(t => `SELECT ${quote(t.event)} AS e, ${idText(t, ids)} AS i, time AS t FROM ${t.sql} WHERE time >= ${ns(from - before)} AND time < ${ns(to)}`);
    return `SELECT a, e AS b, count(*) AS count, min(d) AS min, avg(d) AS mean, max(d) AS max, percentile(d, 50) AS p50, percentile(d, 95) AS p95, percentile(d, 99) AS p99
FROM (SELECT e, t, lag(e) OVER w AS a, t - lag(t) OVER w AS d FROM (${tables.join('\nUNION ALL ')}) WHERE i IS NOT NULL WINDOW w AS (PARTITION BY i ORDER BY t))
WHERE a IS NOT NULL AND t >= ${ns(from)} GROUP BY a, e ORDER BY count(*) DESC LIMIT 200`;
}

export const hopStats = async (known, spec, options) => tablesOf(known, spec.events, spec.ids).length ? sqlObjects(hopQuery(known, spec), {...options, time: '20s'}) : [];

/* Per host the same of a field. */
export function fieldStats(known, {event, field, from, to, host}, options)
{
    const f = name(field), table = tableOf(known, event);
    return sqlObjects(`SELECT host, count(${f}) AS count, min(${f}) AS min, avg(${f}) AS mean, max(${f}) AS max, percentile(${f}, 50) AS p50, percentile(${f}, 95) AS p95,
percentile(${f}, 99) AS p99 FROM ${table.sql} WHERE time >= ${ns(from)} AND time < ${ns(to)}${host ? ` AND host GLOB ${quote(host)}` : ''} GROUP BY host ORDER BY host LIMIT 200`, {...options, time: '20s'});
}

/* How many events of each level there are of some events. */
export async function levelCounts(known, events, {from, to}, options)
{
    if (!events.length)
        return [];
    const tables = events.slice(0, TABLES_MAX).map(e => `SELECT ${quote(e)} AS event, level, count(*) AS count FROM ${tableOf(known, e).sql} WHERE time >= ${ns(from)} AND time < ${ns(to)} GROUP BY level`);
    return sqlObjects(`${tables.join('\nUNION ALL ')} ORDER BY count DESC`, {...options, time: '20s'});
}

/* ---- the next one ---- */

/* The first event after a time (dir 1) or the last before it (−1) that meets a condition, over the given tables: {event, ns, host, level} or null. What
 * is looked at grows: 16 times as much each time, so that what is near is found soon. */
export async function nextEvent(known, events, atNs, dir, {where = '', spanUs, firstUs, lastUs}, options)
{
    const atUs = Number(atNs / 1000n);
    const list = events.slice(0, TABLES_MAX);
    if (!list.length)
        return null;
    for (let reach = spanUs, from = null; ; reach *= 16) {
        const end = dir > 0 ? Math.min(lastUs, atUs + reach) : Math.max(firstUs, atUs - reach);
        const near = from === null ? String(atNs) : ns(from);
        const time = dir > 0 ? `time > ${near} AND time <= ${ns(end)}` : `time >= ${ns(end)} AND time < ${near}`;
        const tables = list.map(e => `SELECT * FROM (SELECT ${quote(e)} AS event, CAST(time AS TEXT) AS at, time AS t, host, level FROM ${tableOf(known, e).sql} WHERE ${time}${where ? ' AND ' + where : ''} ORDER BY time ${dir > 0 ? '' : 'DESC'} LIMIT 1)`);
        const found = await sqlObjects(`SELECT event, at, host, level FROM (${tables.join('\nUNION ALL ')}) ORDER BY t ${dir > 0 ? '' : 'DESC'} LIMIT 1`, {...options, time: '20s'});
        if (found.length)
            return {event: found[0].event, ns: BigInt(found[0].at), host: found[0].host, level: found[0].level};
        if (dir > 0 ? end >= lastUs : end <= firstUs)
            return null;
        from = end;
    }
}

export const IS_ERROR = "severity(level) <= severity('error')";

/* From when on there is anything. */
export async function archiveStart(options)
{
    const {rows} = await sql('SELECT min(from_time) / 1000 FROM partitions', options);
    return rows[0]?.[0] ?? null;
}

/* ---- clocks ---- */

/* What the clocks of hosts were corrected by, and how far off that may be: Map host → {offsetUs, boundUs or null}. */
export async function clockOffsets(known, events, {from, to}, options)
{
    const out = new Map();
    if (!events.length)
        return out;
    const tables = events.slice(0, TABLES_MAX).map(e => `SELECT host, clock_offset AS o, clock_bound AS b, max(time) AS t FROM ${tableOf(known, e).sql} WHERE time >= ${ns(from)} AND time < ${ns(to)} GROUP BY host`);
    const rows = await sqlObjects(`SELECT host, o, b, max(t) FROM (${tables.join('\nUNION ALL ')}) GROUP BY host`, options);
    for (const row of rows)
        out.set(row.host, {offsetUs: (row.o ?? 0) / 1000, boundUs: row.b === null ? null : row.b / 1000});
    return out;
}
