/* timeline.js - the page Timeline (nlv): lanes of lifelines, curves and events above each other, on one axis of time.
 *
 * The page has what is DOM: lanes' names, dialogs, the box at the pointer, and turns what people do into changes of the view state. Canvases are the
 * stage's (timeline-stage.js). */
import './timeline.css';
import {html, useEffect, useLayoutEffect, useRef, useState, useMemo} from '../html.js';
import {effect} from '@preact/signals-core';
import {view, setRange, setCursor, setOptions} from '../state.js';
import {now, zoom, pan, goTo, formatTime} from '../time.js';
import {sqlObjects, isAbort} from '../api.js';
import {useKeys} from '../keys.js';
import {tell, isBench} from '../debug.js';
import {decode} from '../glt1.js';
import {showDetails, clearDetails} from '../frame/drawer.js';
import {toast, say} from '../ui/toast.js';
import {Button, Chip} from '../ui/basic.js';
import {Empty, Failed, Loading} from '../ui/boxes.js';
import {seconds} from '../format.js';
import {laneAt} from '../scene/layout.js';
import {createLane, pointEvents} from '../scene/scene.js';
import {Stage} from './timeline-stage.js';
import {Minimap} from './timeline-map.js';
import {LaneGutter, LaneDialog, SplitDialog} from './timeline-gutter.js';
import {LaneTable} from './timeline-table.js';
import {LifelineDetails, AreaDetails, describe, exactText} from './timeline-details.js';
import {verticesOf} from './timeline-overlay.js';
import {knownEvents, defaultLanes, titleOf, changed, without, shifted, sane, LANES_MAX} from './timeline-lanes.js';
import {nextEvent, archiveStart, oneEvent, clockOffsets, tableOf, name, IS_ERROR} from './timeline-find.js';

const DRAG_PX = 4, HOVER_MS = 220, KEPT_EVENTS = 200, CLOCK_MS = 15000;

/* ---- what there is ---- */

function useKnown()
{
    const [state, setState] = useState({});
    const [turn, setTurn] = useState(0);
    useEffect(() => {
        const abort = new AbortController();
        let timer = 0;
        const ask = () => knownEvents({signal: abort.signal}).then(known => {
            setState({known});
            if (known.tables.length === 0)
                timer = setTimeout(ask, 3000); /* nothing has come yet */
        }, error => isAbort(error) || setState({error}));
        ask();
        return () => {
            clearTimeout(timer);
            abort.abort();
        };
    }, [turn]);
    return {...state, again: () => setTurn(turn + 1)};
}

/* ---- the box at the pointer ---- */

const asked = new Map(); /* events that were looked at: the newest KEPT_EVENTS */

/* The event itself, a moment after the pointer has come to rest: {ns, fields}. */
function useEvent(known, facts)
{
    const [event, setEvent] = useState(null);
    const key = facts?.ns !== undefined && facts?.event ? facts.event + ' ' + facts.ns + ' ' + (facts.id ?? '') : '';
    useEffect(() => {
        setEvent(asked.get(key) ?? null);
        if (!key || asked.has(key))
            return undefined;
        const abort = new AbortController();
        const timer = setTimeout(() => oneEvent(known, facts.event, facts, {signal: abort.signal, time: '5s'}).then(e => {
            asked.set(key, e);
            if (asked.size > KEPT_EVENTS)
                asked.delete(asked.keys().next().value);
            setEvent(e);
        }, () => {}), HOVER_MS); /* what it can't say is left out of the box */
        return () => {
            clearTimeout(timer);
            abort.abort();
        };
    }, [key]);
    return event;
}

function Tip({tip, known})
{
    const event = useEvent(known, tip?.facts);
    const ref = useRef(null);
    useLayoutEffect(() => {
        const box = ref.current;
        if (!box || !tip)
            return;
        const left = tip.x + 18 + box.offsetWidth > innerWidth ? tip.x - 14 - box.offsetWidth : tip.x + 18;
        const top = Math.max(8, Math.min(innerHeight - box.offsetHeight - 8, tip.y + 14));
        box.style.setProperty('--x', Math.max(4, left) + 'px');
        box.style.setProperty('--y', top + 'px');
    });
    if (!tip?.facts)
        return null;
    const shown = new Set(tip.facts.lines.map(([k]) => k));
    return html`<div class="tl-tip" ref=${ref} aria-hidden="true"><p class="tl-tip-title">${tip.facts.title}</p>
        <dl>${tip.facts.lines.map(([k, v]) => html`<div key=${k}><dt>${k}</dt><dd>${k === 'time' && event ? exactText(event.ns) + (v.match(/ ±.*$/)?.[0] ?? '') : v}</dd></div>`)}
        ${(event?.fields ?? []).filter(([k]) => !shown.has(k.replace(/:\w+$/, ''))).slice(0, 24).map(([k, v]) => html`<div key=${'f' + k} class="tl-field"><dt>${k}</dt><dd>${String(v).slice(0, 200)}</dd></div>`)}</dl></div>`;
}

/* ---- lanes of the address ---- */

function useLanes(known)
{
    const options = view.options.value;
    const given = useMemo(() => sane(options.lanes), [options.lanes]);
    const start = useMemo(() => known ? defaultLanes(known, options.ids ?? 'id') : [], [known, options.ids]);
    return {lanes: given ?? start, isOwn: given !== null, setLanes: lanes => setOptions({lanes})};
}

/* The events of lifelines lanes that are shown, or of all tables. */
const eventsOf = (stage, known, number) => {
    const lane = stage.lanes[number];
    if (lane?.spec.kind === 'lifelines' && lane.order.length)
        return lane.order.filter(e => !(lane.spec.hide ?? []).includes(e));
    if (lane?.spec.kind === 'curves')
        return [...new Set(lane.spec.of.map(s => s.event))];
    return known.tables.map(t => t.event).filter(e => !e.startsWith('lifeline.'));
};

/* ---- the stage and its canvases ---- */

function useStage(refs, lanes)
{
    const [stage, setStage] = useState(null);
    const [info, setInfo] = useState([]);
    const [renderer, setRenderer] = useState('');
    useLayoutEffect(() => {
        const made = new Stage({back: refs.back.current, gl: refs.gl.current, flat: refs.flat.current, front: refs.front.current});
        made.nowUs = now;
        const fit = () => made.resize(refs.plot.current.clientWidth, refs.plot.current.clientHeight);
        made.setRenderer(view.options.peek().renderer ?? 'auto');
        fit();
        const observer = new ResizeObserver(fit);
        observer.observe(refs.plot.current);
        const scroller = refs.scroll.current;
        const onScroll = () => made.setScroll(scroller.scrollTop);
        scroller.addEventListener('scroll', onScroll, {passive: true});
        const wake = () => made.invalidate();
        document.addEventListener('visibilitychange', wake);
        const ends = [effect(() => setInfo(made.info.value)), effect(() => setRenderer(made.rendererName.value)), tell('scene', () => made.debug()),
                      tell('renderer', () => made.renderer?.name)];
        setStage(made);
        return () => {
            ends.forEach(end => end());
            observer.disconnect();
            scroller.removeEventListener('scroll', onScroll);
            document.removeEventListener('visibilitychange', wake);
            made.close();
        };
    }, []);
    const asked = view.options.value.renderer ?? 'auto';
    useEffect(() => stage?.setRenderer(asked), [stage, asked]);
    const filter = view.filter.value;
    useLayoutEffect(() => stage?.setLanes(lanes, filter), [stage, lanes, filter]);
    return {stage, info, renderer};
}

/* The events of a lane whose hosts' clocks matter. */
const clockedEvents = lane => lane.spec.kind === 'lifelines' ? lane.order : lane.spec.kind === 'points' ? pointEvents(lane) : [];

/* Offsets and bounds of the hosts' clocks: asked for when the range has changed much, and now and then. */
function useClocks(stage, known, isRaw)
{
    const [bounds, setBounds] = useState(null);
    useEffect(() => {
        if (!stage || !known)
            return undefined;
        const abort = new AbortController();
        const ask = async () => {
            const events = [...new Set(stage.lanes.flatMap(clockedEvents))];
            if (!events.length || document.hidden)
                return;
            try {
                const {from, to} = stage.range();
                const found = await clockOffsets(known, events, {from, to}, {signal: abort.signal, time: '5s'});
                if (found.size)
                    setBounds(found);
            } catch (e) {
                if (!isAbort(e))
                    console.warn(e); /* no bounds are shown then */
            }
        };
        const first = setTimeout(ask, 1500), timer = setInterval(ask, CLOCK_MS);
        return () => {
            clearTimeout(first);
            clearInterval(timer);
            abort.abort();
        };
    }, [stage, known]);
    useEffect(() => {
        if (!stage)
            return;
        stage.bounds = bounds;
        stage.offsets = isRaw && bounds ? new Map([...bounds].map(([host, b]) => [host, b.offsetUs])) : null;
        stage.lanes.forEach(l => { l.lastTiles = null; });
        stage.invalidate();
    }, [stage, bounds, isRaw]);
    return bounds;
}

/* For benches: tiles given directly. Only where the address says ?bench=1, before the hash. */
function exposeBench(stage)
{
    const lanes = [];
    window.__gridline.bench = {
        /* tiles: ArrayBuffers of GLT1, or decoded ones. spec: a lane. Returns how long it took until it was drawn. */
        feed: (tiles, spec = {kind: 'lifelines', ids: 'id', height: 400}) => {
            const begin = performance.now();
            const lane = createLane(spec);
            lane.entries = [tiles.map(t => t instanceof ArrayBuffer ? decode(t) : t).map(tile => {
                const width = Number(1n << BigInt(2 * tile.level + 8)) / 1000;
                return {tile, level: tile.level, index: tile.index, from: tile.index * width, to: (tile.index + 1) * width};
            })];
            lanes.push(lane);
            stage.lanes = lanes;
            stage.drawNow();
            stage.renderer.finish();
            return performance.now() - begin;
        },
        /* Draws at a range; returns ms, drawing on the GPU included. */
        redraw: (from, to) => {
            stage.frozen = from === undefined ? stage.frozen : {from, to};
            const begin = performance.now();
            stage.drawNow();
            stage.renderer.finish();
            return performance.now() - begin;
        },
        clear: () => {
            lanes.length = 0;
            stage.frozen = null;
        },
        stage,
    };
}

/* ---- the page ---- */

function Page()
{
    const {known, error, again} = useKnown();
    const {lanes, setLanes} = useLanes(known);
    if (error)
        return html`<${Failed} error=${error} title="The timeline can't be drawn" again=${again} />`;
    if (!known)
        return html`<${Loading} title="Asking what events there are …" />`;
    if (known.tables.length === 0)
        return html`<${Empty} title="No events yet"><p>Nothing has come to this gateway's archive. Start an agent, or an instrumented program; this page looks again by itself.</p><//>`;
    return html`<${Timeline} known=${known} lanes=${lanes} setLanes=${setLanes} />`;
}

function Timeline({known, lanes, setLanes})
{
    const refs = {wrap: useRef(null), scroll: useRef(null), plot: useRef(null), back: useRef(null), gl: useRef(null), flat: useRef(null), front: useRef(null)};
    const {stage, info, renderer} = useStage(refs, lanes);
    const options = view.options.value, isRaw = options.raw === true, isTable = options.tables === true;
    const bounds = useClocks(stage, known, isRaw);
    const [tip, setTip] = useState(null);
    const [dialog, setDialog] = useState(null); /* {kind: 'add' | 'edit' | 'split', number} */
    const [current, setCurrent] = useState(0);
    const [searching, setSearching] = useState(null);

    useEffect(() => {
        if (!stage)
            return undefined;
        window.__gridline.hitTest = (x, y) => {
            const h = stage.hitAt(x, y), facts = h && describe(h, stage);
            return facts && {kind: facts.kind, title: facts.title, id: facts.id, event: facts.event, host: facts.host, ns: facts.ns === undefined ? undefined : String(facts.ns), layer: h.layer,
                             lane: stage.lanes.indexOf(h.batch.lane), lines: facts.lines};
        };
        if (isBench)
            exposeBench(stage);
        return () => { delete window.__gridline.hitTest; };
    }, [stage]);

    const actions = useActions({stage, known, lanes, setLanes, current, setCurrent, setDialog, setSearching});
    usePointer({stage, refs, setTip, actions, setCurrent});
    useTimelineKeys(actions);

    const worst = bounds && Math.max(0, ...[...bounds.values()].map(b => b.boundUs ?? 0));
    const isUnknown = bounds && [...bounds.values()].some(b => b.boundUs === null);
    return html`<div class="tl" ref=${refs.wrap}>
        <div class="tl-bar">
            <${Button} icon="plus" onClick=${() => setDialog({kind: 'add'})} disabled=${lanes.length >= LANES_MAX}>Lane<//>
            ${options.lanes && html`<${Button} kind="quiet" onClick=${() => setOptions({lanes: undefined})}>Default lanes<//>`}
            <span class="tl-group" role="group" aria-label="Errors"><${Button} icon="left" label="Error before (Shift+E)" onClick=${() => actions.jump(-1, IS_ERROR, 'error')} /><span class="tl-word">errors</span>
                <${Button} icon="right" label="Next error (E)" onClick=${() => actions.jump(1, IS_ERROR, 'error')} /></span>
            <${Button} kind="quiet" onClick=${actions.fit} label="Fit the selection, or the lifeline that is selected (F)">Fit<//>
            <${Button} kind="quiet" pressed=${!isRaw} onClick=${() => setOptions({raw: isRaw ? undefined : true})}
                title=${isRaw ? 'Times as the hosts’ own clocks showed them; click for global time' : 'Global time: clocks are corrected; click for the hosts’ own'}>${isRaw ? 'Raw clocks' : 'Clocks corrected'}<//>
            ${bounds && html`<span class="note" title="The greatest bound of the hosts' clocks in this range: an order of events closer together than this is not certain">${isUnknown && !worst ? 'bound not known' : `± ${seconds(worst / 1e6)}${isUnknown ? ', some not known' : ''}`}</span>`}
            <${Button} kind="quiet" icon="table" pressed=${isTable} label="As tables (T)" onClick=${() => setOptions({tables: isTable ? undefined : true})} />
            ${searching && html`<${Chip} look="info">${searching.text}<button type="button" class="tl-note-button" onClick=${() => searching.abort.abort()}>Cancel</button><//>`}
            <span class="tl-renderer note" title="How it is drawn">${renderer === 'flat' ? 'drawn flat' : ''}</span>
        </div>
        <${Minimap} filter=${view.filter.value} />
        <div class="tl-scroll" ref=${refs.scroll} tabindex="-1">
            <div class="tl-stage"><div class="tl-plot" ref=${refs.plot}>
                <canvas ref=${refs.back} class="tl-canvas" aria-hidden="true"></canvas><canvas ref=${refs.gl} class="tl-canvas" aria-hidden="true"></canvas><canvas ref=${refs.flat} class="tl-canvas" aria-hidden="true" hidden></canvas>
                <canvas ref=${refs.front} class="tl-canvas tl-front" tabindex="0" role="application" aria-roledescription="timeline" aria-label=${summaryText(lanes, info)}></canvas>
            </div></div>
            <div class="tl-lanes">${lanes.map((spec, i) => html`<${LaneGutter} key=${i} spec=${spec} info=${info[i]} isCurrent=${i === current} actions=${actions.ofLane(i)} />`)}
                ${lanes.length === 0 && html`<${Empty} title="No lanes"><p>Add one, or take those that are there by default.</p><//>`}</div>
        </div>
        ${isTable && stage && html`<div class="tl-tables">${stage.lanes.map((lane, i) => html`<${LaneTable} key=${i} lane=${lane} title=${titleOf(lane.spec)} range=${roundRange(stage.range())} version=${info} />`)}</div>`}
        <${Tip} tip=${tip} known=${known} />
        ${dialog?.kind === 'add' && html`<${LaneDialog} known=${known} onClose=${() => setDialog(null)} onDone=${spec => { setDialog(null); setLanes([...lanes, spec]); }} />`}
        ${dialog?.kind === 'edit' && html`<${LaneDialog} known=${known} lane=${lanes[dialog.number]} onClose=${() => setDialog(null)} onDone=${spec => { setDialog(null); setLanes(lanes.map((l, i) => i === dialog.number ? spec : l)); }} />`}
        ${dialog?.kind === 'split' && html`<${SplitDialog} known=${known} ids=${lanes[dialog.number].ids} onClose=${() => setDialog(null)} onDone=${field => { setDialog(null); actions.splitBy(dialog.number, field); }} />`}
    </div>`;
}

/* Tables follow a range that moves by itself once a second. */
const roundRange = ({from, to}) => view.mode.peek() === 'live' ? {from: Math.floor(from / 1e6) * 1e6, to: Math.floor(to / 1e6) * 1e6 + 1e6} : {from, to};

function summaryText(lanes, info)
{
    const parts = lanes.map((spec, i) => {
        const rows = info[i]?.rows?.names.length, curves = info[i]?.curves?.length;
        return titleOf(spec) + (rows ? ` with ${rows} rows` : curves ? ` with ${curves} curves` : '');
    });
    return `Timeline of ${lanes.length} lanes: ${parts.join('; ')}. Arrow keys move the cursor, Up and Down change the lane, T shows tables.`;
}

/* ---- what can be done ---- */

function useActions({stage, known, lanes, setLanes, current, setCurrent, setDialog, setSearching})
{
    const now_ = useRef(null);
    now_.current = {stage, known, lanes, setLanes, current, setCurrent, setDialog, setSearching};
    return useMemo(() => makeActions(now_), []);
}

function makeActions(ref)
{
    const stage = () => ref.current.stage;
    const announceCursor = () => {
        const s = stage(), us = view.cursor.peek(), lane = s.lanes[ref.current.current];
        say(`${formatTime(us, {digits: 6, date: false})}${lane ? ', ' + describeAt(s, ref.current.current, us) : ''}`);
    };
    const actions = {
        /* Another event, also beyond the screen: found by SQL. */
        async jump(dir, where, what) {
            const s = stage(), {known, current, setSearching} = ref.current;
            actions.searching?.abort();
            const abort = actions.searching = new AbortController();
            const {from, to} = s.range();
            const cursor = view.cursor.peek();
            const at = cursor !== null && cursor >= from && cursor <= to ? cursor : dir > 0 ? from : to;
            const atNs = actions.found?.cursor === at ? actions.found.ns : BigInt(Math.round(at)) * 1000n;
            const events = where === IS_ERROR ? eventsOf(s, known, -1) : eventsOf(s, known, current);
            setSearching({text: `Looking for the ${dir > 0 ? 'next' : 'last'} ${what} …`, abort});
            try {
                const first = await archiveStart({signal: abort.signal}) ?? from - 86400e6;
                const found = await nextEvent(known, events, atNs, dir, {where, spanUs: to - from, firstUs: first, lastUs: now()}, {signal: abort.signal});
                if (!found) {
                    toast(`There is no ${dir > 0 ? 'later' : 'earlier'} ${what}.`);
                } else {
                    const us = Number(found.ns) / 1000;
                    if (us < from || us > to || view.mode.peek() === 'live')
                        goTo(us);
                    setCursor(us);
                    actions.found = {cursor: view.cursor.peek(), ns: found.ns};
                    say(`${found.event}, ${found.level ?? ''}, ${found.host ?? ''}, ${exactText(found.ns)}`);
                }
            } catch (e) {
                if (!isAbort(e))
                    toast(e.message, 'error');
            } finally {
                if (actions.searching === abort)
                    setSearching(null);
            }
        },
        /* The cursor, by a part of the range; the range comes along at its edges. */
        step(part) {
            const {from, to} = stage().range(), span = to - from;
            const at = Math.min(now(), (view.cursor.peek() ?? (from + to) / 2) + part * span);
            setCursor(at);
            if (at < from || at > to)
                setRange(at - span / 2, at + span / 2);
            announceCursor();
        },
        lane(by) {
            const {lanes, current, setCurrent} = ref.current;
            const to = Math.max(0, Math.min(lanes.length - 1, current + by));
            setCurrent(to);
            say(titleOf(lanes[to]));
        },
        /* Along the lifeline that is selected. */
        hop(dir) {
            const s = stage(), h = s.highlight;
            if (!h) {
                say('No lifeline is selected');
                return;
            }
            const points = verticesOf(s.lanes[h.lane], h.id, s.offsets);
            const at = view.cursor.peek() ?? -Infinity;
            const i = dir > 0 ? points.findIndex(p => p.us > at + 0.5) : points.findLastIndex(p => p.us < at - 0.5);
            if (i < 0)
                return;
            setCursor(points[i].us);
            const {from, to} = s.range();
            if (points[i].us < from || points[i].us > to)
                goTo(points[i].us);
            say(`${points[i].event} on ${points[i].host}${i ? ', ' + seconds((points[i].us - points[i - 1].us) / 1e6) + ' after ' + points[i - 1].event : ''}`);
        },
        select(number, id) {
            const s = stage(), lane = s.lanes[number];
            s.highlight = {lane: number, id};
            s.invalidate();
            const {from, to} = s.range();
            showDetails('Lifeline ' + id, LifelineDetails, {known: ref.current.known, ids: lane.spec.ids, id, events: [...new Set(lane.order)], from, to});
            say('Lifeline ' + id);
        },
        /* What is nearest to the cursor in the lane. */
        openAtCursor() {
            const s = stage(), {current} = ref.current, lane = s.lanes[current];
            if (lane?.spec.kind !== 'lifelines')
                return;
            const near = nearestVertex(lane, view.cursor.peek() ?? (s.range().from + s.range().to) / 2);
            if (near)
                actions.select(current, near.id);
        },
        area(from, to, number = null) {
            const s = stage();
            s.selection = {from: Math.min(from, to), to: Math.max(from, to), lane: number};
            s.invalidate();
            const chosen = (number === null ? s.lanes : [s.lanes[number]]).filter(l => l.spec.kind !== 'heat' && !l.spec.isFolded);
            showDetails('Selection', AreaDetails, {known: ref.current.known, lanes: chosen, titles: chosen.map(l => titleOf(l.spec)), from: s.selection.from, to: s.selection.to});
        },
        mark() {
            const s = stage();
            const at = s.pointer ? s.timeAt(s.pointer.x) : view.cursor.peek() ?? s.timeAt(s.width / 2);
            if (s.marks.length === 1) {
                const first = s.marks.pop();
                actions.area(first, at);
                say(`Marked ${seconds(Math.abs(at - first) / 1e6)}`);
            } else {
                s.marks = [at];
                say('Mark set; M again marks the area up to there');
            }
            s.invalidate();
        },
        fit() {
            const s = stage();
            if (s.selection) {
                setRange(s.selection.from, s.selection.to);
                return;
            }
            const times = s.highlight ? verticesOf(s.lanes[s.highlight.lane], s.highlight.id, s.offsets).map(v => v.us) : extentOf(s);
            if (times.length < 2)
                return;
            const from = Math.min(...times), to = Math.max(...times), more = Math.max(10, (to - from) * 0.08);
            setRange(from - more, to + more);
        },
        clear() {
            const s = stage();
            if (!s.selection && !s.highlight && !s.marks.length && view.cursor.peek() === null)
                return false;
            Object.assign(s, {selection: null, highlight: null, marks: []});
            setCursor(null);
            clearDetails();
            s.invalidate();
            return true;
        },
        async splitBy(number, field) {
            const {lanes, setLanes, known} = ref.current;
            const spec = lanes[number];
            const events = known.tables.filter(t => t.fields.includes(field) && !t.event.startsWith('lifeline.')).map(t => t.event).slice(0, 48);
            const {from, to} = stage().range();
            try {
                const rows = await sqlObjects(`SELECT v, sum(n) AS n FROM (${events.map(e => `SELECT ${name(field)} AS v, count(*) AS n FROM ${tableOf(known, e).sql} WHERE time >= ${Math.round(from)}000 AND time < ${Math.round(to)}000 AND ${name(field)} IS NOT NULL GROUP BY 1`).join(' UNION ALL ')}) GROUP BY v ORDER BY n DESC LIMIT 8`);
                const made = rows.map(({v}) => ({...spec, title: `${field} ${v}`, where: `${field} = ${typeof v === 'number' ? v : "'" + String(v).replaceAll("'", "''") + "'"}`, height: spec.height ?? 140}));
                if (made.length)
                    setLanes([...lanes.slice(0, number), ...made, ...lanes.slice(number + 1)].slice(0, LANES_MAX));
                else
                    toast(`No event in this range has ${field}.`, 'warn');
            } catch (e) {
                toast(e.message, 'error');
            }
        },
        ofLane: i => ({
            change: part => ref.current.setLanes(changed(ref.current.lanes, i, part)),
            remove: () => ref.current.setLanes(without(ref.current.lanes, i)),
            shift: by => ref.current.setLanes(shifted(ref.current.lanes, i, by)),
            heat: () => ref.current.setLanes([...ref.current.lanes.slice(0, i + 1), {kind: 'heat', ids: ref.current.lanes[i].ids}, ...ref.current.lanes.slice(i + 1)]),
            edit: () => ref.current.setDialog({kind: 'edit', number: i}),
            split: () => ref.current.setDialog({kind: 'split', number: i}),
            cancel: () => stage().cancel(i),
            resume: () => stage().resume(i),
        }),
    };
    return actions;
}

/* The first and last time of lifelines that are on the screen. */
function extentOf(stage)
{
    const out = [];
    for (const lane of stage.lanes) {
        for (const {tile, from, to} of lane.spec.kind === 'lifelines' ? lane.entries[0] ?? [] : []) {
            const n = tile.columns.vertex_t ?? tile.columns.t;
            if (n.length)
                out.push(from, to);
        }
    }
    return out;
}

function nearestVertex(lane, us)
{
    let best = null, least = Infinity;
    for (const {tile} of lane.entries[0] ?? []) {
        if (tile.kind !== 'lifeline-exact')
            continue;
        const c = tile.columns, base = Number(tile.baseNs / 1000n), step = Number(tile.spanNs) / 1000 / 2 ** 32;
        for (let l = 0, v = 0; l < c.path.length; l++) {
            const n = c.path_end[c.path[l]] - (c.path[l] ? c.path_end[c.path[l] - 1] : 0);
            for (let i = 0; i < n; i++, v++) {
                const d = Math.abs(base + c.vertex_t[v] * step - us);
                if (d < least) {
                    least = d;
                    best = {id: c.id[l], us: base + c.vertex_t[v] * step};
                }
            }
        }
    }
    return best;
}

/* What a lane has at a time, in words. */
function describeAt(stage, number, us)
{
    const lane = stage.lanes[number];
    if (lane.spec.kind === 'curves') {
        return [...lane.curves ?? []].slice(0, 4).map(([curve, c]) => {
            const i = c.time.findLastIndex(t => t <= us);
            return i < 0 ? '' : `${curve} ${Number(c.last[i].toPrecision(3))}`;
        }).filter(Boolean).join(', ') || 'no values';
    }
    const x = stage.xOf(us);
    for (let y = lane.top - stage.scroll; y < lane.top - stage.scroll + lane.height; y += 10) {
        const h = stage.hitAt(x, y);
        const facts = h && h.batch.lane === lane && describe(h, stage);
        if (facts)
            return `${facts.title} ${facts.id ?? ''}`;
    }
    return 'nothing';
}

/* ---- keys ---- */

function useTimelineKeys(a)
{
    const own = run => e => e.target?.closest?.('.tl-scroll, body') && !e.target.closest('[role=separator], .tl-rows, table, [role=menu]') ? run(e) : false;
    const group = 'Timeline';
    useKeys([
        {code: 'KeyE', label: 'Next error', group, run: () => a.jump(1, IS_ERROR, 'error')}, {code: 'KeyE', shift: true, label: 'Error before', group, run: () => a.jump(-1, IS_ERROR, 'error')},
        {key: '.', label: 'Next event', group, run: () => a.jump(1, '', 'event')}, {key: ',', label: 'Event before', group, run: () => a.jump(-1, '', 'event')},
        {key: ']', label: 'Next hop of the lifeline', group, run: () => a.hop(1)}, {key: '[', label: 'Hop before', group, run: () => a.hop(-1)},
        {code: 'KeyF', label: 'Fit the selection', group, run: a.fit}, {code: 'KeyM', label: 'Mark an area', group, run: a.mark},
        {code: 'KeyR', label: 'Range from the selection', group, run: a.fit},
        {code: 'ArrowLeft', label: 'Cursor earlier', group, run: own(() => a.step(-1 / 100))}, {code: 'ArrowRight', label: 'Cursor later', group, run: own(() => a.step(1 / 100))},
        {code: 'ArrowLeft', shift: true, isHidden: true, run: own(() => a.step(-1 / 10))}, {code: 'ArrowRight', shift: true, isHidden: true, run: own(() => a.step(1 / 10))},
        {code: 'ArrowUp', label: 'Lane above', group, run: own(() => a.lane(-1))}, {code: 'ArrowDown', label: 'Lane below', group, run: own(() => a.lane(1))},
        {code: 'KeyW', shift: true, isHidden: true, run: () => zoom(0.2)}, {code: 'KeyS', shift: true, isHidden: true, run: () => zoom(5)},
        {key: 'Enter', label: 'Details of what is at the cursor', group, run: e => e.target?.classList?.contains('tl-front') ? a.openAtCursor() : false},
        {key: 'Escape', label: 'Clear the selection', group, run: a.clear},
    ], [a]);
}

/* ---- the pointer ---- */

function usePointer({stage, refs, setTip, actions, setCurrent})
{
    useEffect(() => {
        if (!stage)
            return undefined;
        const canvas = refs.front.current;
        const pointers = new Map();
        let drag = null, frame = 0, last = null;
        const place = e => {
            const r = canvas.getBoundingClientRect();
            return {x: e.clientX - r.left, y: e.clientY - r.top, clientX: e.clientX, clientY: e.clientY};
        };
        const hover = () => {
            frame = 0;
            const h = last && stage.hitAt(last.x, last.y), facts = h && describe(h, stage);
            stage.hover = facts ? {host: facts.host, us: facts.us, y: last.y} : null;
            canvas.classList.toggle('tl-on', Boolean(facts?.id));
            setTip(facts ? {facts, x: last.clientX, y: last.clientY} : null);
        };
        const down = e => {
            canvas.setPointerCapture(e.pointerId);
            pointers.set(e.pointerId, place(e));
            const at = place(e);
            if (pointers.size === 2) {
                const [a, b] = [...pointers.values()];
                drag = {what: 'pinch', gap: Math.max(8, Math.abs(a.x - b.x)), ...stage.range(), middle: stage.timeAt((a.x + b.x) / 2)};
            } else if (e.button === 0) {
                drag = {what: 'wait', how: e.shiftKey || e.pointerType === 'touch' ? 'pan' : 'select', at, time: stage.timeAt(at.x), ...stage.range()};
            }
        };
        const move = e => {
            last = place(e);
            stage.pointer = e.pointerType === 'touch' ? null : last;
            if (pointers.has(e.pointerId))
                pointers.set(e.pointerId, last);
            if (drag?.what === 'wait' && Math.abs(last.x - drag.at.x) > DRAG_PX)
                drag.what = drag.how;
            if (drag?.what === 'pan') {
                const by = (drag.at.x - last.x) / stage.width * (drag.to - drag.from);
                setRange(drag.from + by, drag.to + by, {quiet: true});
            } else if (drag?.what === 'select') {
                const to = stage.timeAt(Math.max(0, Math.min(stage.width, last.x)));
                const first = laneAt(stage.lanes, drag.at.y + stage.scroll);
                stage.selection = {from: Math.min(drag.time, to), to: Math.max(drag.time, to), lane: first === laneAt(stage.lanes, last.y + stage.scroll) && first >= 0 ? first : null};
            } else if (drag?.what === 'pinch' && pointers.size === 2) {
                const [a, b] = [...pointers.values()];
                const span = (drag.to - drag.from) * drag.gap / Math.max(8, Math.abs(a.x - b.x));
                const part = (a.x + b.x) / 2 / stage.width;
                setRange(drag.middle - part * span, drag.middle + (1 - part) * span, {quiet: true});
            } else {
                frame ||= requestAnimationFrame(hover);
            }
            stage.invalidate();
        };
        const up = e => {
            pointers.delete(e.pointerId);
            const was = drag;
            drag = null;
            if (was?.what === 'select') {
                actions.area(stage.selection.from, stage.selection.to, stage.selection.lane);
            } else if (was?.what === 'wait') {
                const at = place(e), h = stage.hitAt(at.x, at.y), facts = h && describe(h, stage);
                const number = laneAt(stage.lanes, at.y + stage.scroll);
                if (number >= 0)
                    setCurrent(number);
                if (facts?.id !== undefined && h.batch.lane.spec.ids)
                    actions.select(stage.lanes.indexOf(h.batch.lane), facts.id);
                else
                    stage.selection = null;
                setCursor(stage.timeAt(at.x));
                stage.invalidate();
            }
        };
        const leave = () => {
            last = null;
            stage.pointer = null;
            setTip(null);
            stage.hover = null;
            stage.invalidate();
        };
        const wheel = e => {
            const at = place(e);
            if (e.ctrlKey || e.metaKey) {
                e.preventDefault();
                zoom(Math.exp(Math.max(-1, Math.min(1, e.deltaY / 240))), stage.timeAt(at.x));
            } else if (e.shiftKey || Math.abs(e.deltaX) > Math.abs(e.deltaY)) {
                e.preventDefault();
                pan((e.deltaX || e.deltaY) / stage.width);
            }
        };
        const twice = e => zoom(0.4, stage.timeAt(place(e).x));
        const on = {pointerdown: down, pointermove: move, pointerup: up, pointercancel: up, pointerleave: leave, dblclick: twice};
        for (const [type, run] of Object.entries(on))
            canvas.addEventListener(type, run);
        canvas.addEventListener('wheel', wheel, {passive: false});
        return () => {
            cancelAnimationFrame(frame);
            for (const [type, run] of Object.entries(on))
                canvas.removeEventListener(type, run);
            canvas.removeEventListener('wheel', wheel);
        };
    }, [stage]);
}

export const page = {id: 'timeline', title: 'Timeline', key: '3', Page};
