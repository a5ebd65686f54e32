/* timebar.js - the time control: live, pause, playback and its speed, the range, zoom, go to a time. */
import {html, cx, useState, signal} from '../html.js';
import {view, setRange, SPEED_MIN, SPEED_MAX} from '../state.js';
import {now, goLive, pause, play, zoom, pan, goTo, parseTime, formatTime, formatSpan, isoTime, digitsFor, SPANS} from '../time.js';
import {Button, Field} from '../ui/basic.js';
import {Dialog} from '../ui/dialog.js';
import {Menu} from '../ui/menu.js';

const SPEEDS = [0.1, 0.5, 1, 2, 5, 10, 60, 100, 600, 1000];

/* 'range' | 'goto' | null: which dialog is open. */
export const timeDialog = signal(null);

/* Live or paused by one key. */
export const toggleLive = () => view.mode.peek() === 'paused' ? goLive() : pause();

export function faster(factor)
{
    const next = Math.max(SPEED_MIN, Math.min(SPEED_MAX, view.speed.peek() * factor));
    if (view.mode.peek() === 'play')
        view.speed.value = next;
    else
        play(next);
}

/* What the range button says: 'last 15 min', or from – to. */
function rangeText()
{
    const from = view.from.value, to = view.to.value;
    if (view.mode.value === 'live')
        return 'Last ' + formatSpan(view.span.value);
    const digits = digitsFor(to - from);
    const isOneDay = formatTime(from).slice(0, 10) === formatTime(to).slice(0, 10);
    return `${formatTime(from, {digits})} – ${formatTime(to, {digits, date: !isOneDay})}`;
}

function RangeDialog()
{
    const close = () => { timeDialog.value = null; };
    const isLive = view.mode.peek() === 'live';
    const [from, setFrom] = useState(isLive ? 'now-' + formatSpan(view.span.peek()).replace('min', 'm').replaceAll(' ', '') : isoTime(view.from.peek()));
    const [to, setTo] = useState(isLive ? 'now' : isoTime(view.to.peek()));
    const start = parseTime(from), end = parseTime(to);
    const apply = e => {
        e.preventDefault();
        if (start === null || end === null || end <= start)
            return;
        const isNow = /^now$/i.test(to.trim());
        setRange(start, end, {mode: isNow ? 'live' : 'paused'});
        close();
    };
    const echo = t => t === null ? undefined : formatTime(t);
    const last = span => {
        setRange(now() - span, now(), {mode: 'live'});
        close();
    };
    return html`<${Dialog} title="Range of time" onClose=${close} class="range-dialog">
        <div class="presets" role="group" aria-label="The last">${SPANS.map(s => html`<${Button} key=${s} onClick=${() => last(s)}
            pressed=${isLive && view.span.peek() === s}>${formatSpan(s)}<//>`)}</div>
        <form onSubmit=${apply}>
            <${Field} label="From" value=${from} onInput=${setFrom} error=${start === null && 'Not a time. Like now-15m, 22:10, 2026-11-17 22:10:05, or seconds since 1970.'} hint=${echo(start)} autofocus />
            <${Field} label="To" value=${to} onInput=${setTo} error=${end === null ? 'Not a time.' : end <= start && 'Before the beginning.'} hint=${echo(end)} />
            <div class="row-end"><${Button} kind="primary" type="submit" disabled=${start === null || end === null || end <= start}>Show<//></div>
        </form>
        <p class="note">“now” as the end stays live. Dragging over any chart sets the range, too.</p>
    <//>`;
}

function GoToDialog()
{
    const close = () => { timeDialog.value = null; };
    const [text, setText] = useState('');
    const t = parseTime(text);
    const apply = e => {
        e.preventDefault();
        if (t === null)
            return;
        goTo(t);
        close();
    };
    return html`<${Dialog} title="Go to a time" onClose=${close}>
        <form onSubmit=${apply}><${Field} label="Time" value=${text} onInput=${setText} autofocus placeholder="now-15m · 22:10:05 · 2026-11-17T22:10:05Z · 1794776400"
            error=${text && t === null && 'Not a time.'} hint=${t === null ? 'It comes into the middle, with the cursor on it.' : formatTime(t)} />
            <div class="row-end"><${Button} kind="primary" type="submit" disabled=${t === null}>Go<//></div></form>
    <//>`;
}

export function TimeBar()
{
    const mode = view.mode.value, speed = view.speed.value;
    return html`<div class="timebar" role="group" aria-label="Time">
        <button type="button" class=${cx('button', 'live', mode === 'live' && 'on')} aria-pressed=${mode === 'live'} onClick=${goLive} title="Follow now (L)">
            <span class="live-dot" aria-hidden="true"></span>Live</button>
        ${mode === 'paused' ? html`<${Button} icon="play" label=${`Play at ${speed}× (P)`} onClick=${() => play()} />`
                            : html`<${Button} icon="pause" label="Pause (Space)" onClick=${pause} />`}
        <${Menu} label=${`${speed}× playback`} class="speed" items=${SPEEDS.map(s => ({label: s + '×', checked: s === speed, run: () => play(s)}))}>
            <span class="num">${speed}×</span><//>
        <span class="group"><${Button} icon="left" label="Earlier (A)" onClick=${() => pan(-0.5)} />
        <button type="button" class="button range" onClick=${() => { timeDialog.value = 'range'; }} title="Choose the range of time">
            <span class="num">${rangeText()}</span></button>
        <${Button} icon="right" label="Later (D)" onClick=${() => pan(0.5)} /></span>
        <span class="group wide"><${Button} icon="minus" label="Zoom out (S)" onClick=${() => zoom(2)} /><${Button} icon="plus" label="Zoom in (W)" onClick=${() => zoom(0.5)} />
        <${Button} icon="clock" label="Go to a time (G)" onClick=${() => { timeDialog.value = 'goto'; }} /></span>
        ${timeDialog.value === 'range' && html`<${RangeDialog} />`}${timeDialog.value === 'goto' && html`<${GoToDialog} />`}
    </div>`;
}
