/* timeline-details.js - what the drawer shows: a lifeline's hops and events, statistics of an area. And what the pointer is on, as text. */
import {html, useEffect, useState} from '../html.js';
import {isAbort} from '../api.js';
import {go} from '../state.js';
import {formatTime, goTo} from '../time.js';
import {seconds, count, short} from '../format.js';
import {exactNs, baseUs, stepUs} from '../glt1.js';
import {SEVERITIES} from '../palette.js';
import {prepare} from '../scene/lifelines.js';
import {binNs, binOf, binnedSummary} from '../scene/stats.js';
import {streamParts} from '../scene/curves.js';
import {Failed, Loading, Empty} from '../ui/boxes.js';
import {Table} from '../ui/table.js';
import {Button} from '../ui/basic.js';
import {lifelineEvents, lifelineQuery, hopStats, fieldStats, levelCounts} from './timeline-find.js';

/* ---- times, exact ---- */

/* 2026-11-17 22:00:00.123456789, all digits. */
export function exactText(ns)
{
    const us = Number(ns / 1000n);
    return formatTime(us, {digits: 6}) + String(((ns % 1000n) + 1000n) % 1000n).padStart(3, '0');
}

const span = ns => seconds(Number(ns) / 1e9);

/* ---- what is under the pointer ---- */

/* A hit of the scene as facts: {kind, title, id, event, host, ns, us, lines: [[name, value]]}; null where there is nothing to say. */
export function describe(h, stage)
{
    const lane = h.batch.lane, tile = h.batch.tile;
    switch (lane.spec.kind) {
    case 'lifelines':
        return tile.kind === 'lifeline-exact' ? describeHop(h, tile, lane, stage) : describeDensity(h, tile);
    case 'heat':
        return describeDensity(h, tile);
    case 'points':
        return describePoint(h.source, tile);
    default:
        return describeCurve(h.source, lane);
    }
}

/* How far a time of a tile may be off, ns. */
const within = tile => (tile.spanNs >> 32n) + 1n;

function describeHop(h, tile, lane, stage)
{
    const c = tile.columns, p = prepare(tile);
    const at = v => ({event: c.events[p.event[v]], host: c.hosts[c.vertex_host[v]], ns: exactNs(tile, c.vertex_t[v])});
    const l = p.life[h.source], b = at(h.source);
    let before = h.source - 1;
    while (before >= p.start[l] && lane.rows.of(c.events[p.event[before]], c.hosts[c.vertex_host[before]]) < 0)
        before--;
    const a = before >= p.start[l] && h.layer !== 'points' ? at(before) : null;
    const previous = h.source > p.start[l] ? at(h.source - 1) : null;
    const bound = stage?.bounds?.get(b.host)?.boundUs;
    const lines = [['id', c.id[l]], ['event', b.event], ['time', exactText(b.ns) + (bound ? ` ± ${seconds(bound / 1e6)}` : '')], ['host', b.host]];
    if (previous)
        lines.push(['since ' + previous.event, `Δ ${span(b.ns - previous.ns)} (${count(Number(b.ns - previous.ns))} ns)`]);
    if (c.severity[l] <= 4)
        lines.push(['worst level', SEVERITIES[c.severity[l]]]);
    return {kind: 'lifeline', title: a ? `${a.event} → ${b.event}` : b.event, id: c.id[l], event: b.event, host: b.host, ns: b.ns, before: previous?.event, within: within(tile), ids: lane.spec.ids, us: Number(b.ns / 1000n), lines};
}

function describeDensity(h, tile)
{
    const c = tile.columns;
    const pairName = i => c.pair_from[i] === 65535 ? `first ${c.events[c.pair_to[i]]}` : `${c.events[c.pair_from[i]]} → ${c.events[c.pair_to[i]]}`;
    if (h.layer === 'quads') {
        const i = h.source, b = c.latency_bin[i];
        const from = exactNs(tile, c.t[i]);
        const lines = [['hops', count(c.count[i])], ['ended', `${exactText(from)}, within ${span(c.bin_ns[0])}`]];
        if (b !== 255 && c.pair_from[c.pair[i]] !== 65535)
            lines.push(['took', `${seconds(binNs(b) / 1e9)} to ${seconds(binNs(b + 1) / 1e9)}`]);
        return {kind: 'density', title: pairName(c.pair[i]), us: Number(from / 1000n), event: c.events[c.pair_to[c.pair[i]]], lines};
    }
    const i = h.source, ns = exactNs(tile, c.outlier_t[i]);
    const lines = [['id', c.outlier_id[i]], ['time', exactText(ns)], ['host', c.hosts[c.outlier_host[i]]]];
    if (c.outlier_latency_ns[i] >= 0)
        lines.push(['took', seconds(c.outlier_latency_ns[i] / 1e9)]);
    lines.push(['level', SEVERITIES[c.outlier_severity[i]] ?? '']);
    return {kind: 'lifeline', title: pairName(c.outlier_pair[i]), id: c.outlier_id[i], event: c.events[c.pair_to[c.outlier_pair[i]]], host: c.hosts[c.outlier_host[i]], ns, within: within(tile), ids: h.batch.lane.spec.ids,
            us: Number(ns / 1000n), lines};
}

function describePoint(i, tile)
{
    const c = tile.columns, parts = streamParts(c.streams[c.row[i]]), ns = exactNs(tile, c.t[i]);
    const isOne = c.bin_ns[0] === 0n || c.bin_ns[0] === undefined;
    const lines = [['level', SEVERITIES[c.severity[i]] ?? ''], ['time', exactText(ns) + (isOne ? '' : `, within ${span(c.bin_ns[0])}`)], ['host', parts.host], ['program', parts.prog]];
    if (parts.keys)
        lines.push(['key', parts.keys]);
    if (c.id[i])
        lines.push(['id', c.id[i]]);
    if (c.count[i] > 1)
        lines.push(['events', `${count(c.count[i])}; this is the worst of them`]);
    return {kind: 'event', title: parts.name, id: c.id[i] || undefined, event: parts.name, host: parts.host, ns: isOne ? ns : undefined, within: within(tile), us: Number(ns / 1000n), lines};
}

function describeCurve(source, lane)
{
    const [name, curve] = [...lane.curves][source >>> 20] ?? [];
    const i = source & 0xfffff;
    if (!curve)
        return null;
    const lines = [['time', formatTime(curve.time[i], {digits: 6})]];
    if (curve.count[i] > 1 && curve.min[i] !== curve.max[i])
        lines.push(['least', short(curve.min[i])], ['greatest', short(curve.max[i])], ['first, last', `${short(curve.first[i])}, ${short(curve.last[i])}`]);
    else
        lines.push(['value', short(curve.last[i])]);
    lines.push(['readings', count(curve.count[i])]);
    return {kind: 'value', title: name, us: curve.time[i], lines};
}

/* ---- a lifeline ---- */

const HOP_COLUMNS = [
    {id: 'time', label: 'Time', value: r => r.text, width: '18em'},
    {id: 'event', label: 'Event', value: r => r.event},
    {id: 'host', label: 'Host', value: r => r.host},
    {id: 'prog', label: 'Program', value: r => r.prog},
    {id: 'level', label: 'Level', value: r => r.level},
    {id: 'took', label: 'Since the one before', value: r => r.took, cell: r => r.took === null ? '' : seconds(r.took / 1e9), end: true},
    {id: 'p50', label: 'Usual (p50)', value: r => r.p50, cell: r => r.p50 === undefined ? '' : seconds(r.p50 / 1e9), end: true, hint: 'The same hop of other ids in the range'},
    {id: 'p99', label: 'p99', value: r => r.p99, cell: r => r.p99 === undefined ? '' : seconds(r.p99 / 1e9), end: true},
    {id: 'fields', label: 'Fields', value: r => r.fields.map(([k, v]) => `${k}=${v}`).join(' '), width: '28%'},
];

function useAsked(ask, deps)
{
    const [state, setState] = useState({});
    const [turn, setTurn] = useState(0);
    useEffect(() => {
        const abort = new AbortController();
        setState({isBusy: true});
        ask({signal: abort.signal}).then(value => setState({value}), error => isAbort(error) || setState({error}));
        return () => abort.abort();
    }, [...deps, turn]);
    return {...state, again: () => setTurn(turn + 1)};
}

export function LifelineDetails({known, ids, id, events, from, to})
{
    const reach = Math.max(to - from, 60e6);
    const {value, error, isBusy, again} = useAsked(options => lifelineEvents(known, ids, id, events, {from: from - reach, to: to + reach}, options), [ids, id]);
    const similar = useAsked(options => hopStats(known, {ids, events, from, to, before: to - from}, options), [ids, id]);
    if (error)
        return html`<${Failed} error=${error} again=${again} />`;
    if (isBusy || !value)
        return html`<${Loading} title=${'The events of ' + id + ' …'} />`;
    if (!value.length)
        return html`<${Empty} title="No events of this id"><p>Not within a range's width around what is seen; they may have gone from the archive.</p><//>`;
    const usual = new Map((similar.value ?? []).map(s => [s.a + '\u0000' + s.b, s]));
    const rows = value.map((e, i) => {
        const before = value[i - 1], stats = before && usual.get(before.event + '\u0000' + e.event);
        return {...e, text: exactText(e.ns), took: before ? Number(e.ns - before.ns) : null, p50: stats?.p50, p99: stats?.p99};
    });
    const all = Number(value.at(-1).ns - value[0].ns);
    return html`<div class="tl-details">
        <p class="tl-summary"><strong>${id}</strong> ${rows.length} events, ${seconds(all / 1e9)} in all.
            ${similar.isBusy ? ' Comparing with others …' : similar.error ? ' Others could not be compared with: ' + similar.error.message : ''}
            <${Button} onClick=${() => go('sql', {q: lifelineQuery(known, ids, id, events)})}>As SQL<//></p>
        <${Table} label=${'Hops of ' + id} columns=${HOP_COLUMNS} rows=${rows} rowKey=${r => r.event + r.ns} rowClass=${r => r.p99 !== undefined && r.took > r.p99 ? 'tl-slow' : ''}
            onOpen=${r => goTo(Number(r.ns / 1000n))} max=${14} />
    </div>`;
}

/* ---- an area ---- */

const STAT_COLUMNS = isTime => {
    const show = isTime ? v => seconds(v / 1e9) : short;
    const stat = (id, label) => ({id, label, value: r => r[id], cell: r => show(r[id]), end: true});
    return [{id: 'what', label: isTime ? 'Hop' : 'What', value: r => r.what, width: '28%'}, {id: 'count', label: 'Count', value: r => r.count, cell: r => count(r.count), end: true},
            stat('min', 'Min'), stat('mean', 'Mean'), stat('max', 'Max'), stat('p50', 'p50'), stat('p95', 'p95'), stat('p99', 'p99')];
};
const HOPS = STAT_COLUMNS(true), VALUES = STAT_COLUMNS(false);

/* Per hop, of density tiles: to within a fifth. Pure. */
export function densityStats(entries, {from, to})
{
    const pairs = new Map();
    for (const {tile} of entries) {
        if (tile.kind === 'lifeline-exact')
            addExact(tile, from, to, pairs);
        if (tile.kind !== 'lifeline-density')
            continue;
        const c = tile.columns, base = baseUs(tile), step = stepUs(tile);
        for (let i = 0; i < c.pair.length; i++) {
            const us = base + c.t[i] * step, pair = c.pair[i];
            if (us < from || us >= to || c.pair_from[pair] === 65535 || c.pair_late[pair] || c.latency_bin[i] === 255)
                continue;
            add(pairs, c.events[c.pair_from[pair]], c.events[c.pair_to[pair]], c.latency_bin[i], c.count[i]);
        }
    }
    return [...pairs].map(([what, counts]) => ({what, ...binnedSummary(counts)})).sort((a, b) => b.count - a.count);
}

function add(pairs, from, to, bin, n)
{
    const key = `${from} → ${to}`;
    const counts = pairs.get(key) ?? new Array(252).fill(0);
    counts[bin] += n;
    pairs.set(key, counts);
}

function addExact(tile, from, to, pairs)
{
    const c = tile.columns, p = prepare(tile), base = baseUs(tile), step = stepUs(tile);
    for (let l = 0; l + 1 < p.start.length; l++) {
        for (let v = p.start[l] + 1; v < p.start[l + 1]; v++) {
            const us = base + c.vertex_t[v] * step;
            if (us >= from && us < to)
                add(pairs, c.events[p.event[v - 1]], c.events[p.event[v]], binOf((c.vertex_t[v] - c.vertex_t[v - 1]) * step * 1000), 1);
        }
    }
}

async function laneStats(lane, from, to, known, options)
{
    const {spec} = lane;
    if (spec.kind === 'curves') {
        const rows = await Promise.all(spec.of.map(async s => (await fieldStats(known, {...s, from, to, host: spec.host}, options)).map(r => ({...r, what: `${s.event} ${s.field} ${r.host ?? ''}`}))));
        return {rows: rows.flat(), columns: VALUES, note: spec.of.some(s => s.isRate) ? 'Of the counters’ readings themselves, not of what they gain a second.' : ''};
    }
    if (spec.kind === 'points') {
        const events = [...new Set((lane.entries[0] ?? []).flatMap(e => e.tile.columns.streams.map(s => streamParts(s).name)))];
        const rows = await levelCounts(known, events, {from, to}, options);
        return {levels: rows};
    }
    const events = lane.rows?.names.length && !lane.rows.isGrouped ? lane.rows.names : lane.order;
    try {
        const rows = await hopStats(known, {ids: spec.ids, events, from, to, before: Math.max(to - from, 1e6)}, options);
        return {rows: rows.map(r => ({...r, what: `${r.a} → ${r.b}`})), columns: HOPS, note: 'Exact: from every event.'};
    } catch (e) {
        if (isAbort(e) || ![422, 504].includes(e.status))
            throw e;
        return {rows: densityStats(lane.entries[0] ?? [], {from, to}), columns: HOPS, note: 'Approximate, to within a fifth: there are too many events to look at each.'};
    }
}

export function AreaDetails({known, lanes, from, to, titles})
{
    const {value, error, again} = useAsked(options => Promise.all(lanes.map(l => laneStats(l, from, to, known, options).catch(e => {
        if (isAbort(e))
            throw e;
        return {error: e};
    }))), [from, to, lanes.map(l => l.tilesKey).join()]);
    if (error)
        return html`<${Failed} error=${error} again=${again} />`;
    if (!value)
        return html`<${Loading} title="Counting …" />`;
    return html`<div class="tl-details"><p class="tl-summary">${formatTime(from, {digits: 6})} – ${formatTime(to, {digits: 6, date: false})}, ${seconds((to - from) / 1e6)}</p>
        ${value.map((v, i) => html`<section key=${i}><h3>${titles[i]}</h3>
            ${v.error ? html`<${Failed} error=${v.error} />`
                : v.levels ? html`<${Table} label=${titles[i]} rows=${v.levels} max=${8} empty="No events." columns=${[{id: 'event', label: 'Event', value: r => r.event},
                    {id: 'level', label: 'Level', value: r => r.level}, {id: 'count', label: 'Count', value: r => r.count, cell: r => count(r.count), end: true}]} />`
                : html`<${Table} label=${titles[i]} columns=${v.columns} rows=${v.rows} max=${12} empty="Nothing in this time." />`}
            ${v.note && v.rows?.length > 0 && html`<p class="note">${v.note}</p>`}</section>`)}
    </div>`;
}
