/* timeline-gutter.js - what stands at the left of each lane: its name, how true its picture is, its rows to be dragged, its curves, its menu. */
import {html, cx, useRef, useState} from '../html.js';
import {palette, seriesColor} from '../palette.js';
import {count} from '../format.js';
import {moved} from '../scene/order.js';
import {HEIGHT_MIN} from '../scene/layout.js';
import {Button, Field} from '../ui/basic.js';
import {Menu} from '../ui/menu.js';
import {Dialog} from '../ui/dialog.js';
import {KINDS, titleOf, numbersOf, sourceOf, isOwn} from './timeline-lanes.js';

/* ---- how true it is ---- */

/* [{text, look, hint}] of a lane; nothing where everything is shown. Pure. */
export function notesOf(spec, {status, progress, isCancelled})
{
    const notes = [];
    const put = (text, look, hint) => notes.push({text, look, hint});
    if (progress?.error)
        put(progress.error.message, 'error', 'Some of it could not be loaded');
    if (isCancelled)
        put('stopped', 'warn', 'It was cancelled; what had come is shown');
    if (status.lod === 'density' || status.lod === 'mixed')
        put(status.lod === 'mixed' ? 'partly density' : 'density', 'info', 'More lifelines than pixels: how many took how long. The slowest and errors are drawn one by one. Zoom in for each.');
    if (status.lod === 'counted')
        put('counted', 'info', 'More events than pixels: a glyph is the worst of many. Zoom in for each.');
    if (status.isGlobalTime)
        put('global time', 'warn', 'Density is counted over all hosts by global time: raw clocks do not move it. Zoom in for each lifeline by its hosts’ own clocks.');
    if (status.isCoarse)
        put('coarse', 'info', 'Bins are wider than usual, to keep the tile small');
    if (status.leftOut)
        put(`${count(status.leftOut)} left out`, 'warn', 'There was no room for these; the longest and those with errors are shown');
    if (status.lost)
        put(`${count(status.lost)} lost`, 'error', 'Rows that damage of the archive has kept out; at least so many');
    if (status.lod === 'none' && progress && progress.done === progress.all && !progress.error)
        put('nothing here', 'off', 'No data in this range');
    if (status.isOpen)
        put('open', 'off', 'Still being filled');
    return notes;
}

/* ---- rows ---- */

function Rows({spec, info, onChange, onPick})
{
    const names = [...info.rows.names].reverse();
    const dragged = useRef(null);
    const [over, setOver] = useState('');
    const isFree = !info.rows.isGrouped && spec.kind === 'lifelines';
    const shown = info.rows.names;
    const put = (name, to) => onChange({order: moved(shown, name, to)});
    const hide = name => onChange({hide: [...new Set([...spec.hide ?? [], name])]});
    const key = (e, name) => {
        const at = shown.indexOf(name);
        if (e.altKey && (e.key === 'ArrowUp' || e.key === 'ArrowDown')) {
            const to = shown[at + (e.key === 'ArrowUp' ? 1 : -1)];
            if (to !== undefined)
                put(name, to);
        } else if (e.key === 'Delete') {
            hide(name);
        } else {
            return;
        }
        e.preventDefault();
        e.stopPropagation();
    };
    const drop = (e, name) => {
        e.preventDefault();
        setOver('');
        if (dragged.current && dragged.current !== name)
            put(dragged.current, name);
    };
    return html`<ul class="tl-rows" aria-label="Rows">${names.map(name => html`<li key=${name} class=${cx('tl-row', over === name && 'over')}
        draggable=${isFree} onDragStart=${e => { dragged.current = name; e.dataTransfer.setData('text/plain', name); }}
        onDragOver=${e => { if (isFree) { e.preventDefault(); setOver(name); } }} onDragLeave=${() => setOver('')} onDrop=${e => drop(e, name)}>
        ${isFree ? html`<button type="button" class="tl-row-name" title=${name + '\nDrag to reorder (Alt and arrows), Delete to hide'} onKeyDown=${e => key(e, name)} onClick=${() => onPick?.(name)}>${name}</button>
            <button type="button" class="tl-row-hide" tabindex="-1" aria-label=${'Hide ' + name} onClick=${() => hide(name)}>×</button>`
            : html`<span class="tl-row-name" title=${name}>${spec.by === 'level' ? LEVELS[name] ?? name : name}</span>`}</li>`)}</ul>`;
}

const LEVELS = {0: 'emergency', 1: 'alert', 2: 'critical', 3: 'error', 4: 'warning', 11: 'info', 12: 'debug', 13: 'trace'};

function Legend({info})
{
    const p = palette.value;
    return html`<ul class="tl-legend" aria-label="Curves" tabindex="0">${info.curves.slice(0, 12).map(name => html`<li key=${name} title=${name}>
        <span class="tl-swatch" style=${{'--swatch': seriesColor(info.colours.get(name), p)}} aria-hidden="true"></span><span>${name}</span></li>`)}
        ${info.curves.length > 12 && html`<li class="note">and ${info.curves.length - 12} more</li>`}</ul>`;
}

/* ---- a lane ---- */

const COLOURS = [['id', 'Id'], ['host', 'Host'], ['status', 'Status'], ['latency', 'Latency']];

function menuItems({spec, info, actions})
{
    const items = [];
    if (spec.kind === 'lifelines') {
        items.push(...COLOURS.map(([v, text]) => ({label: 'Colour by ' + text.toLowerCase(), checked: (spec.color ?? 'id') === v, run: () => actions.change({color: v})})), null,
                   {label: 'Rows by host', checked: spec.group === 'host', run: () => actions.change({group: spec.group === 'host' ? undefined : 'host'})},
                   {label: 'A lane for each value of a field …', run: actions.split},
                   {label: 'Automatic order', disabled: !spec.order, run: () => actions.change({order: undefined})},
                   {label: `Show ${spec.hide?.length ?? 0} hidden rows`, disabled: !spec.hide?.length, run: () => actions.change({hide: undefined})},
                   {label: 'Heatmap of its latencies', run: actions.heat});
    }
    if (spec.kind === 'heat') {
        items.push({label: 'All hops', checked: !spec.pair, run: () => actions.change({pair: undefined})},
                   ...(info?.pairs ?? []).slice(0, 12).map(pair => ({label: pair.replace('>', ' → '), checked: spec.pair === pair, run: () => actions.change({pair})})));
    }
    if (spec.kind === 'curves') {
        items.push({label: 'Lines', checked: spec.style !== 'dots', run: () => actions.change({style: undefined})}, {label: 'Dots (scatter)', checked: spec.style === 'dots', run: () => actions.change({style: 'dots'})},
                   {label: 'Gain a second (of counters)', checked: spec.of.every(s => s.isRate), run: () => actions.change({of: spec.of.map(s => ({...s, isRate: !spec.of.every(o => o.isRate) || undefined}))})});
    }
    if (spec.kind === 'points')
        items.push(...['event', 'host', 'level'].map(by => ({label: 'Rows by ' + by, checked: (spec.by ?? 'event') === by, run: () => actions.change({by})})));
    items.push(null, {label: 'Change …', run: actions.edit}, {label: spec.isFolded ? 'Unfold' : 'Fold', run: () => actions.change({isFolded: !spec.isFolded || undefined})},
               {label: 'Up', run: () => actions.shift(-1)}, {label: 'Down', run: () => actions.shift(1)}, {label: 'Remove', run: actions.remove});
    return items;
}

export function LaneGutter({spec, info, actions, isCurrent})
{
    const grip = useRef(null);
    const title = titleOf(spec);
    const notes = info ? notesOf(spec, info) : [];
    const isBusy = info?.progress && info.progress.done < info.progress.all && !info.isCancelled;
    const height = info?.height ?? 100;
    const drag = e => {
        if (e.buttons & 1)
            actions.change({height: Math.max(HEIGHT_MIN, Math.round(e.clientY - grip.current.parentElement.getBoundingClientRect().top))});
    };
    const key = e => {
        const by = {ArrowUp: -20, ArrowDown: 20}[e.key];
        if (!by)
            return;
        actions.change({height: Math.max(HEIGHT_MIN, height + by)});
        e.preventDefault();
        e.stopPropagation();
    };
    return html`<section class=${cx('tl-lane', isCurrent && 'current')} aria-label=${title}>
        <header class="tl-lane-head">
            <div class="tl-lane-name"><${Menu} kind="quiet" icon="more" label=${'What to do with ' + title} items=${menuItems({spec, info, actions})} />
                <h2 title=${title}><button type="button" onClick=${() => actions.change({isFolded: !spec.isFolded || undefined})} aria-expanded=${!spec.isFolded}>${title}</button></h2></div>
            <div class="tl-notes">${isBusy && html`<progress max=${info.progress.all} value=${info.progress.done} aria-label=${`${title}: ${info.progress.done} of ${info.progress.all} tiles`}></progress>
                <button type="button" class="tl-note-button" onClick=${actions.cancel}>Cancel</button>`}
                ${info?.isCancelled && html`<button type="button" class="tl-note-button" onClick=${actions.resume}>Go on</button>`}
                ${notes.map(n => html`<span key=${n.text} class=${'tl-note ' + n.look} title=${n.hint}>${n.text}</span>`)}</div>
        </header>
        ${!spec.isFolded && html`<div class="tl-lane-body" style=${{'--lane': height + 'px'}}>
            <div class="tl-side">${info?.rows?.names.length ? html`<${Rows} spec=${spec} info=${info} onChange=${actions.change} />` : info?.curves?.length ? html`<${Legend} info=${info} />` : null}</div>
            <div class="tl-grip" ref=${grip} role="separator" aria-orientation="horizontal" tabindex="0" aria-label=${'Height of ' + title} aria-valuenow=${Math.round(height)} aria-valuemin=${HEIGHT_MIN} aria-valuemax="1200"
                onKeyDown=${key} onPointerDown=${e => grip.current.setPointerCapture(e.pointerId)} onPointerMove=${drag}></div>
        </div>`}
    </section>`;
}

/* ---- adding and changing ---- */

export function LaneDialog({lane, known, onDone, onClose})
{
    const [spec, setSpec] = useState(lane ?? {kind: 'curves', of: []});
    const first = spec.of?.[0] ?? {};
    const events = known.tables.map(t => t.event).filter(e => !isOwn(e));
    const set = part => setSpec({...spec, ...part});
    const numbers = first.event ? numbersOf(known, first.event) : [];
    const isReady = spec.kind === 'curves' ? spec.of.length > 0 && spec.of[0].field : spec.kind === 'points' ? spec.event : spec.ids;
    const done = e => {
        e.preventDefault();
        if (isReady)
            onDone(spec);
    };
    return html`<${Dialog} title=${lane ? 'Change the lane' : 'Add a lane'} onClose=${onClose}>
        <form class="tl-form" onSubmit=${done}>
            <${Field} label="Kind" type="select" options=${KINDS} value=${spec.kind} onInput=${kind => setSpec({kind, ...(kind === 'curves' ? {of: []} : kind === 'points' ? {event: '*'} : {ids: 'id'})})} />
            ${spec.kind === 'curves' && html`<${Field} label="Event" type="select" options=${[['', 'choose …'], ...events.filter(e => numbersOf(known, e).length).map(e => [e, e])]} value=${first.event ?? ''}
                    onInput=${event => set({of: event ? [sourceOf(known, event, numbersOf(known, event)[0])] : []})} />
                <fieldset class="tl-fields"><legend>Fields</legend>${numbers.map(f => html`<${Field} key=${f} label=${f} type="checkbox" value=${spec.of.some(s => s.field === f)}
                    onInput=${on => set({of: on ? [...spec.of.filter(s => s.field), sourceOf(known, first.event, f)] : spec.of.filter(s => s.field !== f)})} />`)}</fieldset>
                <${Field} label="Key" value=${spec.key ?? ''} onInput=${key => set({key})} hint="device=sda,mode=read; nothing: all" />`}
            ${spec.kind === 'points' && html`<${Field} label="Events" value=${spec.event ?? ''} onInput=${event => set({event})} hint="a name or a pattern: job.*" />`}
            ${(spec.kind === 'lifelines' || spec.kind === 'heat') && html`<${Field} label="Object id" value=${spec.ids ?? ''} onInput=${ids => set({ids})} hint="a field, or fields that only together are one: job+task; with events: transfer@gridftp.*" />
                <${Field} label="Events" value=${spec.event ?? ''} onInput=${event => set({event})} hint="names or patterns, by commas; nothing: all" />`}
            ${spec.kind !== 'curves' && html`<${Field} label="Where" value=${spec.where ?? ''} onInput=${where => set({where})} hint="level <= 'warning' AND bytes > 1000" />`}
            <${Field} label="Hosts" value=${spec.host ?? ''} onInput=${host => set({host})} hint="a pattern; nothing: all" />
            <${Field} label="Title" value=${spec.title ?? ''} onInput=${title => set({title})} />
            <div class="row-end"><${Button} onClick=${onClose}>Cancel<//><button type="submit" class="button primary" disabled=${!isReady}>${lane ? 'Change' : 'Add'}</button></div>
        </form>
    <//>`;
}

export function SplitDialog({known, ids, onDone, onClose})
{
    const fields = [...new Set(known.tables.filter(t => !isOwn(t.event) && t.fields.includes(ids.split('@')[0].split('+')[0])).flatMap(t => t.fields))].filter(f => f !== ids).sort();
    const [field, setField] = useState(fields[0] ?? '');
    return html`<${Dialog} title="A lane for each value of a field" onClose=${onClose}>
        <form class="tl-form" onSubmit=${e => { e.preventDefault(); onDone(field); }}>
            <${Field} label="Field" type="select" options=${fields.map(f => [f, f])} value=${field} onInput=${setField} hint="Events that don't have it are in none of them. At most eight values, the commonest first." />
            <div class="row-end"><${Button} onClick=${onClose}>Cancel<//><button type="submit" class="button primary" disabled=${!field}>Make lanes</button></div></form><//>`;
}
