/* system.js - the page System: the gateway itself, its queues, who is subscribed, the ledger by producer, the archive, agents and their
 * versions; and what to do about it. */
import './system.css';
import {html, useState} from '../html.js';
import {view} from '../state.js';
import {directory, control, sqlObjects, who, may} from '../api.js';
import {usePoll} from '../poll.js';
import {formatTime, now, clock} from '../time.js';
import {bytes, count, seconds, MISSING} from '../format.js';
import {accountOf, sumsOf} from '../ledger.js';
import {Chip, Field, Panel, State, Icon} from '../ui/basic.js';
import {Empty, Polled} from '../ui/boxes.js';
import {Table} from '../ui/table.js';
import {showDetails, Fields} from '../frame/drawer.js';
import {refusedConfigs} from '../frame/status.js';

const isoUs = text => Date.parse(text) * 1e3;
const when = text => text ? formatTime(isoUs(text), {digits: 0}) : MISSING;


/* ---- hints: what a person would find by looking through all of it ---- */

const some = (list, name) => list.slice(0, 4).map(name).join(', ') + (list.length > 4 ? ` and ${list.length - 4} more` : '');

function ledgerHints(add, ledger)
{
    const sums = sumsOf(ledger);
    add(sums.wrong, 'error', `${sums.wrong} accounts of the ledger do not add up`,
        'This is a bug of ours: gridline ledger shows them; please report it.');
    add(sums.lost, 'warn', `${count(sums.lost)} events or samples were lost on the way`,
        'Samples by datagrams may be lost; many are a sign of a full network or a busy gateway.');
    add(sums.gateway.dropped, 'warn', `${count(sums.gateway.dropped)} events or samples were dropped by the gateway`, 'The table below says whose and why.');
    add(sums.senders.dropped, 'warn', `${count(sums.senders.dropped)} events or samples were dropped by their senders: ${
        Object.entries(sums.senders.reasons).map(([r, c]) => `${r.replace('_', ' ')} ${count(c)}`).join(', ')}`,
        'gridline ledger --long says whose. unwritable, forced: the gateway was away for too long; streams: more streams than a limit.');
}

function storeHints(add, status, archive)
{
    add(status['journal.max'] && status['journal.bytes'] / status['journal.max'] > 0.9, 'warn',
        'the journal is nearly as large as it may be',
        'What no cursor has passed will give way: is a durable consumer away? Or raise journal_max.');
    add(status['journal.forced'], 'error', `${count(status['journal.forced'])} records gave way before everybody had read them`,
        'Raise journal_max, or remove durable subscriptions that nobody uses.');
    add(status['archive.lag_records'] > 10000, 'warn', `the archive is ${count(status['archive.lag_records'])} records behind`,
        'Is its disk slow or full?');
    add(archive?.status === 'failed', 'error', 'the archive has failed: ' + archive?.why, 'gridline archive check says more.');
    add(status['archive.damaged'], 'error', `${count(status['archive.damaged'])} records were damaged`,
        'gridline archive check, then repair.');
    add(archive?.overflow_producers, 'warn', `${archive?.overflow_producers} producers have more streams than they may`,
        'Key fields with ever new values? See archive.streams.');
    add(status['latest.no_memory'] || status['summary.left_out'], 'warn', 'there was no room for some streams in latest or summaries',
        'Raise latest_memory or summary_memory of the gateway.');
}

function hostHints(add, hosts, sensors, configs)
{
    const silent = hosts.filter(h => ['late', 'expired', 'missing'].includes(h.state));
    add(silent.length, 'error', `silent hosts: ${some(silent, h => h.host)}`,
        'Down, or the network between is. gridline doctor on such a host says more.');
    const versions = new Set(hosts.map(h => h.version).filter(Boolean));
    add(versions.size > 1, 'info', `agents of ${versions.size} versions: ${[...versions].sort().join(', ')}`,
        'All of them are understood; the oldest lack what is new.');
    const off = hosts.filter(h => Math.abs(h.clock_offset_ns ?? 0) > 1e9);
    add(off.length, 'warn', `clocks that are more than a second off: ${some(off, h => h.host)}`,
        'Their events are corrected to the gateway’s time. Is chrony running there?');
    const failed = sensors.filter(s => s.status === 'failed');
    add(failed.length, 'warn', `sensors that failed: ${some(failed, s => `${s.sensor} on ${s.host}`)}`,
        failed[0]?.why ?? 'The page Sensors says why.');
    add(configs.length, 'warn', `agents that refused their new configuration: ${some(configs, c => c.host)}`,
        `They go on with the one before. ${configs[0]?.why ?? ''}`);
}

/* [{look, text, next}] of what is known. Pure. */
export function hintsOf({status = {}, ledger = [], subscriptions = [], hosts = [], sensors = [], configs = [], archive = null})
{
    const out = [];
    const add = (is, look, text, next) => is && out.push({look, text, next});
    ledgerHints(add, ledger);
    storeHints(add, status, archive);
    const slow = subscriptions.filter(s => s.lost > 0);
    add(slow.length, 'warn', `slow consumers lost events: ${some(slow, s => s.consumer)}`, 'They read too slowly, or their queue is too small.');
    const until = isoUs(status['certificate.until'] ?? '');
    add(until - now() < 2 * 86400e6, 'error', `the gateway's certificate ends ${when(status['certificate.until'])}`,
        'It renews itself while the site’s folder can be read: the gateway’s log says why it does not.');
    hostHints(add, hosts, sensors, configs);
    return out;
}

const LOOK_ICON = {error: 'cross', warn: 'triangle', info: 'circle'};

function Hints({facts})
{
    const hints = hintsOf(facts);
    const one = (h, i) => html`<li key=${i}><${Chip} look=${h.look} icon=${LOOK_ICON[h.look]}>${h.look === 'warn' ? 'warning' : h.look}<//>
        <div><p>${h.text}</p><p class="note">${h.next}</p></div></li>`;
    const none = html`<${Empty} title="Nothing stands out"><p>Queues are short, accounts add up, everybody who should be is there.
        Disks and limits of a host: <code>gridline doctor</code> there.</p><//>`;
    return html`<${Panel} title="What to look at" note="from the figures below">${hints.length ? html`<ul class="hints">${hints.map(one)}</ul>` : none}<//>`;
}

/* ---- the gateway's numbers, in groups by their names ---- */

const GROUPS = {
    connections: 'Connections', datagrams: 'Datagrams', journal: 'Journal', archive: 'Archive', latest: 'Latest', summary: 'Summaries',
    query: 'Queries', directory: 'Directory', demand: 'Demand', process: 'Process', certificate: 'Certificate',
};
const IS_BYTES = /(^|\.)(bytes|size|memory|max)$/;

const figure = (name, v) => name === 'started' || name === 'certificate.until' ? when(v) : typeof v !== 'number' ? String(v) : IS_BYTES.test(name) ? bytes(v) : count(v);

function Figures({status})
{
    const groups = new Map([['', []]]);
    for (const name of Object.keys(status)) {
        const group = name.includes('.') ? name.split('.')[0] : '';
        groups.set(group, [...groups.get(group) ?? [], name]);
    }
    const row = (name, group) => html`<div key=${name}><dt>${name.slice(group && group.length + 1).replaceAll('_', ' ')}</dt>
        <dd class="num">${figure(name, status[name])}</dd></div>`;
    return html`<div class="figures">${[...groups].map(([group, names]) => html`<section key=${group}>
        <h3>${GROUPS[group] ?? (group || 'Gateway')}</h3><dl>${names.map(name => row(name, group))}</dl></section>`)}</div>`;
}

/* How full what is bounded is. */
function Queues({status})
{
    const bars = [
        ['journal', status['journal.bytes'], status['journal.max'], bytes], ['archive: records behind', status['archive.lag_records'], 10000, count],
        ['queries waiting', status['query.waiting'], 64, count], ['orders under way', status.requests, 64, count],
    ];
    return html`<ul class="bars">${bars.filter(([, v]) => v !== undefined).map(([name, v, max, format]) => html`<li key=${name}><span>${name}</span>
        <meter min="0" max=${max} value=${v} high=${max * 0.8} aria-label=${name}></meter>
        <span class="num">${format(v)} <span class="note">of ${format(max)}</span></span></li>`)}</ul>`;
}

/* ---- tables ---- */

const AddsUp = ({row}) => {
    const {off} = accountOf(row);
    return off === 0 ? html`<${Chip} look="ok" icon="ok">yes<//>` : html`<${Chip} look="error" icon="cross">off by ${count(off)}<//>`;
};

/* A count that should be 0. */
const Bad = ({n}) => html`<span class=${n > 0 ? 'text-warn' : ''}>${count(n)}</span>`;
const IS_BAD = new Set(['refused', 'too_old', 'no_schema', 'lost']);

const counted = (id, label, value = r => r[id]) => ({id, label, end: true, value, cell: r => count(value(r))});

const LEDGER = [
    {id: 'host', label: 'Host', value: r => r.host ?? ''},
    {id: 'producer', label: 'Producer', value: r => r.producer, cell: r => html`<code title=${r.producer}>${r.producer.slice(0, 8)}…</code>`},
    {id: 'epoch', label: 'Epoch', end: true, value: r => r.epoch},
    {id: 'class', label: 'Class', value: r => r.class},
    {id: 'state', label: 'State', value: r => r.state},
    ...['taken', 'passed', 'duplicate', 'refused', 'too_old', 'no_schema', 'queued', 'retried', 'lost'].map(name => {
        const column = counted(name, name.replace('_', ' '));
        return IS_BAD.has(name) ? {...column, cell: r => html`<${Bad} n=${r[name]} />`} : column;
    }),
    {...counted('dropped', 'by the sender', r => r.sender_dropped ?? null), hint: 'dropped before it was sent'},
    {id: 'off', label: 'Adds up', value: r => accountOf(r).off, cell: r => html`<${AddsUp} row=${r} />`},
    {id: 'tail', label: 'Tail', value: r => r.tail},
];

const SUBSCRIPTIONS = [
    {id: 'consumer', label: 'Consumer', value: r => r.consumer},
    {id: 'who', label: 'Who', value: r => r.who},
    {id: 'event', label: 'Events', value: r => r.event || 'all'},
    {id: 'host', label: 'Hosts', value: r => r.host || 'all'},
    {id: 'where', label: 'Where', value: r => r.where},
    {id: 'state', label: 'State', value: r => r.state, cell: r => html`<${State} state=${r.state} />`},
    counted('given', 'Given'),
    counted('filtered', 'Filtered'),
    {id: 'lost', label: 'Lost', end: true, value: r => r.lost, cell: r => html`<${Bad} n=${r.lost} />`},
    {id: 'queued', label: 'Queued', end: true, value: r => r.queued_bytes, cell: r => bytes(r.queued_bytes)},
    {id: 'durable', label: 'Durable', value: r => r.durable},
];

const AGENTS = [
    {id: 'host', label: 'Host', value: r => r.host},
    {id: 'state', label: 'State', value: r => r.state, cell: r => html`<${State} state=${r.state} />`},
    {id: 'version', label: 'Agent', value: r => r.version},
    {id: 'kernel', label: 'Kernel', value: r => r.kernel},
    {id: 'os', label: 'System', value: r => r.os},
    {id: 'mode', label: 'Mode', value: r => r.mode},
    {id: 'since', label: 'Since', value: r => r.since, cell: r => when(r.since)},
    {id: 'lease', label: 'Lease', end: true, value: r => r.lease_ms, cell: r => seconds(r.lease_ms / 1e3)},
    counted('registrations', 'Registrations'),
    {id: 'offset', label: 'Clock off by', end: true, value: r => r.clock_offset_ns, cell: r => seconds(r.clock_offset_ns / 1e9)},
    {id: 'bound', label: '±', end: true, value: r => r.clock_bound_ns, cell: r => seconds(r.clock_bound_ns / 1e9)},
    {id: 'samples', label: 'Samples by', value: r => r.samples},
    counted('datagrams_lost', 'Datagrams lost'),
];

const PARTITIONS = [
    {id: 'from', label: 'From', value: r => r.from_time, cell: r => formatTime(r.from_time / 1e3, {digits: 0})},
    {id: 'to', label: 'To', value: r => r.to_time, cell: r => formatTime(r.to_time / 1e3, {digits: 0})},
    {id: 'step', label: 'Holds', value: r => r.step, cell: r => r.step ? `steps of ${seconds(r.step / 1e9)}` : 'events'},
];

/* name(row): the heading of its details. */
function TablePanel({title, poll, columns, rowKey, name, empty, note})
{
    const [filter, setFilter] = useState('');
    const find = html`<${Field} label=${`Filter ${title}`} hideLabel type="search" placeholder="Filter" value=${filter} onInput=${setFilter} />`;
    const details = (row, open) => showDetails(name(row), Fields, {row}, {open});
    return html`<${Panel} title=${title} class="flush" note=${note} aside=${find}>
        <${Polled} poll=${poll} loading=${`Asking for ${title.toLowerCase()} …`} empty=${empty}>${rows =>
            html`<${Table} label=${title} columns=${columns} rows=${rows} filter=${filter} rowKey=${rowKey} max=${12}
                onPick=${row => details(row, false)} onOpen=${row => details(row, true)} />`}<//>
    <//>`;
}

const ARCHIVE = [
    ['State', a => html`<${State} state=${a.status} /> ${a.why}`], ['Events from', a => when(a.from)], ['to', a => when(a.to)],
    ['Event names', a => count(a.names)], ['Size', a => bytes(a.bytes)], ['Partitions', a => count(a.partitions)],
    ['Behind', a => `${count(a.lag_records)} records`], ['Folder', a => html`<code>${a.dir}</code>`],
];

function Archive({archive, partitions})
{
    const files = partitions.value.value ?? [];
    const none = html`<${Empty} title="This gateway keeps no archive"><p>History, SQL and pictures need one: <code>archive.dir</code> in its configuration.</p><//>`;
    const facts = a => html`<dl class="facts">${ARCHIVE.map(([label, of]) => html`<div key=${label}><dt>${label}</dt><dd>${of(a)}</dd></div>`)}</dl>
        ${files.length > 0 && html`<${Table} label="Partitions" max=${6} rows=${files} columns=${PARTITIONS} />`}`;
    return html`<${Panel} title="Archive"><${Polled} poll=${archive} loading="Asking the archive …">${a => a === null ? none : facts(a)}<//><//>`;
}

function clockText({offset, bound})
{
    return Number.isFinite(bound)
        ? `${seconds(Math.abs(offset) / 1e6)} ${offset < 0 ? 'behind' : 'ahead of'} this browser’s, ± ${seconds(bound / 1e6)}` : MISSING;
}

/* The API does not tell until when certificates are good: gridline doctor does. */
const Gateway = ({status}) =>
    html`<${Panel} title="Gateway" aside=${html`<span class="note">you: ${who.value.who}${may('control') ? ', who may control' : ''}</span>`}>
        <dl class="facts"><div><dt>Version</dt><dd>${who.value.version || MISSING}</dd></div>
            <div><dt>Clock</dt><dd>${clockText(clock.value)}</dd></div>
            <div><dt>Certificate</dt><dd>${location.protocol === 'https:' ? 'see the browser’s lock; gridline doctor' : 'none: plain HTTP on loopback'}</dd></div></dl>
        <${Queues} status=${status} /><//>`;

const FAILED = "SELECT host, sensor, status, why FROM sensors WHERE status = 'failed' LIMIT 500";
const FILES = 'SELECT from_time, to_time, step FROM partitions ORDER BY from_time DESC LIMIT 2000';

function Page()
{
    const status = usePoll('status', 3000, async options => (await directory('status', {}, options))[0] ?? {});
    const hosts = usePoll('hosts', 5000, options => directory('hosts', {}, options));
    const ledger = usePoll('ledger', 5000, options => directory('ledger', {}, options));
    const subscriptions = usePoll('subscriptions', 5000, options => directory('subscriptions', {}, options));
    const sensors = usePoll('failed sensors', 10000, options => sqlObjects(FAILED, options));
    const configs = usePoll('configs', 30000, refusedConfigs);
    const archive = usePoll('archive', 10000, async options => (await control('archive', {}, options)).rows[0] ?? null);
    const partitions = usePoll('partitions', 30000, options => sqlObjects(FILES, options));
    const known = Object.entries({status, ledger, subscriptions, hosts, sensors, configs, archive}).map(([name, p]) => [name, p.value.value ?? undefined]);
    void view.zone.value; /* times are printed in it */
    return html`<div class="panels system">
        <${Hints} facts=${Object.fromEntries(known)} />
        <${Polled} poll=${status} loading="Asking the gateway …" title="The gateway’s figures could not be loaded">${s => html`<${Gateway} status=${s} />`}<//>
        <${Archive} archive=${archive} partitions=${partitions} />
        <${TablePanel} title="Ledger" note="an account a producer, epoch and class" poll=${ledger} columns=${LEDGER}
            rowKey=${r => r.producer + r.epoch + r.class} name=${r => `${r.class} of ${r.host ?? r.producer}`}
            empty=${html`<${Empty} title="No accounts"><p>Nothing has come yet.</p><//>`} />
        <${TablePanel} title="Subscriptions" poll=${subscriptions} columns=${SUBSCRIPTIONS} rowKey=${r => r.consumer + r.id} name=${r => r.consumer}
            empty=${html`<${Empty} title="No subscriptions"><p>Nobody takes events here at the moment.</p><//>`} />
        <${TablePanel} title="Agents" note="versions, leases, clocks" poll=${hosts} columns=${AGENTS} rowKey=${r => r.host} name=${r => r.host}
            empty=${html`<${Empty} title="No agents"><p>Nobody has registered.</p><//>`} />
        <${Panel} title="All figures" aside=${html`<a class="button quiet" href="/metrics" target="_blank" rel="noopener">OpenMetrics<${Icon} name="link" /></a>`}>
            <${Polled} poll=${status} loading="Asking the gateway …">${s => html`<${Figures} status=${s} />`}<//><//>
    </div>`;
}

export const page = {id: 'system', title: 'System', key: '8', Page};
