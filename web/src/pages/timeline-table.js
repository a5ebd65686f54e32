/* timeline-table.js - the table twin: what the canvas shows, as rows. */
import {html, useMemo} from '../html.js';
import {goTo} from '../time.js';
import {seconds, count, short} from '../format.js';
import {baseUs, stepUs, exactNs} from '../glt1.js';
import {formatTime} from '../time.js';
import {SEVERITIES} from '../palette.js';
import {prepare} from '../scene/lifelines.js';
import {binNs} from '../scene/stats.js';
import {Table} from '../ui/table.js';
import {exactText} from './timeline-details.js';

const ROWS_MAX = 20000;

/* Rows of a lane within a time, at most ROWS_MAX: {columns, rows, all}. */
export function rowsOfLane(lane, {from, to})
{
    const rows = [];
    let all = 0;
    const put = row => {
        if (all++ < ROWS_MAX)
            rows.push(row);
    };
    const isIn = us => us >= from && us < to;
    if (lane.spec.kind === 'curves') {
        for (const [name, c] of lane.curves ?? []) {
            c.time.forEach((us, i) => isIn(us) && put({key: name + us, us, time: formatTime(us, {digits: 3}), name, min: c.min[i], max: c.max[i], last: c.last[i], count: c.count[i]}));
        }
        return {rows, all, columns: CURVE};
    }
    const seen = new Set();
    for (const {tile} of lane.entries[0] ?? []) {
        if (seen.has(tile))
            continue;
        seen.add(tile);
        if (tile.kind === 'points')
            pointRows(tile, isIn, put);
        else if (tile.kind === 'lifeline-exact')
            hopRows(tile, isIn, put);
        else
            densityRows(tile, isIn, put);
    }
    rows.sort((a, b) => a.us - b.us);
    return {rows, all, columns: lane.spec.kind === 'points' ? POINTS : rows.some(r => r.id !== undefined) ? EVENTS : DENSITY};
}

function pointRows(tile, isIn, put)
{
    const c = tile.columns, base = baseUs(tile), step = stepUs(tile);
    for (let i = 0; i < c.t.length; i++) {
        const us = base + c.t[i] * step;
        if (isIn(us))
            put({key: tile.index + '.' + i, us, time: exactText(exactNs(tile, c.t[i])), stream: c.streams[c.row[i]], level: SEVERITIES[c.severity[i]], id: c.id[i], count: c.count[i]});
    }
}

function hopRows(tile, isIn, put)
{
    const c = tile.columns, p = prepare(tile), base = baseUs(tile), step = stepUs(tile);
    for (let v = 0; v < c.vertex_t.length; v++) {
        const us = base + c.vertex_t[v] * step, l = p.life[v];
        if (!isIn(us) || c.vertex_t[v] < 2 ** 30)
            continue;
        put({key: tile.index + '.' + v, us, time: exactText(exactNs(tile, c.vertex_t[v])), id: c.id[l], event: c.events[p.event[v]], host: c.hosts[c.vertex_host[v]],
             took: v > p.start[l] ? (c.vertex_t[v] - c.vertex_t[v - 1]) * step / 1e6 : null, level: SEVERITIES[c.severity[l]]});
    }
}

function densityRows(tile, isIn, put)
{
    const c = tile.columns, base = baseUs(tile), step = stepUs(tile);
    for (let i = 0; i < c.t.length; i++) {
        const us = base + c.t[i] * step, pair = c.pair[i];
        if (isIn(us))
            put({key: tile.index + '.' + i, us, time: formatTime(us, {digits: 6}), hop: (c.pair_from[pair] === 65535 ? 'first ' : c.events[c.pair_from[pair]] + ' → ') + c.events[c.pair_to[pair]],
                 low: c.latency_bin[i] === 255 ? null : binNs(c.latency_bin[i]) / 1e9, count: c.count[i]});
    }
}

const TIME = {id: 'time', label: 'Time', value: r => r.time, width: '17em'};
const COUNT = {id: 'count', label: 'Count', value: r => r.count, cell: r => count(r.count), end: true};
const EVENTS = [TIME, {id: 'id', label: 'Id', value: r => r.id}, {id: 'event', label: 'Event', value: r => r.event}, {id: 'host', label: 'Host', value: r => r.host},
                {id: 'took', label: 'Since the one before', value: r => r.took, cell: r => r.took === null ? '' : seconds(r.took), end: true}, {id: 'level', label: 'Worst level', value: r => r.level}];
const DENSITY = [TIME, {id: 'hop', label: 'Hop', value: r => r.hop}, {id: 'low', label: 'Took from', value: r => r.low, cell: r => r.low === null ? '' : seconds(r.low), end: true}, COUNT];
const POINTS = [TIME, {id: 'level', label: 'Level', value: r => r.level}, {id: 'stream', label: 'Stream', value: r => r.stream, width: '35%'}, {id: 'id', label: 'Id', value: r => r.id}, COUNT];
const CURVE = [TIME, {id: 'name', label: 'Curve', value: r => r.name}, ...['min', 'max', 'last'].map(id => ({id, label: id, value: r => r[id], cell: r => short(r[id]), end: true})), COUNT];

export function LaneTable({lane, title, range, version})
{
    const {rows, all, columns} = useMemo(() => rowsOfLane(lane, range), [lane, version, range.from, range.to]);
    return html`<section class="tl-twin"><h2>${title} <span class="note">${all > rows.length ? `the first ${count(rows.length)} of ${count(all)}` : count(all)} rows</span></h2>
        <${Table} label=${title} columns=${columns} rows=${rows} rowKey=${r => r.key} onOpen=${r => goTo(r.us)} max=${16} empty="Nothing in this range." /></section>`;
}
