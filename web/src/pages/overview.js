/* overview.js - the page Overview: all hosts at a glance, as Ganglia had them; how the domain does; the ledger; what is wrong; what is slow. */
import './overview.css';
import {html, cx, useMemo, useEffect, useSignalEffect, untracked} from '../html.js';
import {view, go, setOptions, setRange} from '../state.js';
import {sqlObjects, sqlOnce, sql, directory} from '../api.js';
import {usePoll} from '../poll.js';
import {tileSet, levelFor} from '../tiles.js';
import {baseUs, stepUs} from '../glt1.js';
import {formatTime, now} from '../time.js';
import {bytes, count, number, percent, seconds, short, fraction, MISSING} from '../format.js';
import {heatStep} from '../palette.js';
import {sumsOf, REASONS} from '../ledger.js';
import {Button, Chip, Field, Icon, Panel, State, stateLook} from '../ui/basic.js';
import {Empty, Polled, Loading} from '../ui/boxes.js';
import {Chart} from '../ui/chart.js';
import {Table} from '../ui/table.js';

/* ---- figures ---- */

function Stat({label, value, note, look, onClick})
{
    const body = html`<span class="stat-label">${label}</span><span class=${cx('stat-value', look && 'text-' + look)}>${value}</span>
        <span class="stat-note">${note}</span>`;
    return onClick ? html`<button type="button" class="stat" onClick=${onClick}>${body}</button>` : html`<div class="stat">${body}</div>`;
}

function HostStats({rows})
{
    const of = state => rows.filter(h => h.state === state).length;
    const silent = of('late') + of('expired') + of('missing');
    const sensors = rows.reduce((a, h) => a + (h.sensors ?? 0), 0), missing = rows.reduce((a, h) => a + (h.missing ?? 0), 0);
    return html`<${Stat} label="Hosts" value=${`${of('live')} of ${rows.length}`} look=${silent ? 'error' : 'ok'}
            note=${silent ? `${of('late')} late, ${of('expired')} expired, ${of('missing')} never came` : 'all that should be are live'} />
        <${Stat} label="Sensors" value=${count(sensors)} look=${missing ? 'warn' : undefined} onClick=${() => go('sensors')}
            note=${missing ? `${missing} are missing` : 'none is missing'} />`;
}

function Stats({hosts, ledger, faults})
{
    const rates = usePoll('rate', 5000, options => sql("SELECT sum(rate) FROM sensors WHERE mode <> 'archive'", options));
    const rate = rates.value.value?.rows[0]?.[0] ?? null;
    const accounts = ledger.value.value;
    const sums = useMemo(() => sumsOf(accounts ?? []), [accounts]);
    const firing = (faults.value.value ?? []).filter(f => f.state === 'firing').length;
    return html`<div class="stats"><${HostStats} rows=${hosts.value.value ?? []} />
        <${Stat} label="Faults" value=${count(firing)} look=${firing ? 'error' : 'ok'} onClick=${() => go('faults')}
            note=${firing ? 'firing now' : 'nothing is firing'} />
        <${Stat} label="Events" value=${rate === null ? MISSING : short(rate) + '/s'} note=${short(sums.gateway.taken) + ' taken since the gateway runs'} />
        <${Stat} label="Lost or dropped" value=${count(sums.bad)} look=${sums.bad ? 'warn' : 'ok'} onClick=${() => go('system')}
            note=${sums.wrong ? `${sums.wrong} accounts do not add up` : 'every account adds up'} />
    </div>`;
}

/* ---- hosts ---- */

const SORTS = {
    name: ['by name', (a, b) => a.host.localeCompare(b.host, 'en', {numeric: true})],
    load: ['by load', (a, b) => (b.load ?? -1) - (a.load ?? -1)],
    state: ['by state', (a, b) => (a.state === 'live') - (b.state === 'live') || a.state.localeCompare(b.state)],
};
const TILES_MAX = 3000;

const rounded = (v, unit = ' %') => v === null ? MISSING : Math.round(v) + unit;

/* All that a tile says, in words. */
function wordsOf(h)
{
    const parts = [h.state, h.load !== null && `load ${number(h.load1)} on ${h.cpus} CPUs`, h.busy !== null && `CPU ${percent(h.busy)}`,
                   h.memory !== null && `memory ${fraction(h.memory)} used`, h.faults > 0 && `${h.faults} faults`];
    return `${h.host}: ${parts.filter(Boolean).join(', ')}`;
}

const TileFigures = ({h}) => h.state === 'live'
    ? html`<span class="tile-load num">${number(h.load1, 2)}</span>
        <span class="tile-more num">CPU ${rounded(h.busy)} · mem ${rounded(h.memory === null ? null : 100 * h.memory)}</span>`
    : html`<span class="tile-load">${h.state}</span>
        <span class="tile-more">${h.since ? 'since ' + formatTime(Date.parse(h.since) * 1e3, {digits: 0, date: false}) : 'never came'}</span>`;

/* Coloured by load a CPU; its words say the same. */
function HostTile({h, isSmall})
{
    const isLive = h.state === 'live';
    const [look, icon] = stateLook(h.state);
    const step = isLive && h.load !== null ? 'heat-' + heatStep(h.load / 1.5) : 'gone ' + look;
    return html`<button type="button" class=${cx('tile', step)} title=${wordsOf(h)} onClick=${() => go('host', {hosts: [h.host]})}>
        <span class="tile-name">${!isLive && html`<${Icon} name=${icon} />`}${h.host}
            ${h.faults > 0 && html`<span class="tile-faults"><${Icon} name="faults" />${h.faults}</span>`}</span>
        ${!isSmall && html`<${TileFigures} h=${h} />`}</button>`;
}

/* Hosts with what is newest of them. A host that does not send load has none. */
function joined(hosts, newest, faults)
{
    const of = new Map((newest ?? []).map(r => [r.host, r]));
    const open = Object.groupBy((faults ?? []).filter(f => f.state === 'firing'), f => f.host);
    return hosts.map(({host, state, since, domain = '', cpus = 1, memory}) => {
        const v = of.get(host) ?? {};
        return {host, state, since, domain, cpus, load1: v.load1 ?? null, load: v.load1 === undefined ? null : v.load1 / cpus, busy: v.busy ?? null,
                memory: v.available && memory ? 1 - v.available / memory : null, faults: open[host]?.length ?? 0};
    });
}

const AS_OF_US = 90e6; /* how far before a past time the newest values may be */

/* Of each host the newest load, CPU and memory: of now, or as they were at the end of the range. */
async function newestOf(options)
{
    const ask = (table, query) => sqlOnce(table, query, {...options, rows: 200000});
    const isLive = view.mode.peek() === 'live', to = view.to.peek();
    const range = `(${Math.round(to - AS_OF_US)}000, ${Math.round(to)}000)`;
    const [loads, vectors] = await Promise.all(isLive
        ? [ask('load', 'SELECT host, load1 FROM load_latest'), ask('vector', 'SELECT host, 100 - cpu_idle AS busy, memory_available AS available FROM vector_latest')]
        : [ask('load', `SELECT host, load1_last AS load1 FROM load_bucket${range}`), ask('vector', `SELECT host, 100 - cpu_idle_last AS busy, memory_available_last AS available FROM vector_bucket${range}`)]);
    const of = new Map(vectors.map(v => [v.host, v]));
    for (const l of loads)
        of.set(l.host, {...of.get(l.host), ...l});
    return [...of.values()];
}

/* Asked again at once when the past that is shown is another. */
function useNewest()
{
    const mode = view.mode.value;
    const name = mode === 'live' ? 'newest' : mode === 'play' ? 'newest play' : 'newest ' + view.to.value;
    return usePoll(name, mode === 'live' ? 3000 : mode === 'play' ? 500 : 60000, newestOf);
}

const HOST_COLUMNS = [
    {id: 'host', label: 'Host', value: h => h.host},
    {id: 'domain', label: 'Domain', value: h => h.domain},
    {id: 'state', label: 'State', value: h => h.state, cell: h => html`<${State} state=${h.state} />`},
    {id: 'load', label: 'Load', end: true, value: h => h.load1, cell: h => number(h.load1)},
    {id: 'cpus', label: 'CPUs', end: true, value: h => h.cpus},
    {id: 'busy', label: 'CPU', end: true, value: h => h.busy, cell: h => percent(h.busy)},
    {id: 'memory', label: 'Memory', end: true, value: h => h.memory, cell: h => fraction(h.memory)},
    {id: 'faults', label: 'Faults', end: true, value: h => h.faults},
];

function Domain({name, hosts})
{
    const live = hosts.filter(h => h.state === 'live');
    const cpus = live.reduce((a, h) => a + h.cpus, 0), load = live.reduce((a, h) => a + (h.load1 ?? 0), 0);
    const isSmall = hosts.length > 240;
    return html`<section class="domain" aria-label=${'Domain ' + name}><header class="domain-head"><h3>${name || 'no domain'}</h3>
        <span class="note">${live.length} of ${hosts.length} live · ${cpus} CPUs · load ${number(load)} (${fraction(cpus ? load / cpus : null)})</span></header>
        <div class=${cx('tiles', isSmall && 'small')}>${hosts.slice(0, TILES_MAX).map(h => html`<${HostTile} key=${h.host} h=${h} isSmall=${isSmall} />`)}</div></section>`;
}

const Scale = () =>
    html`<span class="scale" aria-hidden="true">load a CPU <span class="num">0</span>${[0, 1, 2, 3, 4, 5].map(i => html`<i key=${i} class=${'heat-' + i}></i>`)}
        <span class="num">1.5</span></span>`;

const Order = ({by}) =>
    html`<${Field} label="Order" hideLabel type="select" value=${by} onInput=${sort => setOptions({sort})}
        options=${Object.entries(SORTS).map(([k, [text]]) => [k, text])} />`;

function HostGrid({hosts, newest, faults})
{
    const o = view.options.value, by = SORTS[o.sort] ? o.sort : 'name', wanted = view.filter.value.host;
    const values = newest.value.value, open = faults.value.value;
    const all = useMemo(() => joined(hosts, values, open), [hosts, values, open]);
    const shown = useMemo(() => all.filter(h => !wanted || h.host.includes(wanted.replaceAll('*', ''))).sort(SORTS[by][1]), [all, wanted, by]);
    const domains = useMemo(() => Object.entries(Object.groupBy(shown, h => h.domain)).sort(([a], [b]) => a.localeCompare(b)), [shown]);
    const asOf = view.mode.value === 'live' ? undefined : `load as of ${formatTime(view.to.value, {digits: 0})}, states of now`;
    return html`<${Panel} title="Hosts" class="hosts" note=${asOf} aside=${html`<${Scale} /><${Order} by=${by} />`}>
        ${o.tables ? html`<${Table} label="Hosts" columns=${HOST_COLUMNS} rows=${shown} rowKey=${h => h.host} max=${20} onOpen=${h => go('host', {hosts: [h.host]})} />`
                   : domains.map(([name, list]) => html`<${Domain} key=${name} name=${name} hosts=${list} />`)}
        ${shown.length === 0 && html`<${Empty} title="No host passes the filter"><p>“${wanted}” is in no name. Take the filter away in the top bar.</p><//>`}
    <//>`;
}

/* ---- the domain's curves, folded by the archive ---- */

const STEPS = 120;

function clusterQuery(from, to)
{
    const step = Math.max(1e6, Math.round((to - from) / STEPS / 1e6) * 1e6) * 1000;
    const range = `${Math.round(from)}000, ${Math.round(to)}000, ${step}`;
    return {step: step / 1000, query: `SELECT time / 1000 AS t, avg(100 - cpu_idle_avg) AS busy, sum(run_queue_avg) AS queue,
        sum(memory_available_avg) AS memory, sum(network_bandwidth_avg) AS network FROM vector_bucket(${range}) GROUP BY time ORDER BY time`};
}

const CLUSTER = [
    {title: 'CPU', note: 'busy, mean of all hosts', format: percent, max: 100}, {title: 'Run queue', note: 'of all hosts', format: number},
    {title: 'Memory available', note: 'of all hosts', format: bytes, isBytes: true},
    {title: 'Network', note: 'of all hosts', format: v => bytes(v) + '/s', isBytes: true},
].map(c => ({...c, series: [{label: c.title, fill: true}]}));

/* The range as it is when it is asked: live every 5 s, playing every second, else once. */
function useCluster()
{
    const mode = view.mode.value;
    const name = mode === 'live' ? 'cluster live ' + view.span.value : mode === 'play' ? 'cluster play' : `cluster ${view.from.value} ${view.to.value}`;
    return usePoll(name, mode === 'live' ? 5000 : mode === 'play' ? 1000 : 60000, async options => {
        const {query, step} = clusterQuery(view.from.peek(), view.to.peek());
        const rows = (await sqlOnce('vector', query, options)).map(Object.values);
        const over = rows.length && rows.at(-1)[0] + step > now() ? rows.slice(0, -1) : rows; /* a step that is not over would look like a fall */
        return {step, times: over.map(r => r[0] + step / 2), values: CLUSTER.map((_, i) => over.map(r => r[i + 1]))};
    });
}

function ClusterCharts()
{
    const poll = useCluster();
    const value = poll.value.value;
    const progress = {done: poll.state.value === 'loading' ? 0 : 1, all: 1, error: poll.error.value};
    const data = useMemo(() => CLUSTER.map((_, i) => [value?.times ?? [], value?.values[i] ?? []]), [value]);
    return html`<div class="charts cluster">${CLUSTER.map((c, i) => html`<${Chart} key=${c.title} ...${c} data=${data[i]} height=${108}
        reach=${(value?.step ?? 1) * 2.5} progress=${progress} empty="No vector events in this range." />`)}</div>`;
}

/* ---- ledger, faults, slow hops ---- */

const LedgerLine = ({name, n, isBad, why}) =>
    html`<div class=${isBad && n > 0 ? 'text-warn' : ''} title=${why}><dt>${name}</dt><dd class="num">${count(n)}</dd></div>`;

/* A hop's numbers; whether they add up is said of these. */
const LedgerHop = ({title, hop, children}) =>
    html`<div class="ledger-sum"><strong>${title}</strong>
            ${hop.off ? html`<${Chip} look="error" icon="cross">off by ${count(hop.off)}<//>` : html`<${Chip} look="ok" icon="ok">adds up<//>`}</div>
        <dl class="ledger">${['taken', 'passed', 'filtered', 'duplicate'].map(name => html`<${LedgerLine} key=${name} name=${name} n=${hop[name]} />`)}
            ${Object.entries(hop.reasons).map(([r, n]) => html`<${LedgerLine} key=${r} name=${'dropped: ' + r.replace('_', ' ')} n=${n} isBad why=${REASONS[r]} />`)}
            <${LedgerLine} name="queued" n=${hop.queued} />${children}</dl>`;

function LedgerSums({rows})
{
    const s = sumsOf(rows);
    return html`<div class="ledger-sum">${s.wrong ? html`<${Chip} look="error" icon="cross">${s.wrong} of ${rows.length} accounts do not add up<//>` : null}
            <span class="note">taken = passed + filtered + duplicate + dropped + queued, in each of ${rows.length} accounts and at both hops</span></div>
        ${s.reported > 0 && html`<${LedgerHop} title="At the senders, as they report it" hop=${s.senders} />`}
        <${LedgerHop} title="At the gateway" hop=${s.gateway}>
            <${LedgerLine} name="lost on the way" n=${s.lost} isBad why="sent, and never received" />
            ${s.retried > 0 && html`<${LedgerLine} name="sent again" n=${s.retried} why="turned back for now; not dropped, and in no sum" />`}<//>`;
}

const Ledger = ({poll}) =>
    html`<${Panel} title="Ledger" aside=${html`<${Button} kind="quiet" onClick=${() => go('system')}>By producer<//>`}>
        <${Polled} poll=${poll} loading="Adding up …" empty=${html`<${Empty} title="No accounts"><p>Nothing has come yet.</p><//>`}>
            ${rows => html`<${LedgerSums} rows=${rows} />`}<//><//>`;

const FAULTS_MAX = 12;

function FaultList({rows})
{
    const open = rows.filter(f => f.state !== 'cleared' && f.state !== 'pending');
    if (open.length === 0)
        return html`<${Empty} title="Nothing is wrong"><p>No rule fires${rows.length ? `; ${rows.length} faults have cleared or wait` : ''}.</p><//>`;
    return html`<ul class="list">${open.slice(0, FAULTS_MAX).map(f => html`<li key=${f.fault}><${State} state=${f.state} />
            <span class="list-main"><strong>${f.rule}</strong> ${f.summary}</span>
            <button type="button" class="link" onClick=${() => go('host', {hosts: [f.host]})}>${f.host}</button></li>`)}</ul>
        ${open.length > FAULTS_MAX && html`<p class="note">and ${open.length - FAULTS_MAX} more</p>`}`;
}

const Firing = ({poll}) =>
    html`<${Panel} title="Faults" aside=${html`<${Button} kind="quiet" onClick=${() => go('faults')}>All<//>`}>
        <${Polled} poll=${poll} loading="Asking the guard …">${rows => html`<${FaultList} rows=${rows} />`}<//><//>`;

const HOPS_MAX = 10;
const FIRST = 65535; /* pair_from of the first event of an id: no hop */

/* The slowest hops of the range, from the outliers that density tiles always have. */
function slowest(entries, from, to)
{
    const out = [];
    for (const {tile} of entries) {
        const c = tile.columns, base = baseUs(tile), step = stepUs(tile);
        c.outlier_latency_ns.forEach((ns, i) => {
            const at = base + c.outlier_t[i] * step, pair = c.outlier_pair[i];
            if (Number.isNaN(ns) || at < from || at > to || c.pair_from[pair] === FIRST)
                return;
            out.push({ns, at, from: c.events[c.pair_from[pair]], to: c.events[c.pair_to[pair]], host: c.hosts[c.outlier_host[i]], id: c.outlier_id[i]});
        });
    }
    return out.sort((a, b) => b.ns - a.ns).slice(0, HOPS_MAX);
}

/* The lifeline of a slow hop, with some time before and behind it. */
function showHop({id, at, ns})
{
    const around = Math.max(ns / 1000, 1e6);
    setRange(at - 2 * around, at + around);
    go('timeline', {lanes: [{kind: 'lifelines', ids: 'id', id}, {kind: 'points', title: 'Events of ' + id, event: '*', id}]});
}

const Hop = ({h}) =>
    html`<li><span class="num hop-time">${seconds(h.ns / 1e9)}</span><span class="list-main">${h.from} → ${h.to}<span class="note"> on ${h.host}</span></span>
        <button type="button" class="link" onClick=${() => showHop(h)}>${h.id}</button></li>`;

function Slow()
{
    const set = useMemo(() => tileSet({kind: 'lifeline-density', name: 'id'}), []);
    useEffect(() => () => set.close(), []);
    useSignalEffect(() => {
        const from = view.from.value, to = view.to.value;
        untracked(() => set.want(from, to, 1, levelFor(to - from, 256)));
    });
    const hops = slowest(set.tiles.value, view.from.value, view.to.value), {done, all, error} = set.progress.value;
    const none = done < all ? html`<${Loading} title="Looking for hops …" />`
        : html`<${Empty} title="No lifelines in this range"><p>${error ? error.message
            : 'Events with an id make lifelines: instrument a program with libgridline, or run gridline demo.'}</p><//>`;
    const list = html`<ul class="list">${hops.map((h, i) => html`<${Hop} key=${i} h=${h} />`)}</ul>`;
    return html`<${Panel} title="Slowest hops" note="of the range">${hops.length ? list : none}<//>`;
}

const FAULTS = 'SELECT fault, rule, severity, state, host, since, summary FROM faults ORDER BY since DESC LIMIT 2000';

const NOBODY = html`<${Empty} title="No hosts yet"><p>Nobody has registered at this gateway. On a host to watch:
    <code>gridline agent -g tcp://GATEWAY:14830</code>; here and now: <code>gridline run</code>.</p><//>`;

function Page()
{
    const hosts = usePoll('hosts', 5000, options => directory('hosts', {}, options));
    const newest = useNewest();
    const ledger = usePoll('ledger', 5000, options => directory('ledger', {}, options));
    const faults = usePoll('overview faults', 5000, options => sqlObjects(FAULTS, options));
    return html`<div class="overview"><${Stats} hosts=${hosts} ledger=${ledger} faults=${faults} />
        <div class="overview-main"><${Polled} poll=${hosts} loading="Asking the directory for hosts …" title="The hosts could not be loaded"
            empty=${html`<${Panel} title="Hosts">${NOBODY}<//>`}>${rows => html`<${HostGrid} hosts=${rows} newest=${newest} faults=${faults} />`}<//>
            <${ClusterCharts} /></div>
        <div class="overview-side"><${Firing} poll=${faults} /><${Ledger} poll=${ledger} /><${Slow} /></div></div>`;
}

export const page = {id: 'overview', title: 'Overview', key: '1', Page};
