/* timeline-lanes.js - which lanes there are: what they are called, which tiles they need, which are there to begin with.
 *
 * A lane is a plain object, kept in the address:
 *
 *     {kind: 'lifelines', ids: 'id', group: '' | 'host', color: 'id' | 'host' | 'status' | 'latency', order: […], hide: […], host, event, where, id}
 *     {kind: 'heat', ids: 'id', pair: 'from>to' or none}
 *     {kind: 'curves', of: [{event, field, isRate}], style: 'line' | 'dots', host, key}
 *     {kind: 'points', event: '*', by: 'event' | 'host' | 'level', where, host}
 *
 * and `title`, `height`, `isFolded` of each. */
import {sql, sqlObjects} from '../api.js';

export const KINDS = [['lifelines', 'Lifelines'], ['curves', 'Loadlines: curves of values'], ['points', 'Points: events by severity'], ['heat', 'Heatmap of hop latency']];
export const LANES_MAX = 24;

/* ---- what events there are ---- */

/* {tables: [{event, table, fields: [column]}], kinds: Map 'event field' → {type, kind, unit}}. table: its name in SQL. A field that came
 * with two types is two columns, id and id:text. */
export async function knownEvents(options)
{
    const [tables, fields] = await Promise.all([
        sqlObjects('SELECT event, name, fields FROM tables ORDER BY event', options),
        sqlObjects('SELECT event, field, type, kind, unit FROM schema_fields', {...options, rows: 100000}).catch(() => []),
    ]);
    const list = tables.map(t => ({event: t.event, table: t.name, fields: t.fields ? t.fields.split(',') : []}));
    await Promise.all(list.filter(t => new Set(t.fields).size < t.fields.length).map(async t => {
        const {columns} = await sql(`SELECT * FROM "${t.table}" LIMIT 0`, options);
        t.fields = columns.filter(c => !['time', 'host', 'prog', 'level'].includes(c));
    }));
    return {tables: list, kinds: new Map(fields.map(f => [f.event + ' ' + f.field, f]))};
}

export const isOwn = event => event.startsWith('lifeline.');

/* Fields of an event that are numbers; all, where nobody knows. */
export const numbersOf = (known, event) => (known.tables.find(t => t.event === event)?.fields ?? []).filter(f => {
    const kind = known.kinds.get(event + ' ' + f);
    return !kind || ['int', 'uint', 'float', 'bool', 'int64', 'uint64', 'float64'].includes(kind.type);
});

export const sourceOf = (known, event, field) => ({event, field, isRate: known.kinds.get(event + ' ' + field)?.kind === 'counter' || undefined});

/* ---- which lanes to begin with ---- */

const WISHES = [
    {title: 'CPU', of: [['vector', 'cpu_user'], ['vector', 'cpu_system']]},
    {title: 'CPU', of: [['cpu', 'user'], ['cpu', 'system']], unless: 'CPU'},
    {title: 'Load', of: [['load', 'load1']], unless: 'CPU'},
    {title: 'Network', of: [['network', 'in_bytes'], ['network', 'out_bytes']]},
    {title: 'TCP retransmits', of: [['tcp', 'retransmits']]},
];

/* Pure. ids: the declaration that lifelines are to be of. */
export function defaultLanes(known, ids = 'id')
{
    const has = (event, field) => known.tables.some(t => t.event === event && t.fields.includes(field));
    const fields = ids.split('@')[0].split('+');
    const lanes = [];
    if (known.tables.some(t => !isOwn(t.event) && fields.every(f => t.fields.includes(f))))
        lanes.push({kind: 'lifelines', ids});
    for (const {title, of, unless} of WISHES) {
        const there = of.filter(([event, field]) => has(event, field));
        if (there.length && !(unless && lanes.some(l => l.title === unless)))
            lanes.push({kind: 'curves', title, of: there.map(([event, field]) => sourceOf(known, event, field))});
    }
    lanes.push({kind: 'points', title: 'Warnings and errors', event: '*', where: "level <= 'warning'"});
    return lanes;
}

/* ---- tiles and names ---- */

const joined = (a, b) => a && b ? `(${a}) AND (${b})` : a || b || undefined;

/* The tile sets of a lane: [{kind, name, params}] */
export function tileSpecs(lane, filter)
{
    const host = lane.host || filter.host || undefined;
    const where = joined(lane.where, filter.where);
    switch (lane.kind) {
    case 'curves':
        return lane.of.map(({event, field}) => ({kind: 'series', name: event, params: {field, host, key: lane.key}}));
    case 'points':
        return [{kind: 'points', name: lane.event || filter.event || '*', params: {host, where, id: lane.id}}];
    default:
        return [{kind: lane.kind === 'heat' ? 'lifeline-density' : 'lifeline', name: lane.ids, params: {host, where, event: lane.event || filter.event || undefined, id: lane.id}}];
    }
}

/* Pixels a bin: lifelines have exact times in wide tiles, so fewer and larger ones do. */
export const pixelsOf = (lane, width) => lane.kind === 'curves' ? width : lane.kind === 'points' ? width / 2 : width / 4;

export function titleOf(lane)
{
    if (lane.title)
        return lane.title;
    const by = lane.where ? ` where ${lane.where}` : '';
    switch (lane.kind) {
    case 'curves': return lane.of.map(s => `${s.event} ${s.field}`).join(', ');
    case 'points': return `Events ${lane.event}${by}`;
    case 'heat': return `Latency of ${lane.pair ? lane.pair.replace('>', ' → ') : 'hops'} (${lane.ids})`;
    default: return `Lifelines of ${lane.ids}${lane.id ? ' = ' + lane.id : ''}${by}`;
    }
}

/* ---- the list of lanes ---- */

export const changed = (lanes, i, part) => lanes.map((l, k) => k === i ? clean({...l, ...part}) : l);
export const without = (lanes, i) => lanes.filter((_, k) => k !== i);

export function shifted(lanes, i, by)
{
    const to = Math.max(0, Math.min(lanes.length - 1, i + by));
    const next = without(lanes, i);
    next.splice(to, 0, lanes[i]);
    return next;
}

const clean = lane => Object.fromEntries(Object.entries(lane).filter(([, v]) => v !== undefined && v !== ''));

/* What an address may have brought: lanes that make sense. */
export function sane(lanes)
{
    if (!Array.isArray(lanes))
        return null;
    const isText = v => v === undefined || typeof v === 'string';
    return lanes.filter(l => l && KINDS.some(([k]) => k === l.kind)
        && (l.kind === 'curves' ? Array.isArray(l.of) && l.of.length > 0 && l.of.every(s => s && typeof s.event === 'string' && typeof s.field === 'string')
                                : l.kind === 'points' ? isText(l.event) : typeof l.ids === 'string')
        && [l.title, l.host, l.where, l.id, l.pair, l.group, l.color].every(isText) && [l.order, l.hide].every(v => v === undefined || Array.isArray(v))).slice(0, LANES_MAX);
}
