/* faults.js - the page Faults: what is wrong now, what was, and the rules that say so. Options: tab, fault (the one that is open), rule. */
import './faults.css';
import {html, cx, useState, useEffect, useMemo, useRef} from '../html.js';
import {view, go, setOptions, setFilter, setRange, setCursor} from '../state.js';
import {formatTime, formatSpan, isoTime, now} from '../time.js';
import {control, sqlOnce, quote, may, isAbort} from '../api.js';
import {usePoll} from '../poll.js';
import {useKeys} from '../keys.js';
import {ago, count, seconds} from '../format.js';
import {timeTicks} from '../axis.js';
import {Button, Field, Panel, Chip, State, Icon} from '../ui/basic.js';
import {Empty, Loading, Failed, Polled} from '../ui/boxes.js';
import {Table} from '../ui/table.js';
import {Dialog} from '../ui/dialog.js';
import {toast} from '../ui/toast.js';
import {tell} from '../debug.js';
import {openFaults, stripsOf, backtestOf, backtestSentence, silenceArgs, isSilencedBy, heldBack, timeOfText, SEVERITY_ORDER} from './faults_model.js';

const EVERY_MS = 2500, STRIPS_MAX = 200;
const NOT_ALLOWED = 'You may not give orders here: the access table of this gateway does not give you “control”.';

const SEVERITY_LOOK = {critical: ['error', 'cross'], error: ['error', 'cross'], warning: ['warn', 'triangle'], notice: ['info', 'diamond'], info: ['info', 'circle']};
const Severity = ({severity}) => {
    const [look, icon] = SEVERITY_LOOK[severity] ?? ['off', 'dot'];
    return html`<${Chip} look=${look} icon=${icon}>${severity || '–'}<//>`;
};
const severityRank = f => SEVERITY_ORDER.indexOf(f.severity);

/* ---- strips: a line each on the axis of time ---- */

function Axis({from, to})
{
    const [width, setWidth] = useState(600), ref = useRef(null);
    useEffect(() => {
        const observer = new ResizeObserver(() => setWidth(ref.current?.clientWidth || 600));
        observer.observe(ref.current);
        return () => observer.disconnect();
    }, []);
    const ticks = timeTicks(from, to, Math.max(2, width / 90), view.zone.value);
    return html`<div class="strip axis" aria-hidden="true"><span></span><div class="strip-track" ref=${ref}>${ticks.map(t => html`<span key=${t.at} class="strip-tick" style=${{'--at': (t.at - from) / (to - from)}}>${t.label}</span>`)}</div></div>`;
}

/* strips: [{fault, rule, target, severity, pieces: [{state, from, to}]}] */
function Strips({strips, from, to, selected, onPick, label})
{
    const part = t => (t - from) / (to - from);
    const cursor = view.cursor.value;
    const follow = e => {
        const track = e.target.closest('.strip-track');
        if (!track)
            return setCursor(null);
        const box = track.getBoundingClientRect();
        return setCursor(from + (e.clientX - box.left) / box.width * (to - from));
    };
    return html`<div class="strips" role="list" aria-label=${label} onMouseMove=${follow} onMouseLeave=${() => setCursor(null)}>
        <${Axis} from=${from} to=${to} />
        ${strips.slice(0, STRIPS_MAX).map(s => html`<div class=${cx('strip', s.fault === selected && 'selected')} role="listitem" key=${s.fault}>
            <button type="button" class="strip-name" onClick=${() => onPick?.(s)} title=${s.summary}><${Icon} name=${(SEVERITY_LOOK[s.severity] ?? ['off', 'dot'])[1]} class=${'text-' + (SEVERITY_LOOK[s.severity] ?? ['dim'])[0]} />
                <span>${s.rule}${s.target ? ' · ' + s.target : ''}</span></button>
            <div class="strip-track" role="img" aria-label=${s.pieces.map(p => `${p.state} from ${formatTime(p.from, {digits: 0})} for ${formatSpan(p.to - p.from)}`).join('; ')}>
                ${s.pieces.map((p, i) => html`<span key=${i} class=${'piece ' + p.state} style=${{'--at': part(p.from), '--width': part(p.to) - part(p.from)}} title=${`${p.state}, ${formatSpan(p.to - p.from)}`}></span>`)}
                ${cursor !== null && cursor >= from && cursor <= to && html`<span class="strip-cursor" style=${{'--at': part(cursor)}}></span>`}
            </div></div>`)}
        ${strips.length > STRIPS_MAX && html`<p class="note">The ${STRIPS_MAX} gravest of ${count(strips.length)}; the table has all.</p>`}
        <p class="strip-key"><span class="piece firing"></span>firing <span class="piece acknowledged"></span>acknowledged <span class="piece clearing"></span>clearing</p>
    </div>`;
}

/* ---- orders ---- */

async function order(verb, args, text, again)
{
    try {
        const {end} = await control(verb, args);
        if (end.status !== 'done')
            throw new Error(end.text || end.status);
        toast(end.text || text, 'ok');
        setTimeout(again, 700); /* the guard has to hear of it */
        return true;
    } catch (e) {
        toast(e.message, 'error');
        return false;
    }
}

function AckDialog({fault, onClose, again})
{
    const [note, setNote] = useState('');
    const send = async e => {
        e.preventDefault();
        if (await order('ack', {fault: fault.fault, ...(note.trim() && {note: note.trim()})}, 'Acknowledged: nothing more is told of it until it clears', again))
            onClose();
    };
    return html`<${Dialog} title="Acknowledge" onClose=${onClose}><form onSubmit=${send}>
        <p>${fault.summary || fault.rule}</p><p class="note">Nobody is told of it again until it clears. Its clear is told to those who heard of it.</p>
        <${Field} label="Note" value=${note} onInput=${setNote} maxlength="900" autofocus hint="Who takes care, what is being done. Everybody sees it." />
        <div class="row-end"><${Button} onClick=${onClose}>Cancel<//><button type="submit" class="button primary">Acknowledge</button></div></form><//>`;
}

const LENGTHS = [['0.5', '30 minutes'], ['1', '1 hour'], ['2', '2 hours'], ['8', '8 hours'], ['24', '1 day'], ['72', '3 days'], ['168', '1 week']];

function SilenceDialog({fault, faults, onClose, again})
{
    const [f, setF] = useState({rule: fault?.rule ?? '', host: fault?.host ?? '', where: '', note: '', hours: '2', everything: false});
    const [error, setError] = useState({});
    const set = part => setF({...f, ...part});
    const hit = faults.filter(x => f.everything || isSilencedBy({rule: f.rule, hosts: f.host}, x));
    const send = async e => {
        e.preventDefault();
        const {args, error: wrong} = silenceArgs(f, now());
        setError(wrong ?? {});
        if (args && await order('silence', args, 'Silenced until ' + formatTime(args.until / 1e3, {digits: 0}), again))
            onClose();
    };
    return html`<${Dialog} title="Silence" onClose=${onClose}><form onSubmit=${send}>
        <p class="note">Faults that match are watched, but nobody is told, until the time is over. Clears of what was told before are told.</p>
        <${Field} label="Rules" value=${f.rule} onInput=${rule => set({rule})} disabled=${f.everything} error=${error.rule} hint="A name, or a pattern with *; empty: all" autofocus />
        <${Field} label="Hosts" value=${f.host} onInput=${host => set({host})} disabled=${f.everything} hint="A name, or a pattern with *; empty: all" />
        <${Field} label="Only with these values" value=${f.where} onInput=${where => set({where})} disabled=${f.everything} error=${error.where} hint="mount=/scratch device=sdb" />
        <${Field} label="For" type="select" value=${f.hours} options=${LENGTHS} onInput=${hours => set({hours})} error=${error.hours} />
        <${Field} label="Note" value=${f.note} onInput=${note => set({note})} maxlength="900" hint="Why: others see it" />
        <${Field} label="Everything, whatever it is" type="checkbox" value=${f.everything} onInput=${everything => set({everything})} />
        <p role="status" class=${cx('note', hit.length > 1 && 'text-warn')}>${hit.length === 0 ? 'No fault that is open now matches.' : hit.length === 1 ? 'One open fault matches.' : `${hit.length} open faults match.`}</p>
        <div class="row-end"><${Button} onClick=${onClose}>Cancel<//><button type="submit" class=${cx('button', f.everything ? 'danger' : 'primary')}>Silence${f.everything ? ' everything' : ''}</button></div></form><//>`;
}

function Silences({poll, again, canOrder})
{
    const list = poll.value.value ?? [];
    if (!list.length)
        return null;
    const columns = [
        {id: 'rule', label: 'Rules', value: s => s.rule || 'all'}, {id: 'hosts', label: 'Hosts', value: s => s.hosts || 'all'}, {id: 'where', label: 'With', value: s => s.where},
        {id: 'until', label: 'Until', value: s => s.until, cell: s => `${formatTime(s.until / 1e3, {digits: 0})} (${ago(now() - s.until / 1e3)})`},
        {id: 'by', label: 'By', value: s => s.by}, {id: 'note', label: 'Note', value: s => s.note},
        {id: 'end', label: 'Order', cell: s => html`<${Button} kind="quiet" disabled=${!canOrder} title=${canOrder ? undefined : NOT_ALLOWED}
            onClick=${() => order('unsilence', {id: Number(s.silence), guard: s.guard}, 'The silence is over', again)}>End it<//>`},
    ];
    return html`<${Panel} title="Silences" note=${list.length + ' open'} class="flush"><${Table} label="Silences" columns=${columns} rows=${list} max=${6} rowKey=${s => s.guard + s.silence} /><//>`;
}

/* ---- one fault ---- */

function Details({fault, canOrder, onAck, onSilence, again, onClose})
{
    const id = fault.fault;
    const events = usePoll('fault.events ' + id, 5000, ({signal}) => sqlOnce('fault_state', `SELECT time / 1000 AS time, state, severity, episode, told, silenced, hidden, quiet, "by", note, summary, "row" FROM fault_state WHERE fault = ${quote(id)} ORDER BY time DESC LIMIT 200`, {signal}));
    const actions = usePoll('fault.actions ' + id, 5000, ({signal}) => sqlOnce('fault_action', `SELECT time / 1000 AS time, action, kind, result, attempt, waited_ms, ran_ms, text FROM fault_action WHERE fault = ${quote(id)} OR faults LIKE ${quote('%' + id + '%')} ORDER BY time DESC LIMIT 200`, {signal}));
    const fields = useMemo(() => {
        try {
            return Object.entries(JSON.parse(events.value.value?.find(e => e.row)?.row ?? '{}'));
        } catch {
            return [];
        }
    }, [events.value.value]);
    const at = fault.firedUs || fault.sinceUs;
    const why = canOrder ? undefined : NOT_ALLOWED;
    return html`<${Panel} title=${fault.summary || fault.rule} class="fault-details" aside=${html`
            ${fault.state === 'acknowledged' ? html`<${Button} disabled=${!canOrder} title=${why} onClick=${() => order('unack', {fault: id}, 'It is told again', again)}>Un-acknowledge<//>`
                : html`<${Button} kind="primary" disabled=${!canOrder || fault.state === 'cleared'} title=${why} onClick=${onAck}>Acknowledge …<//>`}
            <${Button} disabled=${!canOrder} title=${why} onClick=${onSilence}>Silence …<//>
            <${Button} onClick=${() => { setFilter({host: fault.host ?? ''}); setRange(at - 300e6, Math.min(now(), at + 600e6)); go('timeline'); }}>Timeline then<//>
            ${fault.host && html`<${Button} onClick=${() => go('host', {hosts: [fault.host]})}>Host<//>`}
            <${Button} kind="quiet" icon="close" label="Close" onClick=${onClose} />`}>
        <div class="fault-facts"><${State} state=${fault.state} /><${Severity} severity=${fault.severity} />
            <span>rule <button type="button" class="linkish" onClick=${() => setOptions({tab: 'rules', rule: fault.rule})}>${fault.rule}</button></span><span>since ${formatTime(fault.sinceUs, {digits: 0})}</span><span>episode ${fault.episode}</span><span class="mono">${id}</span>
            ${heldBack(fault) && html`<${Chip} look="info">${heldBack(fault)}<//>`}${fault.acked_by && html`<span>by ${fault.acked_by}${fault.ack_note ? ': ' + fault.ack_note : ''}</span>`}</div>
        ${fields.length > 0 && html`<dl class="fault-row">${fields.map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd class="mono">${String(value)}</dd></div>`)}</dl>`}
        <div class="fault-lists"><div><h3>What happened to it</h3><${Polled} poll=${events} empty=${html`<p class="note">The archive has no event of it.</p>`}>${list => html`<${Table} label="Events of the fault" max=${8} rows=${list} columns=${[
            {id: 'time', label: 'Time', value: e => e.time, cell: e => formatTime(e.time, {digits: 3})}, {id: 'state', label: 'State', value: e => e.state, cell: e => html`<${State} state=${e.state} />`},
            {id: 'told', label: 'Told', value: e => e.told ? 'yes' : 'no'}, {id: 'held', label: 'Held back', value: e => heldBack(e)}, {id: 'note', label: 'Note', value: e => [e.by, e.note].filter(Boolean).join(': ')}]} />`}<//></div>
        <div><h3>What was done about it</h3><${Polled} poll=${actions} empty=${html`<p class="note">No action has run for it: its rule has none, or they are held back.</p>`}>${list => html`<${Table} label="Actions for the fault" max=${8} rows=${list} columns=${[
            {id: 'time', label: 'Time', value: e => e.time, cell: e => formatTime(e.time, {digits: 3})}, {id: 'action', label: 'Action', value: e => e.action}, {id: 'kind', label: 'For', value: e => e.kind},
            {id: 'result', label: 'Result', value: e => e.result, cell: e => html`<${State} state=${e.result} />`}, {id: 'attempt', label: 'Try', end: true, value: e => e.attempt},
            {id: 'ran', label: 'Took', end: true, value: e => e.ran_ms, cell: e => seconds(e.ran_ms / 1e3)}, {id: 'text', label: 'It said', value: e => e.text}]} />`}<//></div></div>
    <//>`;
}

/* ---- now ---- */

const NOW_COLUMNS = [
    {id: 'state', label: 'State', value: f => f.state, cell: f => html`<${State} state=${f.state} />`},
    {id: 'severity', label: 'Severity', value: f => severityRank(f), cell: f => html`<${Severity} severity=${f.severity} />`},
    {id: 'rule', label: 'Rule', value: f => f.rule}, {id: 'host', label: 'About', value: f => f.host},
    {id: 'summary', label: 'Summary', value: f => f.summary},
    {id: 'since', label: 'Since', end: true, value: f => f.sinceUs, cell: f => html`<span title=${formatTime(f.sinceUs, {digits: 0})}>${ago(now() - f.sinceUs)}</span>`},
    {id: 'held', label: 'Held back', value: f => heldBack(f), cell: f => heldBack(f) ? html`<${Chip} look="info">${heldBack(f)}<//>` : html`<span class="note">${f.told ? 'told' : '–'}</span>`},
    {id: 'by', label: 'Acknowledged by', value: f => f.acked_by, cell: f => f.acked_by ? `${f.acked_by}${f.ack_note ? ': ' + f.ack_note : ''}` : ''},
];

function Now({faults, silences, again, canOrder})
{
    const [dialog, setDialog] = useState(null);
    const id = view.options.value.fault;
    return html`<${Polled} poll=${faults} loading="Asking what is wrong …" title="The gateway could not say what is wrong">${value => {
        const list = value.filter(f => !view.filter.value.host || f.host === view.filter.value.host);
        const open = list.filter(f => f.state !== 'cleared');
        const chosen = list.find(f => f.fault === id);
        const close = () => setDialog(null);
        return html`<div class="faults-now">
            ${open.length === 0 ? html`<${Empty} title=${value.length ? 'Nothing is wrong here now' : 'Nothing is wrong'}><p>${view.filter.value.host ? `No open fault is about ${view.filter.value.host}.` : 'No rule of any guard fires. What was wrong before is under History.'}</p><//>`
                : html`<${Panel} title="Open faults" note=${`${open.filter(f => f.state === 'firing').length} firing of ${open.length}`} class="flush" aside=${html`<${Button} disabled=${!canOrder} title=${canOrder ? undefined : NOT_ALLOWED} onClick=${() => setDialog('silence-new')}>Silence …<//>`}>
                    <${Table} label="Open faults" columns=${NOW_COLUMNS} rows=${open} rowKey=${f => f.fault} selected=${id} max=${16} onPick=${f => setOptions({fault: f.fault})} /><//>`}
            <${Silences} poll=${silences} again=${again} canOrder=${canOrder} />
            ${chosen && html`<${Details} key=${id} fault=${chosen} canOrder=${canOrder} again=${again} onAck=${() => setDialog('ack')} onSilence=${() => setDialog('silence')} onClose=${() => setOptions({fault: undefined})} />`}
            ${dialog === 'ack' && chosen && html`<${AckDialog} fault=${chosen} onClose=${close} again=${again} />`}
            ${dialog === 'silence' && html`<${SilenceDialog} fault=${chosen} faults=${open} onClose=${close} again=${again} />`}
            ${dialog === 'silence-new' && html`<${SilenceDialog} faults=${open} onClose=${close} again=${again} />`}
        </div>`;
    }}<//>`;
}

/* ---- history ---- */

const STEP = 10e6;

function History()
{
    const isLive = view.mode.value === 'live';
    const to = isLive ? Math.ceil(view.to.value / STEP) * STEP : view.to.value, from = to - (view.to.value - view.from.value);
    const ns = us => BigInt(Math.round(us)) * 1000n;
    const host = view.filter.value.host;
    const rows = usePoll(`fault.history ${from} ${to} ${host}`, isLive ? 10000 : 600000, async ({signal}) => {
        const columns = 'time / 1000 AS time, fault, rule, target, state, severity, summary, episode';
        const about = host ? ` AND target = ${quote(host)}` : '';
        const before = await sqlOnce('fault_state', `SELECT max(time) / 1000 AS time, fault, rule, target, state, severity, summary, episode FROM fault_state WHERE time < ${ns(from)} AND time > ${ns(from - 7 * 86400e6)}${about} GROUP BY fault`, {signal});
        const within = await sqlOnce('fault_state', `SELECT ${columns} FROM fault_state WHERE time BETWEEN ${ns(from)} AND ${ns(to)}${about} ORDER BY time LIMIT 20000`, {signal, rows: 20001});
        return {from, to, strips: stripsOf([...before.filter(r => r.state !== 'cleared').sort((a, b) => a.time - b.time), ...within], from, Math.min(to, now())), events: within};
    });
    const isTable = view.options.value.tables === true;
    return html`<${Polled} poll=${rows} loading="Looking what was wrong …" title="The history could not be read">${h => h.strips.length === 0
        ? html`<${Empty} title="Nothing was wrong in this time"><p>From ${formatTime(h.from, {digits: 0})} to ${formatTime(h.to, {digits: 0})} no fault was open. S makes the range wider.</p><//>`
        : html`<${Panel} title="Faults over time" note=${`${h.strips.length} faults, ${h.strips.reduce((n, s) => n + s.fires, 0)} times fired`} aside=${html`<${Button} kind="quiet" icon="table" pressed=${isTable} label="As a table (T)" onClick=${() => setOptions({tables: isTable ? undefined : true})} />`}>
            ${!isTable && html`<${Strips} strips=${h.strips} from=${h.from} to=${h.to} label="Faults over time" onPick=${s => setOptions({tab: undefined, fault: s.fault})} />`}
            <${Table} label="Faults of this time" max=${isTable ? 24 : 8} rows=${h.strips} rowKey=${s => s.fault} onOpen=${s => setOptions({tab: undefined, fault: s.fault})} columns=${[
                {id: 'severity', label: 'Severity', value: severityRank, cell: s => html`<${Severity} severity=${s.severity} />`}, {id: 'rule', label: 'Rule', value: s => s.rule}, {id: 'target', label: 'About', value: s => s.target},
                {id: 'fires', label: 'Fired', end: true, value: s => s.fires}, {id: 'long', label: 'Open for', end: true, value: s => s.firingUs, cell: s => seconds(s.firingUs / 1e6)},
                {id: 'first', label: 'First', value: s => s.pieces[0]?.from, cell: s => s.pieces[0] ? formatTime(s.pieces[0].from, {digits: 0}) : '–'},
                {id: 'state', label: 'Now', value: s => s.state, cell: s => html`<${State} state=${s.state} />`}, {id: 'summary', label: 'Summary', value: s => s.summary}]} /><//>`}<//>`;
}

/* ---- rules ---- */

const RULE_COLUMNS = [
    {id: 'rule', label: 'Rule', value: r => r.rule}, {id: 'severity', label: 'Severity', value: r => severityRank(r), cell: r => html`<${Severity} severity=${r.severity} />`},
    {id: 'firing', label: 'Firing', end: true, value: r => r.firing, cell: r => r.firing ? html`<strong class="text-error">${r.firing}</strong>` : '0'},
    {id: 'pending', label: 'Pending', end: true, value: r => r.pending}, {id: 'clearing', label: 'Clearing', end: true, value: r => r.clearing},
    {id: 'every', label: 'Every', end: true, value: r => r.every_ms, cell: r => seconds(r.every_ms / 1e3)},
    {id: 'evaluations', label: 'Evaluated', end: true, value: r => r.evaluations, cell: r => count(r.evaluations)},
    {id: 'failures', label: 'Failed', end: true, value: r => r.failures, cell: r => count(r.failures)},
    {id: 'last', label: 'Took', end: true, value: r => r.last_ms, cell: r => r.last_ms ? seconds(r.last_ms / 1e3) : '< 1 ms'},
    {id: 'told', label: 'As of', end: true, value: r => r.told_at, cell: r => ago(now() - timeOfText(r.told_at))},
    {id: 'place', label: 'Asked', value: r => r.place === 'gateway' ? 'at the gateway' : 'at the guard'}, {id: 'guard', label: 'Guard', value: r => r.guard}, {id: 'why', label: 'Error', value: r => r.why, cell: r => r.why ? html`<span class="text-error">${r.why}</span>` : ''},
];

function Rules()
{
    const rules = usePoll('rules', 5000, async ({signal}) => (await control('rules', {}, {signal})).rows);
    const chosen = view.options.value.rule;
    return html`<${Polled} poll=${rules} loading="Asking for the rules …" title="The rules could not be read" empty=${html`<${Empty} title="No guard has told of rules"><p>gridline run includes a guard with default rules; docs/guard.md has how to write your own.</p><//>`}>${list => {
        const rule = list.find(r => r.rule === chosen);
        return html`<${Panel} title="Rules" note=${list.length + ' rules'} class="flush"><${Table} label="Rules" columns=${RULE_COLUMNS} rows=${list} rowKey=${r => r.guard + ' ' + r.rule} selected=${rule && rule.guard + ' ' + rule.rule} max=${14} onPick=${r => setOptions({rule: r.rule})} /><//>
            ${rule ? html`<${Rule} key=${rule.rule} rule=${rule} />` : html`<p class="note faults-hint">Choose a rule to see its query and what it would have done in this time.</p>`}`;
    }}<//>`;
}

function Rule({rule})
{
    return html`<${Panel} title=${rule.rule} class="rule" aside=${html`<${Button} onClick=${() => go('sql', {q: rule.query})}>Query in SQL<//>`}>
        ${rule.help && html`<p>${rule.help}</p>`}<pre class="rule-query">${rule.query}</pre>
        ${rule.why && html`<p class="text-error" role="status"><${Icon} name="triangle" /> The last evaluation failed: ${rule.why}</p>`}
        ${rule.left_out > 0 && html`<p class="text-warn">${count(rule.left_out)} faults were left out: there were too many.</p>`}
        <${BackTest} rule=${rule} /><//>`;
}

/* What the rule would have done in the range that is shown. Nothing is done. */
function BackTest({rule})
{
    const [state, setState] = useState({is: 'idle'});
    const abort = useRef(null);
    useEffect(() => () => abort.current?.abort(), []);
    const run = async () => {
        abort.current?.abort();
        const mine = abort.current = new AbortController();
        const from = view.from.peek(), to = Math.min(view.to.peek(), now());
        setState({is: 'running'});
        try {
            const {rows, end} = await control('rule.test', {rule: rule.rule, guard: rule.guard, from: isoTime(from), to: isoTime(to)}, {signal: mine.signal});
            if (end.status !== 'done' && end.status !== 'partly')
                throw new Error(end.text || end.status);
            const total = rows.find(r => r.tested !== undefined);
            if (total && total.tested === false)
                throw new Error(`It can’t be tested: ${total.why}`);
            setState({is: 'done', from, to, result: backtestOf(rows, from, to), total});
        } catch (error) {
            if (!isAbort(error))
                setState({is: 'failed', error});
        }
    };
    const {result} = state;
    const isTable = view.options.value.tables === true;
    return html`<div class="backtest"><div class="backtest-head"><h3>Back-test</h3><span class="note">What it would have done from ${formatTime(view.from.value, {digits: 0})}, ${formatSpan(view.to.value - view.from.value)} long. No action is run.</span>
            ${state.is === 'running' ? html`<${Button} onClick=${() => { abort.current?.abort(); setState({is: 'idle'}); }}>Cancel<//>` : html`<${Button} kind="primary" icon="play" onClick=${run}>Test<//>`}</div>
        ${state.is === 'running' && html`<${Loading} title="Evaluating the rule over archived events …" />`}
        ${state.is === 'failed' && html`<${Failed} error=${state.error} title="The rule could not be tested" again=${run} />`}
        ${state.is === 'done' && html`<p class="backtest-sentence" role="status">${backtestSentence(result, us => seconds(us / 1e6))}${result.actions.length > 0 ? ' ' + result.actions.map(([name, n]) => `${name} ${n}×`).join(', ') + '.' : ''}
                ${state.total?.evaluations !== undefined && html` <span class="note">${count(state.total.evaluations)} evaluations${state.total.failures ? `, ${count(state.total.failures)} failed` : ''}</span>`}</p>
            ${result.strips.length > 0 && !isTable && html`<${Strips} strips=${result.strips} from=${state.from} to=${state.to} label="What the rule would have done" />`}
            ${result.deeds.length > 0 && html`<${Table} label="What the rule would have done" max=${12} rows=${result.deeds} columns=${[
                {id: 'at', label: 'Time', value: d => d.time, cell: d => formatTime(d.time, {digits: 1})}, {id: 'what', label: 'What', value: d => d.what}, {id: 'summary', label: 'Summary', value: d => d.summary},
                {id: 'lasted', label: 'Lasted', end: true, value: d => d.lasted_s, cell: d => d.lasted_s === undefined ? '' : seconds(d.lasted_s)}, {id: 'actions', label: 'Would have been told', value: d => d.actions}]} />`}`}</div>`;
}

/* ---- the page ---- */

const TABS = [['now', 'Now'], ['history', 'History'], ['rules', 'Rules']];

function Page()
{
    const tab = TABS.some(([id]) => id === view.options.value.tab) ? view.options.value.tab : 'now';
    const faults = usePoll('faults', EVERY_MS, async ({signal}) => openFaults((await control('faults', {state: 'all'}, {signal})).rows));
    const silences = usePoll('silences', 5000, ({signal}) => sqlOnce('fault_silence', "SELECT silence, host AS guard, rule, hosts, \"where\", until, \"by\", note FROM fault_silence_latest WHERE NOT over AND until > at('now')", {signal}));
    const again = () => {
        faults.again();
        silences.again();
    };
    const canOrder = may('control');
    const choose = id => setOptions({tab: id === 'now' ? undefined : id});
    const step = by => choose(TABS[(TABS.findIndex(([id]) => id === tab) + by + TABS.length) % TABS.length][0]);
    useKeys([{key: '[', label: 'Previous tab', group: 'Faults', run: () => step(-1)}, {key: ']', label: 'Next tab', group: 'Faults', run: () => step(1)}], [tab]);
    useEffect(() => tell('faults', () => ({tab, open: (faults.value.peek() ?? []).filter(f => f.state !== 'cleared').length, silences: (silences.value.peek() ?? []).length})), [tab]);
    const onKey = e => {
        const by = {ArrowRight: 1, ArrowLeft: -1}[e.key];
        if (by) {
            step(by);
            e.preventDefault();
            setTimeout(() => document.querySelector('.tabs [aria-selected=true]')?.focus());
        }
    };
    const firing = (faults.value.value ?? []).filter(f => f.state === 'firing').length;
    return html`<div class="faults-page"><div class="tabs" role="tablist" aria-label="Faults" onKeyDown=${onKey}>${TABS.map(([id, label]) => html`<button key=${id} type="button" role="tab" id=${'tab-' + id} aria-selected=${id === tab} aria-controls="faults-body"
            tabindex=${id === tab ? 0 : -1} onClick=${() => choose(id)}>${label}${id === 'now' && firing > 0 && html` <${Chip} look="error">${firing}<//>`}</button>`)}</div>
        <div role="tabpanel" id="faults-body" aria-labelledby=${'tab-' + tab} class="faults-body">
            ${tab === 'now' ? html`<${Now} ...${{faults, silences, again, canOrder}} />` : tab === 'history' ? html`<${History} />` : html`<${Rules} />`}</div></div>`;
}

export const page = {id: 'faults', title: 'Faults', key: '6', Page};
