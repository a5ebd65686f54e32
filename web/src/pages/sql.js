/* sql.js - the page SQL: a console. Options: q, the query; ran, it was run; chart, how the result is shown; rows, the limit. */
import './sql.css';
import {html, cx, useState, useEffect, useLayoutEffect, useMemo, useRef, useId} from '../html.js';
import {view, setOptions, setRange, remembered} from '../state.js';
import {formatTime, formatSpan, now} from '../time.js';
import {sql, isAbort} from '../api.js';
import {usePoll} from '../poll.js';
import {useKeys} from '../keys.js';
import {number, count, seconds} from '../format.js';
import {palette, seriesColor} from '../palette.js';
import {Button, Field, Panel, Chip} from '../ui/basic.js';
import {Empty, Loading, Failed} from '../ui/boxes.js';
import {Menu} from '../ui/menu.js';
import {Table} from '../ui/table.js';
import {Plot} from '../ui/chart.js';
import {Dialog} from '../ui/dialog.js';
import {toast, say} from '../ui/toast.js';
import {tell} from '../debug.js';
import {tokens, isKeyword, complete, schemaOf, fillIn, errorPlace, wordAt, lineOf, timeOf, guessChart, seriesOf, barsOf, csvOf, jsonOf, withQuery,
        readKept, withLimit, EXAMPLES, FUNCTIONS} from './sql_model.js';

const LIMITS = [[100, '100 rows'], [1000, '1,000 rows'], [10000, '10,000 rows'], [100000, '100,000 rows']];
const TIMES = [['5s', '5 s'], ['30s', '30 s'], ['2m', '2 min'], ['10m', '10 min']];

/* ---- the editor ---- */

const classOf = t => t.kind === 'word' ? (t.text[0] === ':' ? 'time' : isKeyword(t.text) ? 'keyword' : t.text.toLowerCase() in FUNCTIONS ? 'function' : '')
    : t.kind === 'text' || t.kind === 'comment' || t.kind === 'number' || t.kind === 'name' ? t.kind : '';

const Coloured = ({text, mark}) => html`${tokens(text).map(t => {
    const isMarked = mark && t.from < mark[1] && t.to > mark[0];
    const name = classOf(t);
    return name || isMarked ? html`<span key=${t.from} class=${cx(name && 't-' + name, isMarked && 't-wrong')}>${t.text}</span>` : t.text;
})}${'\n'}`;

/* What can come at the caret, below it. */
function Suggestions({id, items, at, onTake, box})
{
    const ref = useRef(null);
    useLayoutEffect(() => {
        ref.current.style.setProperty('--x', box.x + 'px');
        ref.current.style.setProperty('--y', box.y + 'px');
    }, [box.x, box.y]);
    useLayoutEffect(() => ref.current.querySelector('.at')?.scrollIntoView({block: 'nearest'}), [at]);
    return html`<ul class="sql-suggest" role="listbox" id=${id} ref=${ref} aria-label="Suggestions">
        ${items.map((item, i) => html`<li key=${item.text} id=${id + '-' + i} role="option" aria-selected=${i === at} class=${cx(i === at && 'at')}
            onMouseDown=${e => { e.preventDefault(); onTake(i); }}><span class="mono">${item.text}</span><span class="note">${item.kind}${item.help ? ' · ' + item.help : ''}</span></li>`)}</ul>`;
}

function Editor({text, onText, onRun, schema, mark})
{
    const area = useRef(null), under = useRef(null), id = useId();
    const [found, setFound] = useState(null); /* {from, to, items, at, box} */

    const look = isAsked => {
        const a = area.current;
        if (a.selectionStart !== a.selectionEnd)
            return setFound(null);
        const c = complete(a.value, a.selectionStart, schema);
        if (!c.items.length || (!isAsked && c.from === c.to && a.value[c.from - 1] !== '.'))
            return setFound(null);
        return setFound({...c, at: 0, box: caretBox(a, c.from)});
    };
    const take = i => {
        const a = area.current, item = found.items[i];
        a.setRangeText(item.text, found.from, found.to, 'end');
        setFound(null);
        onText(a.value);
        a.focus();
    };
    const onKey = e => {
        const step = {ArrowDown: 1, ArrowUp: -1}[e.key];
        if (e.key === 'Enter' && (e.ctrlKey || e.metaKey))
            onRun();
        else if (e.key === ' ' && e.ctrlKey)
            look(true);
        else if (found && step)
            setFound({...found, at: (found.at + step + found.items.length) % found.items.length});
        else if (found && (e.key === 'Tab' || e.key === 'Enter') && !e.shiftKey)
            take(found.at);
        else if (found && e.key === 'Escape')
            setFound(null);
        else
            return;
        e.preventDefault();
        e.stopPropagation();
    };
    const scroll = () => {
        under.current.scrollTop = area.current.scrollTop;
        under.current.scrollLeft = area.current.scrollLeft;
    };
    useLayoutEffect(scroll, [text]);
    return html`<div class="sql-editor">
        <pre class="sql-under" ref=${under} aria-hidden="true"><${Coloured} text=${text} mark=${mark} /></pre>
        <textarea ref=${area} class="sql-area mono" value=${text} rows=${Math.max(5, Math.min(16, text.split('\n').length + 1))} spellcheck=${false} autocapitalize="off" autocomplete="off"
            wrap="off" placeholder="SELECT …      Ctrl+Enter runs, Ctrl+Space suggests" aria-label="SQL query" aria-autocomplete="list"
            aria-controls=${found ? id : undefined} aria-activedescendant=${found ? id + '-' + found.at : undefined} aria-invalid=${mark ? 'true' : undefined}
            onInput=${e => { onText(e.currentTarget.value); look(false); }} onKeyDown=${onKey} onScroll=${scroll} onBlur=${() => setFound(null)} onClick=${() => setFound(null)}></textarea>
        ${found && html`<${Suggestions} id=${id} items=${found.items} at=${found.at} box=${found.box} onTake=${take} />`}
    </div>`;
}

/* Where a character is, in px from the editor's corner: lines are not broken, and all characters of one width. */
function caretBox(area, at)
{
    const style = getComputedStyle(area), {line, column} = lineOf(area.value, at);
    const context = document.createElement('canvas').getContext('2d');
    context.font = `${style.fontSize} ${style.fontFamily}`;
    const width = context.measureText('0').width, height = parseFloat(style.lineHeight);
    return {x: Math.max(4, Math.min(area.clientWidth - 260, 9 + (column - 1) * width - area.scrollLeft)), y: 7 + line * height - area.scrollTop};
}

/* ---- results ---- */

const timeCell = v => {
    const us = timeOf(v);
    return Number.isNaN(us) ? String(v) : formatTime(us, {digits: 6});
};

function Rows({result, kinds, isRaw})
{
    const columns = useMemo(() => result.columns.map((name, i) => ({
        id: String(i), label: name, end: kinds[i] === 'number', value: r => r[i],
        cell: r => r[i] === null ? html`<span class="note">NULL</span>` : kinds[i] === 'time' && !isRaw ? timeCell(r[i]) : String(r[i]),
    })), [result, isRaw]);
    return html`<${Table} label="Result" columns=${columns} rows=${result.rows} empty="The query has no rows." class="sql-rows" />`;
}

/* Curves over numbers that are no times. */
function XyChart({x, series})
{
    const W = 800, H = 220;
    const all = series.flatMap(s => s.values).filter(v => v !== null);
    const low = Math.min(0, ...all), high = Math.max(...all, low + 1e-12);
    const px = v => ((v - x[0]) / (x.at(-1) - x[0] || 1) * (W - 70) + 62).toFixed(1), py = v => (H - 24 - (v - low) / (high - low) * (H - 36)).toFixed(1);
    return html`<svg class="xy" viewBox=${`0 0 ${W} ${H}`} role="img" aria-label=${'Curves of ' + series.map(s => s.label).join(', ')}>
        ${[low, (low + high) / 2, high].map(v => html`<g key=${v}><line class="xy-grid" x1="62" x2=${W - 8} y1=${py(v)} y2=${py(v)} /><text x="56" y=${py(v)} dy="4" text-anchor="end">${number(v)}</text></g>`)}
        <text x="62" y=${H - 6}>${number(x[0])}</text><text x=${W - 8} y=${H - 6} text-anchor="end">${number(x.at(-1))}</text>
        ${series.map((s, i) => html`<polyline key=${s.label} fill="none" stroke=${seriesColor(i, palette.value)} stroke-width="1.6"
            points=${s.values.map((v, k) => v === null ? '' : px(x[k]) + ',' + py(v)).join(' ')} />`)}
    </svg>`;
}

function Bars({rows, chart, columns})
{
    const {bars, leftOut, most} = useMemo(() => barsOf(rows, chart), [rows, chart]);
    return html`<div class="bars" role="list" tabindex="0" aria-label=${columns[chart.y[0]] + ' by ' + columns[chart.x]}>
        ${bars.map((b, i) => html`<div class="bar-row" role="listitem" key=${i}><span class="bar-name" title=${b.label}>${b.label}</span>
            <span class="bar-track"><span class=${cx('bar', b.value < 0 && 'minus')} style=${{'--part': most ? Math.abs(b.value) / most : 0}}></span></span><span class="num">${number(b.value)}</span></div>`)}
        ${leftOut > 0 && html`<p class="note">The ${bars.length} largest; ${count(leftOut)} more are in the table.</p>`}</div>`;
}

function Lines({result, chart})
{
    const made = useMemo(() => seriesOf(result.columns, result.rows, chart), [result, chart]);
    const shape = useMemo(() => made.series.map(s => ({label: s.label})), [made]);
    const data = useMemo(() => [made.x, ...made.series.map(s => s.values)], [made]);
    if (!made.x.length)
        return html`<${Empty} title="Nothing to draw"><p>No row has a time or a number for this axis.</p><//>`;
    if (!made.isTime)
        return html`<${XyChart} ...${made} />`;
    const isOutside = made.x.at(-1) < view.from.value || made.x[0] > view.to.value;
    return html`<div class="sql-lines">
        <${Plot} series=${shape} data=${data} height=${240} min=${null} label=${'Curves of ' + shape.map(s => s.label).join(', ')} />
        ${isOutside && html`<p class="note">The result is outside of the time range. <${Button} onClick=${() => setRange(made.x[0], made.x.at(-1) + 1e6)}>Show its time<//></p>`}
        <ul class="legend">${shape.map((s, i) => html`<li key=${s.label}><span class="swatch" style=${{'--swatch': seriesColor(i, palette.value)}}></span><span class="legend-name">${s.label}</span></li>`)}</ul>
        ${made.leftOut > 0 && html`<p class="note">Only the first ${shape.length} curves are drawn.</p>`}</div>`;
}

/* What is drawn: as guessed, and as chosen. */
function ChartChoice({columns, chart, onChange})
{
    const names = kind => columns.map((name, i) => [String(i), name]).filter(([i]) => !kind || chart.kinds[i] === kind || (kind === 'x' && chart.kinds[i] !== 'text'));
    const numbers = names('number');
    const set = part => onChange({...chart, ...part});
    return html`<div class="chart-choice">
        <${Field} label="Chart" type="select" value=${chart.kind} options=${[['lines', 'Lines'], ['bars', 'Bars'], ['none', 'None']]} onInput=${kind => set({kind})} />
        ${chart.kind !== 'none' && html`<${Field} label=${chart.kind === 'lines' ? 'Along' : 'For each'} type="select" value=${String(chart.x)} options=${names()} onInput=${v => set({x: Number(v)})} />
        <${Field} label="Value" type="select" value=${chart.y.length > 1 ? 'all' : String(chart.y[0])} options=${[...numbers, ...(chart.kind === 'lines' && numbers.length > 1 ? [['all', 'all numbers']] : [])]}
            onInput=${v => set({y: v === 'all' ? numbers.map(([i]) => Number(i)).filter(i => i !== chart.x) : [Number(v)]})} />`}
        ${chart.kind === 'lines' && html`<${Field} label="A curve for each" type="select" value=${String(chart.group)} options=${[['-1', '–'], ...names('text')]} onInput=${v => set({group: Number(v)})} />`}
    </div>`;
}

function save(name, type, text)
{
    const url = URL.createObjectURL(new Blob([text], {type}));
    const a = document.createElement('a');
    a.href = url;
    a.download = name;
    a.click();
    setTimeout(() => URL.revokeObjectURL(url), 10000);
}

function Result({result, chart, onChart})
{
    const [isRaw, setRaw] = useState(false);
    const hasChart = chart.kinds.includes('number') && result.rows.length > 0;
    const stamp = () => formatTime(now(), {zone: 'utc', digits: 0}).replace(/[^0-9]+/g, '-');
    const parts = html`${result.lost > 0 && html`<${Chip} look="warn" icon="triangle">${count(result.lost)} rows lost by damage<//>`}
        <${Button} kind="quiet" pressed=${isRaw} onClick=${() => setRaw(!isRaw)}>Raw times<//>
        <${Menu} label="Export" kind="quiet" align="end" items=${[
            {label: 'CSV', hint: 'RFC 4180', run: () => save(`gridline-${stamp()}.csv`, 'text/csv', csvOf(result.columns, result.rows))},
            {label: 'JSON', hint: 'a list of objects', run: () => save(`gridline-${stamp()}.json`, 'application/json', jsonOf(result.columns, result.rows))},
            {label: 'Copy as CSV', run: () => navigator.clipboard?.writeText(csvOf(result.columns, result.rows)).then(() => toast('Copied', 'ok'), () => toast('The browser does not allow copying here', 'warn'))},
        ]}>Export<//>`;
    return html`${hasChart && html`<${Panel} title="Chart"><${ChartChoice} columns=${result.columns} chart=${chart} onChange=${onChart} />
            ${chart.kind === 'lines' ? html`<${Lines} result=${result} chart=${chart} />` : chart.kind === 'bars' && html`<${Bars} rows=${result.rows} chart=${chart} columns=${result.columns} />`}<//>`}
        <${Panel} title="Rows" class="flush sql-result" note=${`${count(result.rows.length)} rows · ${seconds(result.tookMs / 1e3)}${result.isCut ? ' · no more than the limit' : ''}`} aside=${parts}>
            ${result.notices.map(n => html`<p key=${n.text} class="note sql-notice" role="note">${n.text}</p>`)}
            <${Rows} result=${result} kinds=${chart.kinds} isRaw=${isRaw} /><//>`;
}

/* Where it is wrong: the line, and a mark under the word. */
function Wrong({error, text, place})
{
    if (place.at < 0)
        return html`<${Failed} error=${error} title="The query failed" />`;
    const {line, column} = lineOf(text, place.at);
    return html`<div class="box failed" role="alert"><div class="box-text"><p class="box-title">${place.message}</p>
        <p class="box-why">Line ${line}, character ${column}:</p>
        <pre class="sql-wrong">${text.split('\n')[line - 1]}${'\n'}${' '.repeat(column - 1)}${'^'.repeat(Math.max(1, Math.min(40, wordAt(text, place.at)[1] - place.at)))}</pre></div></div>`;
}

/* ---- history and saved queries ---- */

function Kept({title, items, onTake, onForget, onClose, empty})
{
    return html`<${Dialog} title=${title} onClose=${onClose} class="sql-kept">
        ${items.length === 0 ? html`<${Empty} title="None yet"><p>${empty}</p><//>` : html`<ul>${items.map((item, i) => html`<li key=${i}>
            <button type="button" class="kept-take" onClick=${() => { onTake(item.text); onClose(); }}>
                ${item.name && html`<strong>${item.name}</strong>`}<pre>${item.text}</pre>${item.at && html`<span class="note">${formatTime(item.at, {digits: 0})}</span>`}</button>
            ${onForget && html`<${Button} kind="quiet" icon="close" label=${'Forget ' + (item.name ?? 'this one')} onClick=${() => onForget(i)} />`}</li>`)}</ul>`}<//>`;
}

function useKept(name)
{
    const [list, setList] = useState(() => readKept(remembered.get(name)));
    return [list, next => {
        setList(next);
        remembered.set(name, JSON.stringify(next));
    }];
}

/* ---- the page ---- */

/* Runs queries one at a time: {state, result, error, run, cancel}. */
function useQuery()
{
    const [state, setState] = useState({is: 'idle'});
    const abort = useRef(null);
    useEffect(() => () => abort.current?.abort(), []);
    const run = async (text, {rows, time}) => {
        abort.current?.abort();
        const mine = abort.current = new AbortController();
        const filled = fillIn(text, view.from.peek(), view.to.peek());
        const sent = withLimit(filled.text, rows);
        const began = performance.now();
        setState(s => ({is: 'running', began, result: s.result}));
        try {
            const r = await sql(sent.text, {signal: mine.signal, rows: rows + 1, time});
            const isCut = r.rows.length > rows;
            const result = {columns: r.columns, rows: isCut ? r.rows.slice(0, rows) : r.rows, lost: r.lost, notices: r.notices ?? [], isCut, tookMs: performance.now() - began};
            setState({is: 'done', result});
            say(`${result.rows.length} rows`);
        } catch (error) {
            if (mine.signal.aborted && isAbort(error)) {
                if (abort.current === mine)
                    setState(s => ({is: 'cancelled', result: s.result}));
                return;
            }
            const place = errorPlace(error.detail ?? error.message, sent.text);
            setState({is: 'failed', error, text, place: {...place, at: place.at < sent.shift ? -1 : filled.map(place.at - sent.shift)}});
        }
    };
    return {...state, run, cancel: () => abort.current?.abort()};
}

function Running({began, onCancel})
{
    const [at, setAt] = useState(performance.now());
    useEffect(() => {
        const timer = setInterval(() => setAt(performance.now()), 200);
        return () => clearInterval(timer);
    }, []);
    return html`<div class="sql-running" role="status"><span class="spinner" aria-hidden="true"></span><span>Running for ${((at - began) / 1e3).toFixed(1)} s</span><${Button} onClick=${onCancel}>Cancel<//></div>`;
}

function Page()
{
    const options = view.options.value;
    const text = options.q ?? '';
    const rows = options.rows ?? 1000, time = options.time ?? '30s';
    const [history, setHistory] = useKept('sql.history');
    const [saved, setSaved] = useKept('sql.saved');
    const [dialog, setDialog] = useState(null);
    const [name, setName] = useState('');
    const query = useQuery();
    const tables = usePoll('sql.tables', 60000, ({signal}) => sql('SELECT name, event, fields FROM tables', {signal, rows: 20000}));
    const schema = useMemo(() => schemaOf(tables.value.value?.rows ?? []), [tables.value.value]);
    const guess = useMemo(() => query.result && guessChart(query.result.columns, query.result.rows), [query.result]);
    const chart = guess && options.chart && options.chart.of === query.result.columns.join() ? {...guess, ...options.chart} : guess;

    const run = (what = text) => {
        if (!what.trim())
            return;
        setHistory(withQuery(history, what, now()));
        setOptions({q: what, ran: true});
        query.run(what, {rows, time});
    };
    useEffect(() => { /* a link shows what was seen */
        if (options.ran && text)
            query.run(text, {rows, time});
    }, []);
    useKeys([{key: 'Enter', ctrl: true, label: 'Run the query', group: 'SQL', always: true, run: () => run()},
             {code: 'KeyH', label: 'Queries asked before', group: 'SQL', run: () => setDialog('history')}], [text, rows, time, history]);
    useEffect(() => tell('sql', () => ({state: query.is, rows: query.result?.rows.length ?? 0, columns: query.result?.columns ?? [], chart: chart?.kind ?? 'none'})), [query.is, query.result, chart]);

    const mark = query.is === 'failed' && query.text === text && query.place.at >= 0 ? wordAt(text, query.place.at) : null;
    const usesRange = /:(from|to|span)\b/i.test(text);
    return html`<div class="sql-page">
        <${Panel} title="Query" class="sql-query" note=${usesRange ? `:from and :to are ${formatTime(view.from.value, {digits: 0})} and ${formatSpan(view.to.value - view.from.value)} later` : ''}
            aside=${html`<${Menu} label="Examples" kind="quiet" align="end" items=${EXAMPLES.map(x => ({label: x.name, run: () => setOptions({q: x.text, ran: undefined})}))}>Examples<//>
                <${Button} kind="quiet" icon="clock" onClick=${() => setDialog('history')}>History<//><${Button} kind="quiet" onClick=${() => setDialog('saved')}>Saved<//>`}>
            <${Editor} text=${text} onText=${q => setOptions({q, ran: undefined})} onRun=${() => run()} schema=${schema} mark=${mark} />
            <div class="sql-bar"><${Button} kind="primary" icon="play" disabled=${!text.trim()} onClick=${() => run()}>Run<//><kbd>Ctrl</kbd><kbd>Enter</kbd>
                <${Field} label="At most" hideLabel type="select" value=${String(rows)} options=${LIMITS.map(([v, l]) => [String(v), l])} onInput=${v => setOptions({rows: Number(v)})} />
                <${Field} label="Within" hideLabel type="select" value=${time} options=${TIMES} onInput=${v => setOptions({time: v})} />
                <${Button} disabled=${!text.trim()} onClick=${() => setDialog('save')}>Save …<//></div>
        <//>
        ${query.is === 'running' && html`<${Running} began=${query.began} onCancel=${query.cancel} />`}
        ${query.is === 'cancelled' && html`<p class="note" role="status">Cancelled.</p>`}
        ${query.is === 'failed' && html`<${Wrong} error=${query.error} text=${query.text} place=${query.place} />`}
        ${query.result && chart ? html`<${Result} result=${query.result} chart=${chart} onChart=${c => setOptions({chart: {kind: c.kind, x: c.x, y: c.y, group: c.group, of: query.result.columns.join()}})} />`
            : query.is === 'idle' && html`<${Start} tables=${tables} onTake=${q => run(q)} />`}
        ${dialog === 'history' && html`<${Kept} title="Queries asked before" items=${history} empty="Queries that you run are kept in this browser." onClose=${() => setDialog(null)}
            onTake=${q => setOptions({q, ran: undefined})} onForget=${i => setHistory(history.filter((_, k) => k !== i))} />`}
        ${dialog === 'saved' && html`<${Kept} title="Saved queries" items=${saved} empty="Save … keeps the query under a name in this browser." onClose=${() => setDialog(null)}
            onTake=${q => setOptions({q, ran: undefined})} onForget=${i => setSaved(saved.filter((_, k) => k !== i))} />`}
        ${dialog === 'save' && html`<${Dialog} title="Save the query" onClose=${() => setDialog(null)}>
            <form onSubmit=${e => { e.preventDefault(); setSaved([{name: name.trim() || text.slice(0, 40), text, at: now()}, ...saved.filter(s => s.name !== name.trim())].slice(0, 100)); setDialog(null); toast('Saved', 'ok'); }}>
            <${Field} label="Name" value=${name} onInput=${setName} autofocus hint="Kept in this browser. A link to this page has the query in it, too." />
            <div class="row-end"><button class="button primary" type="submit">Save</button></div></form><//>`}
    </div>`;
}

/* Before the first query: what there is. */
function Start({tables, onTake})
{
    if (tables.state.value === 'loading')
        return html`<${Loading} title="Looking which tables there are …" />`;
    if (tables.state.value === 'failed')
        return html`<${Failed} error=${tables.error.value} title="There is no archive to ask" again=${tables.again} />`;
    const list = tables.value.value.rows;
    if (!list.length)
        return html`<${Empty} title="No events have come yet"><p>Every event name becomes a table when its first event comes.</p><//>`;
    const columns = [{id: 'name', label: 'Table', value: r => r[0]}, {id: 'event', label: 'Event', value: r => r[1]}, {id: 'fields', label: 'Columns, besides time, host, prog and level', value: r => r[2]}];
    return html`<${Panel} title="Tables" note="Enter or double click shows the newest rows of one" class="flush sql-result"><${Table} label="Tables" columns=${columns} rows=${list} rowKey=${r => r[0]}
        onOpen=${r => onTake(`SELECT * FROM ${r[0]} WHERE time BETWEEN :from AND :to\nORDER BY time DESC LIMIT 200`)} /><//>`;
}

export const page = {id: 'sql', title: 'SQL', key: '7', Page};
