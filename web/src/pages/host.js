/* host.js - the page Host: how one host does, or several beside each other; what it is, its sensors and its faults. */
import './host.css';
import {html, useMemo, useState} from '../html.js';
import {Lazy} from '../ui/lazy.js';
import {view, go, setOptions, setFilter} from '../state.js';
import {directory, sqlObjects, quote} from '../api.js';
import {usePoll} from '../poll.js';
import {useSeries} from '../series.js';
import {now, formatTime} from '../time.js';
import {bytes, count, number, percent, seconds, short, ago} from '../format.js';
import {Button, Chip, Field, Panel, State} from '../ui/basic.js';
import {Empty, Polled} from '../ui/boxes.js';
import {Chart} from '../ui/chart.js';
import {Table} from '../ui/table.js';
import {showDetails, Fields} from '../frame/drawer.js';

const HOSTS_MAX = 12; /* beside each other */
const SMALL = 24;     /* hosts whose curves come in one tile */
const bytesPerSecond = v => bytes(v) + '/s';
const perSecond = v => short(v) + '/s';
const rateOf = (event, field, label, more = {}) => ({event, field, label, rate: true, ...more});
const gaugeOf = (event, field, label, more = {}) => ({event, field, label, ...more});
const busy = v => Math.min(100, v / 10); /* milliseconds a second */
const isOutside = s => s.key !== 'interface=lo';
const isRealMount = s => !/mount=(\/proc|\/sys|\/dev|\/run|\/tmp\/)|type=(tmpfs|overlay|squashfs)/.test(s.key);
const keyOnly = s => s.key.replace(/^[a-z]+=/, '').replace(/,.*/, '');

/* The charts. `parts` are of one host, `several` is the one curve (or one a device) of each where there are more. */
const CHARTS = [
    {title: 'CPU', format: percent, max: 100, isStacked: true, isShare: true,
     parts: [['user', 'user'], ['nice', 'nice'], ['system', 'system'], ['softirq', 'interrupts'], ['iowait', 'waiting for disks'], ['steal', 'stolen'], ['idle', null]]
         .map(([field, label]) => rateOf('cpu', field, label ?? field, {key: 'cpu=all', isRest: label === null})),
     several: gaugeOf('vector', 'cpu_idle', null, {map: v => 100 - v})},
    {title: 'Load', format: number,
     parts: [gaugeOf('load', 'load1', '1 min', {fill: true}), gaugeOf('load', 'load5', '5 min'), gaugeOf('load', 'load15', '15 min')],
     several: gaugeOf('load', 'load1', null)},
    {title: 'Memory', format: bytes, isStacked: true, top: h => h.memory,
     parts: [gaugeOf('memory', 'anon', 'programs'), gaugeOf('memory', 'slab', 'kernel'), gaugeOf('memory', 'cached', 'cache'),
             gaugeOf('memory', 'buffers', 'buffers'), gaugeOf('memory', 'free', 'free', {color: 'off'})],
     several: gaugeOf('memory', 'available', null), severalNote: 'available'},
    {title: 'Pressure', note: 'time that something waited, of 10 s', format: percent, max: 10,
     parts: ['cpu', 'memory', 'io'].map(r => gaugeOf('pressure', 'some_avg10', r, {key: 'resource=' + r})),
     several: gaugeOf('pressure', 'some_avg10', null, {key: 'resource=cpu'})},
    {title: 'Disk read', format: bytesPerSecond, parts: [rateOf('disk', 'read_bytes', null)], several: rateOf('disk', 'read_bytes', null)},
    {title: 'Disk write', format: bytesPerSecond, parts: [rateOf('disk', 'write_bytes', null)], several: rateOf('disk', 'write_bytes', null)},
    {title: 'Disk busy', format: percent, max: 100,
     parts: [rateOf('disk', 'busy_time', null, {map: busy})], several: rateOf('disk', 'busy_time', null, {map: busy})},
    {title: 'Network in', format: bytesPerSecond,
     parts: [rateOf('network', 'in_bytes', null, {pick: isOutside})], several: rateOf('network', 'in_bytes', null, {pick: isOutside})},
    {title: 'Network out', format: bytesPerSecond,
     parts: [rateOf('network', 'out_bytes', null, {pick: isOutside})], several: rateOf('network', 'out_bytes', null, {pick: isOutside})},
    {title: 'Packets discarded', format: perSecond, max: 1,
     parts: [rateOf('ip', 'in_discards', 'in'), rateOf('ip', 'out_discards', 'out'), rateOf('udp', 'receive_buffer_errors', 'UDP: buffers full')],
     several: rateOf('ip', 'in_discards', null), severalNote: 'in'},
    {title: 'TCP retransmits', format: perSecond, max: 1,
     parts: [rateOf('tcp', 'retransmits', 'retransmits', {fill: true}), rateOf('tcp', 'timeouts', 'timeouts'), rateOf('tcp', 'resets', 'resets')],
     several: rateOf('tcp', 'retransmits', null)},
    {title: 'TCP connections', format: short,
     parts: [gaugeOf('tcp', 'established', 'established', {fill: true})], several: gaugeOf('tcp', 'established', null)},
    {title: 'Processes', format: short,
     parts: [gaugeOf('load', 'processes', 'processes'), gaugeOf('load', 'running', 'running')], several: gaugeOf('load', 'processes', null)},
    {title: 'Context switches', format: perSecond,
     parts: [rateOf('cpu.system', 'switches', 'switches', {fill: true}), rateOf('cpu.system', 'interrupts', 'interrupts')],
     several: rateOf('cpu.system', 'switches', null)},
    {title: 'Page faults', format: perSecond,
     parts: [rateOf('paging', 'faults', 'all', {fill: true}), rateOf('paging', 'major_faults', 'from disk')], several: rateOf('paging', 'faults', null)},
    {title: 'File systems, free', format: bytes,
     parts: [gaugeOf('filesystem', 'available', null, {pick: isRealMount})],
     several: gaugeOf('filesystem', 'available', null, {pick: s => /mount=\/(,|$)/.test(s.key)})},
];

/* Of several hosts: in a small domain out of the tiles of all hosts, else out of tiles of each. */
function severalOf({several}, hosts, isSmall)
{
    const isWanted = s => hosts.includes(s.host) && (several.pick?.(s) ?? true);
    return isSmall ? [{...several, pick: isWanted}] : hosts.map(host => ({...several, host}));
}

function HostChart({spec, hosts, facts, isSmall})
{
    const isOne = hosts.length === 1;
    const parts = isOne ? spec.parts.map(p => ({...p, host: hosts[0]})) : severalOf(spec, hosts, isSmall);
    const s = useSeries([spec.title, isSmall, ...hosts].join(), parts, {
        labelOf: stream => isOne ? keyOnly(stream) : [stream.host, keyOnly(stream)].filter(Boolean).join(' '), isShare: isOne && spec.isShare,
    }).value;
    const isStacked = isOne && spec.isStacked === true;
    return html`<${Chart} title=${spec.title} note=${isOne ? spec.note : spec.severalNote ?? spec.note} ...${s} isStacked=${isStacked} hasBands=${s.hasBands && !isStacked}
        format=${spec.format} isBytes=${spec.format === bytes || spec.format === bytesPerSecond} max=${isOne && spec.top ? spec.top(facts) : spec.max}
        empty=${`No such events of ${isOne ? 'this host' : 'these hosts'} in this range. Is the sensor running?`} />`;
}

/* ---- who it is ---- */

const FACTS = [
    ['Operating system', h => h.os], ['Kernel', h => h.kernel], ['Architecture', h => h.architecture], ['Processor', h => h.cpu_model],
    ['CPUs', h => h.cpus && `${h.cpus} (${h.sockets} sockets, ${h.cores} cores)`],
    ['Memory', h => h.memory && bytes(h.memory)],
    ['Swap', h => h.swap !== undefined && bytes(h.swap)],
    ['Up', h => h.boot_time && seconds(now() / 1e6 - h.boot_time)],
    ['Virtual', h => h.virtual !== undefined && [h.virtual ? 'yes' : 'no', h.container].filter(Boolean).join(', ')],
    ['Address', h => h.address], ['Domain', h => h.domain], ['Agent', h => h.version && `${h.version}, ${h.mode}`],
    ['Lease', h => h.lease_ms && `${seconds(h.lease_ms / 1e3)}, renewed ${seconds(h.renewed_ms / 1e3)} ago`],
    ['Clock', h => h.clock_offset_ns !== undefined && `${seconds(h.clock_offset_ns / 1e9)} off, ± ${seconds(h.clock_bound_ns / 1e9)}`],
    ['Samples', h => h.samples && `by ${h.samples}: ${count(h.datagrams_received)} of ${count(h.datagrams_sent)}, ${count(h.datagrams_lost)} lost`],
];

function Facts({host})
{
    const known = FACTS.map(([label, of]) => [label, of(host)]).filter(([, v]) => v);
    return html`<dl class="facts">${known.map(([label, v]) => html`<div key=${label}><dt>${label}</dt><dd>${v}</dd></div>`)}</dl>`;
}

const SENSOR_COLUMNS = [
    {id: 'sensor', label: 'Sensor', value: r => r.sensor},
    {id: 'status', label: 'Status', value: r => r.status, cell: r => html`<${State} state=${r.status} />`},
    {id: 'mode', label: 'Mode', value: r => r.mode},
    {id: 'every', label: 'Every', end: true, value: r => r.every_ms, cell: r => r.every_ms ? seconds(r.every_ms / 1e3) : '–'},
    {id: 'rate', label: 'Events/s', end: true, value: r => r.rate, cell: r => number(r.rate)},
    {id: 'age', label: 'Last', end: true, value: r => r.age_ms, cell: r => r.age_ms === null ? 'never' : ago(r.age_ms * 1e3)},
    {id: 'consumers', label: 'Consumers', end: true, value: r => r.consumers},
    {id: 'why', label: 'Why', value: r => r.why},
];

const FAULT_COLUMNS = [
    {id: 'rule', label: 'Rule', value: r => r.rule},
    {id: 'state', label: 'State', value: r => r.state, cell: r => html`<${State} state=${r.state} />`},
    {id: 'severity', label: 'Severity', value: r => r.severity},
    {id: 'since', label: 'Since', value: r => r.since, cell: r => formatTime(Date.parse(r.since) * 1e3, {digits: 0})},
    {id: 'summary', label: 'What', value: r => r.summary},
];

/* Rows of a system table that are about the host. */
function OfHost({title, host, query, columns, rowKey, empty, aside, max})
{
    const poll = usePoll(`host ${title} ${host}`, 5000, options => sqlObjects(query, options));
    const details = row => showDetails(`${rowKey(row)} on ${host}`, Fields, {row});
    return html`<${Panel} title=${title} class="flush" aside=${aside}>
        <${Polled} poll=${poll} loading=${`Asking for its ${title.toLowerCase()} …`} empty=${empty}>
            ${rows => html`<${Table} label=${title + ' of this host'} columns=${columns} rows=${rows} rowKey=${rowKey} max=${max} onPick=${details} />`}<//>
    <//>`;
}

const Sensors = ({host}) =>
    html`<${OfHost} title="Sensors" host=${host} columns=${SENSOR_COLUMNS} rowKey=${r => r.sensor} max=${9}
        query=${`SELECT * FROM sensors WHERE host = ${quote(host)} ORDER BY sensor`}
        aside=${html`<${Button} kind="quiet" onClick=${() => go('sensors', {q: 'host:' + host})}>All of it<//>`}
        empty=${html`<${Empty} title="No sensors"><p>Its agent has not announced any yet.</p><//>`} />`;

const Faults = ({host}) =>
    html`<${OfHost} title="Faults" host=${host} columns=${FAULT_COLUMNS} rowKey=${r => r.fault} max=${7}
        query=${`SELECT * FROM faults WHERE host = ${quote(host)} ORDER BY since DESC LIMIT 200`}
        aside=${html`<${Button} kind="quiet" onClick=${() => { setFilter({host}); go('faults'); }}>All of them<//>`}
        empty=${html`<${Empty} title="No faults"><p>No rule of a guard has anything against this host.</p><//>`} />`;

/* ---- which hosts ---- */

const SHOWN_MAX = 60;

/* Click: this one. Ctrl and click: beside the others. */
function Picker({all, chosen})
{
    const [text, setText] = useState('');
    const toggle = host => {
        const next = chosen.includes(host) ? chosen.filter(h => h !== host) : [...chosen, host].slice(-HOSTS_MAX);
        if (next.length)
            setOptions({hosts: next});
    };
    const pick = (e, host) => e.ctrlKey || e.metaKey || e.shiftKey ? toggle(host) : setOptions({hosts: [host]});
    const compare = () => setOptions({hosts: chosen.length > 1 ? chosen.slice(0, 1) : all.slice(0, HOSTS_MAX).map(h => h.host)});
    const found = useMemo(() => all.filter(h => h.host.toLowerCase().includes(text.toLowerCase())).slice(0, SHOWN_MAX), [all, text]);
    return html`<div class="picker">
        <div class="picker-list" role="group" aria-label="Hosts">${found.map(h => html`<button key=${h.host} type="button" class="button picker-host"
            aria-pressed=${chosen.includes(h.host)} onClick=${e => pick(e, h.host)} title="Click: this one. Ctrl and click: beside the others.">
            <span class=${'dot ' + h.state} aria-hidden="true"></span>${h.host}${h.state !== 'live' && html`<span class="note">${h.state}</span>`}</button>`)}</div>
        ${all.length > 8 && html`<${Field} label="Find a host" hideLabel type="search" placeholder="Find a host" value=${text} onInput=${setText} />`}
        ${all.length > 1 && html`<${Button} onClick=${compare}>${chosen.length > 1 ? 'Only the first' : 'Compare'}<//>`}
    </div>`;
}

function Title({chosen, one})
{
    const inTimeline = () => {
        setFilter({host: chosen.length === 1 ? chosen[0] : ''}); /* of tiles a host is one, or a pattern */
        go('timeline');
    };
    const what = [one.os, one.cpus && one.cpus + ' CPUs', one.memory && bytes(one.memory)].filter(Boolean).join(' · ');
    return html`<div class="host-title">${chosen.length === 1
        ? html`<strong>${one.host}</strong><${State} state=${one.state} /><span class="note">${what}</span>`
        : html`<strong>${chosen.length} hosts</strong>${chosen.map(h => html`<${Chip} key=${h}>${h}<//>`)}`}
        <span class="host-actions"><${Button} icon="timeline" onClick=${inTimeline}>Show in timeline<//></span></div>`;
}

function Hosts({hosts})
{
    const wanted = view.options.value.hosts ?? (view.filter.value.host ? [view.filter.value.host] : []);
    const known = wanted.filter(h => hosts.some(r => r.host === h));
    const chosen = known.length ? known : hosts.slice(0, 1).map(h => h.host);
    const one = hosts.find(h => h.host === chosen[0]);
    const chart = spec => html`<${Lazy} key=${spec.title + chosen.join()} class="lazy-chart">
        <${HostChart} spec=${spec} hosts=${chosen} facts=${one} isSmall=${hosts.length <= SMALL} /><//>`;
    return html`<div class="host-head"><${Picker} all=${hosts} chosen=${chosen} /><${Title} chosen=${chosen} one=${one} /></div>
        ${wanted.length > 0 && known.length === 0
            && html`<p class="stale" role="status">${wanted.join(', ')}: the directory has no such host; this is ${chosen[0]}.</p>`}
        <div class="charts">${CHARTS.map(chart)}</div>
        ${chosen.length === 1 && html`<div class="panels host-panels"><${Panel} title="What it is"><${Facts} host=${one} /><//>
            <${Sensors} key=${'s' + one.host} host=${one.host} /><${Faults} key=${'f' + one.host} host=${one.host} /></div>`}`;
}

const NOBODY = html`<${Empty} title="No hosts yet"><p>Nobody has registered at this gateway. On a host to watch:
    <code>gridline agent -g tcp://GATEWAY:14830</code>; here and now: <code>gridline run</code>.</p><//>`;

function Page()
{
    const poll = usePoll('hosts', 5000, options => directory('hosts', {}, options));
    return html`<${Polled} poll=${poll} loading="Asking the directory for hosts …" title="The hosts could not be loaded" empty=${NOBODY}>
        ${hosts => html`<${Hosts} hosts=${hosts} />`}<//>`;
}

export const page = {id: 'host', title: 'Host', key: '2', Page};
