/* sensors.js - the page Sensors: the directory as a table and a tree, and orders to what is in it.
 * Options: q (filter), status, mode, domain (facets), sort, down, tree, open, at (the chosen one's key), tables. */
import './sensors.css';
import {html, cx, useState, useEffect, useLayoutEffect, useMemo, useRef, signal, batch} from '../html.js';
import {view, go, setOptions} from '../state.js';
import {formatTime} from '../time.js';
import {rowsAsTheyCome, orders, directory, latest, sql, quote, may, isAbort} from '../api.js';
import {usePoll} from '../poll.js';
import {useKeys} from '../keys.js';
import {number, count, seconds, ago, withUnit, MISSING} from '../format.js';
import {Button, Field, Panel, Chip, State, Icon, stateLook} from '../ui/basic.js';
import {Empty, Loading, Failed, Stale, Polled} from '../ui/boxes.js';
import {Table} from '../ui/table.js';
import {Dialog} from '../ui/dialog.js';
import {Sparkline} from '../ui/spark.js';
import {say} from '../ui/toast.js';
import {tell} from '../debug.js';
import {COLUMNS, Sensors, filterRows, facetOf, sortRows, treeOf, linesOf, ORDERS, checkSettings, questionsOf, tally, whyNot} from './sensors_model.js';

const FEW = 3000, EVERY_MS = 4000, SELDOM_MS = 60000;

/* ---- the list: one stream, shown while it comes ---- */

const store = signal(new Sensors());
const loading = signal(0); /* rows so far, while the first list comes */
let loadedAt = -Infinity, lastFilterMs = 0;

/* Every few seconds; of many, every minute. */
async function load({signal: abort})
{
    const isFirst = loadedAt === -Infinity;
    if (performance.now() - loadedAt < (store.peek().n > FEW ? SELDOM_MS : 0))
        return store.peek().n;
    const next = new Sensors(Math.max(1024, store.peek().n));
    let shown = 0;
    await rowsAsTheyCome('directory?format=columns&columns=' + COLUMNS, {signal: abort, onRows: blocks => {
        for (const block of blocks)
            next.add(block);
        if (!isFirst || (shown && next.n - shown < 25000))
            return;
        batch(() => {
            loading.value = next.n;
            if (shown === 0) /* what is there is seen at once, the rest when it is whole */
                store.value = Object.assign(Object.create(Sensors.prototype), next);
        });
        shown = next.n;
    }});
    loadedAt = performance.now();
    batch(() => {
        store.value = next;
        loading.value = 0;
    });
    return next.n;
}

/* ---- columns ---- */

const StatusCell = ({s, i}) => html`<${State} state=${s.text('status', i)} />`;
const every = v => Number.isNaN(v) ? MISSING : seconds(v / 1e3);

const columnsOf = s => [
    {id: 'host', label: 'Host', value: i => s.text('host', i)}, {id: 'sensor', label: 'Sensor', value: i => s.text('sensor', i)},
    {id: 'status', label: 'Status', value: i => s.text('status', i), cell: i => html`<${StatusCell} s=${s} i=${i} />`},
    {id: 'mode', label: 'Mode', value: i => s.text('mode', i) || MISSING},
    {id: 'every_ms', label: 'Every', end: true, value: i => s.number('every_ms', i), cell: i => every(s.number('every_ms', i))},
    {id: 'rate', label: 'Events/s', end: true, value: i => s.number('rate', i), cell: i => number(s.number('rate', i))},
    {id: 'consumers', label: 'Consumers', end: true, value: i => s.number('consumers', i), cell: i => count(s.number('consumers', i))},
    {id: 'age_ms', label: 'Last event', end: true, value: i => s.number('age_ms', i), cell: i => Number.isNaN(s.number('age_ms', i)) ? 'never' : ago(s.number('age_ms', i) * 1e3)},
    {id: 'host_state', label: 'Lease', value: i => s.text('host_state', i)},
    {id: 'why', label: 'Why', value: i => s.text('why', i)},
];

/* ---- facets ---- */

function Facet({s, rows, name, label})
{
    const on = new Set(view.options.value[name] ?? []);
    const values = useMemo(() => facetOf(s, rows, name), [s, rows, name]);
    const shown = [...values, ...[...on].filter(v => !values.some(([x]) => x === v)).map(v => [v, 0])].slice(0, 12);
    const turn = v => {
        on.has(v) ? on.delete(v) : on.add(v);
        setOptions({[name]: on.size ? [...on] : undefined});
    };
    return shown.length > 1 || on.size ? html`<div class="facet" role="group" aria-label=${label}><span class="note">${label}</span>${shown.map(([v, n]) => {
        const [look, icon] = name === 'status' ? stateLook(v) : ['off', null];
        return html`<button key=${v} type="button" class=${cx('chip', 'facet-chip', look, on.has(v) && 'on')} aria-pressed=${on.has(v)} onClick=${() => turn(v)}>${icon && html`<${Icon} name=${icon} />`}${v || '–'} <span class="num">${count(n)}</span></button>`;
    })}</div>` : null;
}

/* ---- the tree, as long as it likes ---- */

const LINE = 25;

function DirectoryTree({s, rows, selected, onPick, onHost})
{
    const tree = useMemo(() => treeOf(s, rows), [s, rows]);
    const open = useMemo(() => new Set(view.options.value.open ?? []), [view.options.value.open]);
    const lines = useMemo(() => linesOf(s, tree, open), [tree, open]);
    const [{top, height}, setSeen] = useState({top: 0, height: 500}), [at, setAt] = useState(0), box = useRef(null);
    useLayoutEffect(() => {
        const look = () => setSeen({top: box.current.scrollTop, height: box.current.clientHeight});
        const observer = new ResizeObserver(look);
        observer.observe(box.current);
        box.current.addEventListener('scroll', look, {passive: true});
        return () => observer.disconnect();
    }, []);
    const turn = (line, to = !line.isOpen) => {
        const next = new Set(open);
        next.delete(line.id);
        next.delete('-' + line.id);
        next.add(to ? line.id : '-' + line.id);
        setOptions({open: [...next].filter(id => id[0] !== '-' || id[1] === 'd').slice(-500)});
    };
    const pick = line => line.kind === 'sensor' ? onPick(line.row) : line.kind === 'host' ? onHost(line.node.label) : turn(line);
    const move = to => {
        const next = Math.max(0, Math.min(lines.length - 1, to));
        setAt(next);
        if (next * LINE < box.current.scrollTop)
            box.current.scrollTop = next * LINE;
        else if ((next + 1) * LINE > box.current.scrollTop + height)
            box.current.scrollTop = (next + 1) * LINE - height;
        if (lines[next]?.kind === 'sensor')
            onPick(lines[next].row);
    };
    const onKey = e => {
        const line = lines[Math.min(at, lines.length - 1)];
        const to = {ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: lines.length - 1, PageDown: at + Math.floor(height / LINE), PageUp: at - Math.floor(height / LINE)}[e.key];
        if (!line)
            return;
        if (to !== undefined)
            move(to);
        else if (e.key === 'ArrowRight' && line.kind !== 'sensor')
            line.isOpen ? move(at + 1) : turn(line, true);
        else if (e.key === 'ArrowLeft')
            line.isOpen ? turn(line, false) : move(lines.findLastIndex((l, i) => i < at && l.depth < line.depth));
        else if (e.key === 'Enter' || e.key === ' ')
            pick(line);
        else
            return;
        e.preventDefault();
        e.stopPropagation();
    };
    const first = Math.max(0, Math.floor(top / LINE) - 6), last = Math.min(lines.length, Math.ceil((top + height) / LINE) + 6);
    return html`<div class="dir-tree" role="tree" aria-label="Directory" tabindex="0" ref=${box} onKeyDown=${onKey} aria-activedescendant=${lines[at] && at >= first && at < last ? 'dir-' + at : undefined} data-keys="own">
        <div class="dir-space" style=${{height: lines.length * LINE + 'px'}}>${lines.slice(first, last).map((line, k) => {
            const i = first + k, status = line.kind === 'sensor' ? s.text('status', line.row) : line.kind === 'host' ? line.node.state : '';
            const [look, icon] = stateLook(status);
            return html`<div key=${line.id} id=${'dir-' + i} role="treeitem" aria-level=${line.depth + 1} aria-setsize=${lines.length} aria-posinset=${i + 1} aria-expanded=${line.kind === 'sensor' ? undefined : line.isOpen}
                aria-selected=${line.kind === 'sensor' && line.row === selected} class=${cx('dir-line', line.kind, i === at && 'at', line.kind === 'sensor' && line.row === selected && 'selected')}
                style=${{top: i * LINE + 'px', '--depth': line.depth}} onClick=${() => { setAt(i); pick(line); }}>
                ${line.kind !== 'sensor' && html`<span class="tree-turn" onClick=${e => { e.stopPropagation(); turn(line); }}><${Icon} name=${line.isOpen ? 'down' : 'right'} /></span>`}
                ${status && html`<${Icon} name=${icon} class=${'text-' + (look === 'off' || look === 'info' ? 'dim' : look)} />`}
                <span class="tree-label">${line.kind === 'sensor' ? s.text('sensor', line.row) : line.node.label}</span>
                <span class="tree-hint">${line.kind === 'sensor' ? status : html`${line.node.bad > 0 && html`<span class="text-error">${count(line.node.bad)} of </span>`}${count(line.node.n)}`}</span></div>`;
        })}</div></div>`;
}

/* ---- the chosen one ---- */

const numeric = type => type === 'int' || type === 'uint' || type === 'float';

/* The newest event of it, and a curve of the field that is chosen. */
function Values({host, event, prog})
{
    const schema = usePoll(`schema ${event}`, 60000, async ({signal}) => (await directory('schemas', {event, fields: 1}, {signal})).filter(f => f.event === event));
    const newest = usePoll(`latest ${host} ${event}`, 2000, ({signal}) => latest({event, host}, {signal}));
    const fields = schema.value.value ?? [], rows = newest.value.value ?? [];
    const [stream, setStream] = useState(0), [chosen, setChosen] = useState(null);
    const row = rows[Math.min(stream, rows.length - 1)];
    const keys = fields.filter(f => f.role === 'key' && row?.[f.field] !== undefined);
    const field = chosen ?? fields.find(f => numeric(f.type) && f.role !== 'key' && f.kind !== 'counter')?.field ?? fields.find(f => numeric(f.type) && f.role !== 'key')?.field;
    const isCounter = fields.find(f => f.field === field)?.kind === 'counter';
    const where = row ? ` AND prog = ${quote(row.prog ?? prog)}` + keys.map(k => ` AND "${k.field.replaceAll('"', '""')}" = ${quote(row[k.field])}`).join('') : '';
    const curve = usePoll(`curve ${host} ${event} ${field} ${where} ${Math.round(view.span.value)}`, 4000, async ({signal}) => {
        if (!field || !row)
            return [];
        const span = Math.min(view.to.peek() - view.from.peek(), 3600e6), to = view.to.peek();
        const r = await sql(`SELECT time / 1000, "${field.replaceAll('"', '""')}" FROM "${event.replaceAll('"', '""')}" WHERE host = ${quote(host)}${where} AND time BETWEEN ${BigInt(Math.round(to - span)) * 1000n} AND ${BigInt(Math.round(to)) * 1000n} ORDER BY time DESC LIMIT 400`, {signal});
        const points = r.rows.reverse();
        return isCounter ? points.slice(1).map(([t, v], i) => [t, v >= points[i][1] ? (v - points[i][1]) / ((t - points[i][0]) / 1e6) : null]) : points;
    });
    if (newest.state.value === 'loading' || schema.state.value === 'loading')
        return html`<${Loading} />`;
    if (!row)
        return html`<p class="note">No event has come: the gateway has no newest one of ${event} from ${host}.</p>`;
    const points = curve.value.value ?? [];
    const streams = rows.map((r, i) => [String(i), keys.map(k => r[k.field]).join(', ') || r.prog || String(i)]);
    return html`<div class="values">
        <div class="values-curve"><strong>${field}</strong>${isCounter && html`<span class="note">a second</span>`}
            <${Sparkline} values=${points.map(p => p[1])} width=${260} height=${54} min=${null} label=${`${field} of the last ${points.length} events`} />
            <span class="values-last">${points.length ? withUnit(points.at(-1)[1], fields.find(f => f.field === field)?.unit, isCounter) : MISSING}</span>
            ${field && html`<${Button} icon="timeline" onClick=${() => go('timeline', {lanes: [{kind: 'curves', of: [{event, field, ...(isCounter && {isRate: true})}], host}, {kind: 'points', event, host}, {kind: 'lifelines', ids: 'id'}]})}>Plot this<//>`}
            ${rows.length > 1 && html`<${Field} label="Of" hideLabel type="select" value=${String(Math.min(stream, rows.length - 1))} options=${streams.slice(0, 500)} onInput=${v => setStream(Number(v))} />`}</div>
        <${Table} label=${'Fields of ' + event} max=${9} rows=${fields} rowKey=${f => f.field} selected=${field} onPick=${f => numeric(f.type) && setChosen(f.field)} columns=${[
            {id: 'field', label: 'Field', value: f => f.field}, {id: 'value', label: 'Newest', end: true, value: f => row[f.field], cell: f => row[f.field] === undefined ? MISSING : numeric(f.type) ? withUnit(row[f.field], f.unit) : String(row[f.field])},
            {id: 'type', label: 'Type', value: f => f.type}, {id: 'kind', label: 'Kind', value: f => f.role === 'key' ? 'key' : f.kind}, {id: 'unit', label: 'Unit', value: f => f.unit ?? ''}, {id: 'help', label: 'Is', value: f => f.help ?? ''}]} />
    </div>`;
}

/* Since when it is as it is. */
function Since({host, sensor})
{
    const poll = usePoll(`since ${host} ${sensor}`, 10000, ({signal}) => directory('', {host, sensor}, {signal}));
    const started = poll.value.value?.find(r => r.host === host && r.sensor === sensor)?.started;
    return started && html`<span>since ${formatTime(Date.parse(started) * 1e3, {digits: 0})}</span>`;
}

function Chosen({row, onOrder})
{
    const events = row.events ? row.events.split(',') : [];
    const [event, setEvent] = useState(events[0] ?? '');
    const isAllowed = may('control');
    return html`<${Panel} title=${`${row.sensor} on ${row.host}`} class="chosen" aside=${html`<${Button} kind="quiet" icon="close" label="Close" onClick=${() => setOptions({at: undefined})} />`}>
        <div class="chosen-facts"><${State} state=${row.status} />${row.why && html`<span class="text-error">${row.why}</span>`}
            <span>${row.mode || 'mode not known'}${row.every_ms ? ', every ' + seconds(row.every_ms / 1e3) : ''}</span><span>${number(row.rate)} events/s</span><span>${count(row.consumers)} consumers</span>
            <span>host ${row.host_state}</span><${Since} host=${row.host} sensor=${row.sensor} />${row.expected && html`<${Chip} look="info">expected<//>`}</div>
        <div class="order-bar" role="group" aria-label="Orders">${Object.entries(ORDERS).map(([id, o]) => {
            const why = whyNot(id, [row], isAllowed);
            return html`<${Button} key=${id} kind=${o.grave ? 'danger' : 'plain'} aria-disabled=${why ? 'true' : undefined} title=${why || o.help} class=${cx(why && 'cannot')} onClick=${() => why ? say(why) : onOrder(id)}>${o.label}<//>`;
        })}</div>
        ${!isAllowed && html`<p class="note"><${Icon} name="user" /> ${whyNot('start', [row], false)}</p>`}
        <div class="chosen-links">${events.length > 1 && html`<${Field} label="Event" hideLabel type="select" value=${event} options=${events.map(e => [e, e])} onInput=${setEvent} />`}
            <${Button} icon="host" onClick=${() => go('host', {hosts: [row.host]})}>Host<//>
            ${event && html`<${Button} icon="sql" onClick=${() => go('sql', {ran: true, q: `SELECT * FROM "${event}" WHERE host = ${quote(row.host)} AND time BETWEEN :from AND :to\nORDER BY time DESC LIMIT 200`})}>SQL<//>`}</div>
        ${event ? html`<${Values} key=${row.host + event} host=${row.host} event=${event} prog=${row.sensor} />` : html`<p class="note">It has told of no events yet.</p>`}
    <//>`;
}

/* ---- orders: choose, plan, apply, answers ---- */

const MODES = [['', 'as it is'], ['always', 'always'], ['on-request', 'while somebody asks for it'], ['port', 'while its ports have traffic'], ['off', 'off']];
const LEVELS = ['emergency', 'error', 'warning', 'notice', 'info', 'debug', 'trace', 'off', 'default'];

function SettingsForm({order, given, set, error})
{
    const text = (name, label, hint) => html`<${Field} label=${label} value=${given[name] ?? ''} onInput=${v => set({[name]: v})} error=${error[name]} hint=${hint} />`;
    if (order === 'ports')
        return html`${text('ports', 'Ports', 'TCP ports by commas: 5001, 2811. It runs while one of them has traffic')}${text('hold', 'Goes on for', 'after the last traffic: 10s')}`;
    if (order === 'activate')
        return html`${text('pattern', 'Events', 'names, or a pattern: transfer.*')}<${Field} label="Down to the level" type="select" value=${given.level ?? 'debug'} options=${LEVELS.map(l => [l, l])} onInput=${level => set({level})} />`;
    return html`<div class="settings">${text('every', 'Every', '500ms, 2s, 1m')}${text('refresh', 'At least every', 'changed or not')}${text('change', 'Only when it moved by', 'load1 0.5, or * 5%')}
        <${Field} label="Runs" type="select" value=${given.mode ?? ''} options=${MODES} onInput=${mode => set({mode})} />${given.mode === 'port' && text('ports', 'Ports', '5001, 2811')}${text('priority', 'Priority', '0 last, 9 first to be slowed')}</div>`;
}

/* The arguments of the form, or what is wrong with it. */
function argsOf(order, given)
{
    if (order === 'activate')
        return given.pattern?.trim() ? {args: {pattern: given.pattern.trim(), level: given.level ?? 'debug'}} : {error: {pattern: 'which events?'}};
    if (order !== 'set' && order !== 'ports')
        return {args: {}};
    const {set, error} = checkSettings(order === 'ports' ? {...given, mode: 'port'} : given);
    return error ? {error} : {args: {set}};
}

/* Asks all questions of a list, one after the other; rows as they come. */
async function askAll(questions, {signal: abort, onRows})
{
    for (const q of questions) {
        const {args} = q;
        const end = await orders(q.verb, {timeout_ms: 20000, ...args}, {signal: abort, onRows: rows => onRows(rows.map(r => ({sensor: args.sensor, ...r})))});
        if (end.status === 'usage' || (end.status === 'not_allowed' && end.rows === 0))
            throw new Error(end.text || end.status);
    }
}

const ANSWER_COLUMNS = [
    {id: 'host', label: 'Host', value: a => a.host}, {id: 'sensor', label: 'Sensor', value: a => a.sensor ?? ''},
    {id: 'answer', label: 'Answer', value: a => a.answer, cell: a => html`<${State} state=${a.answer === 'would_ask' ? 'ok' : a.answer === 'done' ? 'done' : a.answer ? 'failed' : 'pending'} text=${(a.answer ?? 'under way').replaceAll('_', ' ')} />`},
    {id: 'cost', label: 'Costs', end: true, value: a => a.cost_observed ?? a.cost_predicted, cell: a => cost(a.cost_observed ?? a.cost_predicted)},
    {id: 'text', label: 'It said', value: a => a.text ?? ''},
];
const cost = us => typeof us === 'number' && us >= 0 ? `${number(us)} µs/s` : MISSING;

function OrderDialog({order, row, s, rows, onClose, again})
{
    const o = ORDERS[order];
    const same = useMemo(() => [...rows].filter(i => s.text('sensor', i) === row.sensor), [rows]);
    const scopes = [['one', o.of === 'host' ? row.host : `${row.sensor} on ${row.host}`],
                    ...(o.of === 'sensor' && same.length > 1 ? [['same', `${row.sensor} on the ${count(same.length)} hosts of the list`]] : []),
                    ...(rows.length > 1 ? [['all', o.of === 'host' ? 'all hosts of the list' : `all ${count(rows.length)} of the list`]] : [])];
    const [scope, setScope] = useState('one'), [given, setGiven] = useState({}), [error, setError] = useState({});
    const [state, setState] = useState({is: 'form'}), [answers, setAnswers] = useState([]), abort = useRef(null);
    useEffect(() => () => abort.current?.abort(), []);
    const chosen = (scope === 'one' ? [row.i] : scope === 'same' ? same : [...rows]).map(i => s.row(i))
        .filter(r => o.of === 'host' || (r.mode !== 'program' && r.mode !== 'archive' && r.sensor !== '*'));
    const hosts = new Set(chosen.map(r => r.host)).size;

    const run = async (is, dry) => {
        const {args, error: wrong} = argsOf(order, given);
        setError(wrong ?? {});
        if (wrong)
            return;
        const questions = questionsOf(order, chosen, {...args, ...(dry && {dry_run: true})});
        const asked = questions.reduce((n, q) => n + q.hosts.length, 0);
        const mine = abort.current = new AbortController();
        let list = [];
        const take = got => {
            const byKey = new Map(list.map(a => [a.host + ' ' + a.sensor, a]));
            for (const a of got.filter(a => a.host))
                byKey.set(a.host + ' ' + a.sensor, {...byKey.get(a.host + ' ' + a.sensor), ...a});
            list = [...byKey.values()];
            setAnswers(list);
        };
        setAnswers([]);
        setState({is, asked, isRunning: true});
        try {
            await askAll(questions, {signal: mine.signal, onRows: take});
            if (!dry && o.then) {
                list = list.map(a => a.answer === 'done' ? {...a, answer: undefined} : a);
                await askAll(questions.map(q => ({...q, verb: o.then})), {signal: mine.signal, onRows: take});
            }
            setState({is, asked, isRunning: false});
            if (!dry)
                setTimeout(again, 800);
        } catch (e) {
            if (!isAbort(e))
                setState({is: 'form', error: e});
        }
    };
    const t = tally(answers, state.asked ?? 0);
    const failures = answers.filter(a => a.answer && a.answer !== 'done' && a.answer !== 'would_ask');
    const shown = failures.length ? [...failures, ...answers.filter(a => !failures.includes(a))] : answers;
    const foot = state.is === 'form' ? html`<${Button} onClick=${onClose}>Cancel<//><${Button} kind="primary" onClick=${() => run('plan', true)}>Plan<//>`
        : state.is === 'plan' ? html`<${Button} onClick=${() => setState({is: 'form'})}>Back<//><${Button} kind=${o.grave ? 'danger' : 'primary'} disabled=${state.isRunning || t.done === 0} onClick=${() => run('apply', false)}>${o.grave ? `${o.label.replace(' …', '')} on ${hosts === 1 ? row.host : hosts + ' hosts'}` : 'Apply'}<//>`
        : html`<${Button} kind="primary" onClick=${onClose}>${state.isRunning ? 'Close: it goes on' : 'Close'}<//>`;
    return html`<${Dialog} title=${`${o.label.replace(' …', '')}: ${row.sensor}`} onClose=${onClose} actions=${foot} class="order-dialog">
        ${state.is === 'form' && html`${state.error && html`<${Failed} error=${state.error} title="The order was not taken" />`}
            <p>${o.help}.</p><${Field} label="What" type="select" value=${scope} options=${scopes} onInput=${setScope} />
            ${(order === 'set' || order === 'ports' || order === 'activate') && html`<${SettingsForm} order=${order} given=${given} set=${part => setGiven({...given, ...part})} error=${error} />`}
            <p class="note">Nothing happens yet: the plan asks ${hosts === 1 ? 'the host' : `each of ${count(hosts)} hosts`} what it would do and cost.</p>`}
        ${state.is !== 'form' && html`<p role="status" class="order-sum">${state.isRunning && html`<span class="spinner" aria-hidden="true"></span>`}
                <strong>${t.answered} of ${t.asked}</strong> ${state.is === 'plan' ? 'have answered' : 'are done or have said why not'}${t.failed > 0 && html`, <span class="text-error">${t.failed} ${state.is === 'plan' ? 'would not' : 'failed'}</span>`}.
                ${!Number.isNaN(t.cost) && html` ${state.is === 'plan' ? 'It would cost' : 'It costs'} ${cost(t.cost)} of CPU in all, at most ${cost(t.most)} on one host.`}</p>
            <progress max=${t.asked || 1} value=${t.answered} aria-label="Answers"></progress>
            <${Table} label="Answers of the hosts" columns=${ANSWER_COLUMNS} rows=${shown} max=${10} rowKey=${a => a.host + ' ' + a.sensor} empty="No host has answered yet." />
            ${state.is === 'plan' && !state.isRunning && html`<p class="note">${o.grave ? 'This takes something away from whoever uses it. ' : ''}Nothing has been changed yet.</p>`}`}
    <//>`;
}

/* ---- the page ---- */

function Page()
{
    const options = view.options.value, s = store.value;
    const isMany = s.n > FEW;
    const list = usePoll('directory', EVERY_MS, load);
    const [order, setOrder] = useState(null), search = useRef(null);
    const host = view.filter.value.host;
    const text = [options.q ?? '', host && !/[*?[,]/.test(host) ? 'host:' + host : ''].filter(Boolean).join(' ');
    const facets = {status: new Set(options.status ?? []), mode: new Set(options.mode ?? []), domain: new Set(options.domain ?? [])};
    const found = useMemo(() => {
        const began = performance.now();
        const rows = filterRows(s, text, facets);
        const sorted = options.sort ? sortRows(s, rows, options.sort, options.down === true) : rows;
        lastFilterMs = performance.now() - began;
        return sorted;
    }, [s, text, JSON.stringify([options.status, options.mode, options.domain]), options.sort, options.down]);
    const columns = useMemo(() => columnsOf(s), [s]);
    const at = useMemo(() => options.at === undefined ? -1 : findKey(s, options.at), [s, options.at]);
    const isTree = options.tree === true;

    useKeys([{code: 'KeyF', label: 'Filter sensors', group: 'Sensors', run: () => search.current?.querySelector('input').focus()},
             {code: 'KeyV', label: 'Tree or table', group: 'Sensors', run: () => setOptions({tree: isTree ? undefined : true})}], [isTree]);
    useEffect(() => tell('sensors', () => ({rows: s.n, shown: found.length, text, filterMs: lastFilterMs, loading: loading.peek()})), [s, found]);

    if (s.n === 0 && list.state.value === 'loading')
        return html`<${Loading} title="Reading the directory …" />`;
    if (s.n === 0 && list.state.value === 'failed')
        return html`<${Failed} error=${list.error.value} title="The directory could not be read" again=${list.again} />`;
    if (s.n === 0)
        return html`<${Empty} title="No sensors yet"><p>Agents announce their sensors when they connect: “gridline agent -g …” on a host, or “gridline run” here.</p><//>`;
    const pick = i => setOptions({at: s.key(i)});
    return html`<div class=${cx('sensors-page', at >= 0 && 'with-chosen')}>
        <div class="sensors-list">
            ${list.state.value === 'stale' && html`<${Stale} error=${list.error.value} again=${list.again} />`}
            <div class="sensors-head" ref=${search}><${Field} label="Filter" hideLabel type="search" value=${options.q ?? ''} placeholder="Filter: words, host:node7, -idle, rate>10, age>60 …" onInput=${q => setOptions({q: q || undefined})} />
                <div class="segments" role="group" aria-label="Shown as"><${Button} icon="table" pressed=${!isTree} onClick=${() => setOptions({tree: undefined})}>Table<//><${Button} icon="sensors" pressed=${isTree} onClick=${() => setOptions({tree: true})}>Tree<//></div>
                <span class="note" role="status">${loading.value ? `${count(loading.value)} sensors so far …` : found.length === s.n ? `${count(s.n)} sensors` : `${count(found.length)} of ${count(s.n)}`}</span>
                ${isMany && html`<${Button} kind="quiet" onClick=${() => { loadedAt = 0; list.again(); }}>Refresh<//>`}</div>
            <div class="facets"><${Facet} s=${s} rows=${found} name="status" label="Status" /><${Facet} s=${s} rows=${found} name="mode" label="Mode" /><${Facet} s=${s} rows=${found} name="domain" label="Domain" /></div>
            <div class="sensors-body">${isTree ? html`<${DirectoryTree} s=${s} rows=${found} selected=${at} onPick=${pick} onHost=${h => setOptions({q: 'host:' + h, tree: undefined})} />`
                : html`<${Table} label="Sensors" columns=${columns} rows=${found} isSorted sort=${options.sort ? {by: options.sort, down: options.down === true} : null} onSort=${x => setOptions({sort: x.by, down: x.down || undefined})}
                    rowKey=${i => i} selected=${at} onPick=${pick} empty=${`None of ${count(s.n)} sensors passes the filter.`} />`}</div>
        </div>
        ${at >= 0 && html`<${Chosen} key=${options.at} row=${s.row(at)} onOrder=${setOrder} />`}
        ${order && at >= 0 && html`<${OrderDialog} order=${order} row=${s.row(at)} s=${s} rows=${found} onClose=${() => setOrder(null)} again=${list.again} />`}
    </div>`;
}

function findKey(s, key)
{
    for (let i = 0; i < s.n; i++) {
        if (s.key(i) === key)
            return i;
    }
    return -1;
}

export const page = {id: 'sensors', title: 'Sensors', key: '5', Page};
