/* basic.js - buttons, fields, chips, icons. */
import {html, cx, useId} from '../html.js';

/* Outlines on a field of 16 by 16, drawn by SVG: d of a path each. */
const ICONS = {
    overview: 'M2 2h5v5H2zM9 2h5v5H9zM2 9h5v5H2zM9 9h5v5H9z',
    host: 'M2.5 2.5h11v5h-11zM2.5 8.5h11v5h-11zM5 5h.01M5 11h.01M8 5h3M8 11h3',
    timeline: 'M1.5 13.5l3-4 3 2 3-6 4-3M1.5 2v12h13',
    map: 'M3 5.5a1.7 1.7 0 1 0 0-.01M3 12a1.7 1.7 0 1 0 0-.01M13 8.5a1.7 1.7 0 1 0 0-.01M6.2 6l5 2M6.2 11l5-2',
    sensors: 'M8 8h.01M5.5 5.5a3.5 3.5 0 0 0 0 5M10.5 5.5a3.5 3.5 0 0 1 0 5M3.5 3.5a6.4 6.4 0 0 0 0 9M12.5 3.5a6.4 6.4 0 0 1 0 9',
    faults: 'M8 2l6.2 11.5H1.8zM8 6.5v3.2M8 11.6h.01',
    sql: 'M2.5 4c0-2.4 11-2.4 11 0v8c0 2.4-11 2.4-11 0zM2.5 4c0 2.4 11 2.4 11 0M2.5 8c0 2.4 11 2.4 11 0',
    system: 'M8 5.6a2.4 2.4 0 1 0 .01 0M8 1.5v2M8 12.5v2M1.5 8h2M12.5 8h2M3.4 3.4l1.4 1.4M11.2 11.2l1.4 1.4M3.4 12.6l1.4-1.4M11.2 4.8l1.4-1.4',
    play: 'M4.5 2.5l8 5.5-8 5.5z', pause: 'M5 3v10M11 3v10', search: 'M7 2.5a4.5 4.5 0 1 0 .01 0M10.4 10.4l3.6 3.6',
    plus: 'M8 3v10M3 8h10', minus: 'M3 8h10', left: 'M10 3L5 8l5 5', right: 'M6 3l5 5-5 5', down: 'M3 6l5 5 5-5', up: 'M3 10l5-5 5 5',
    close: 'M3.5 3.5l9 9M12.5 3.5l-9 9', help: 'M5.8 6a2.3 2.3 0 1 1 3.3 2.1c-.8.4-1.1.8-1.1 1.7M8 12.3h.01', more: 'M3 8h.01M8 8h.01M13 8h.01',
    sun: 'M8 5a3 3 0 1 0 .01 0M8 1v1.6M8 13.4V15M1 8h1.6M13.4 8H15M3 3l1.2 1.2M11.8 11.8L13 13M3 13l1.2-1.2M11.8 4.2L13 3',
    moon: 'M13.2 9.8A5.6 5.6 0 0 1 6.2 2.8a5.6 5.6 0 1 0 7 7z', auto: 'M8 2a6 6 0 1 0 .01 0M8 2v12', clock: 'M8 2a6 6 0 1 0 .01 0M8 4.8V8l2.4 1.6',
    ok: 'M3 8.5l3.2 3.2L13 4.6', cross: 'M4 4l8 8M12 4l-8 8', triangle: 'M8 3l5.5 10h-11z', diamond: 'M8 2.5L13.5 8 8 13.5 2.5 8z',
    circle: 'M8 3.5a4.5 4.5 0 1 0 .01 0', dot: 'M8 6.5a1.5 1.5 0 1 0 .01 0', table: 'M2 3h12v10H2zM2 6.3h12M2 9.6h12M6.5 3v10',
    drawer: 'M2 2.5h12v11H2zM2 9.5h12', user: 'M8 2.5a2.7 2.7 0 1 0 .01 0M2.8 14c.6-3.4 2.6-4.8 5.2-4.8s4.6 1.4 5.2 4.8', link: 'M6.5 9.5l3-3M7 4.5l1.6-1.6a3 3 0 0 1 4.3 4.3L11.4 8.7M9 11.5l-1.6 1.6a3 3 0 0 1-4.3-4.3l1.5-1.5',
    filter: 'M2 3h12l-4.7 5.6V13L6.7 11.6v-3z',
};

export const Icon = ({name, class: more}) =>
    html`<svg class=${cx('icon', more)} viewBox="0 0 16 16" aria-hidden="true" focusable="false"><path d=${ICONS[name] ?? ''} /></svg>`;

/* kind: 'plain' | 'primary' | 'quiet' | 'danger'. Without children `label` is its name for those who can't see the icon, and its hint. */
export function Button({kind = 'plain', icon, label, children, pressed, class: more, ...rest})
{
    const isBare = children === undefined || children === null;
    return html`<button type="button" class=${cx('button', kind, isBare && 'bare', more)} aria-pressed=${pressed}
        aria-label=${label} title=${label} ...${rest}>${icon && html`<${Icon} name=${icon} />`}${children}</button>`;
}

/* A labelled input. type: text, search, number, select (with options: [[value, text]]), checkbox. */
export function Field({label, type = 'text', value, onInput, options, hint, error, hideLabel, class: more, ...rest})
{
    const id = useId();
    const change = e => onInput?.(type === 'checkbox' ? e.currentTarget.checked : e.currentTarget.value, e);
    const described = error ? id + '-e' : hint ? id + '-h' : undefined;
    const input = type === 'select'
        ? html`<select id=${id} value=${value} onChange=${change} aria-describedby=${described} ...${rest}>
              ${options.map(([v, text]) => html`<option key=${v} value=${v} selected=${v === value}>${text}</option>`)}</select>`
        : type === 'checkbox'
        ? html`<input id=${id} type="checkbox" checked=${value} onChange=${change} aria-describedby=${described} ...${rest} />`
        : html`<input id=${id} type=${type} value=${value} onInput=${change} aria-describedby=${described}
              aria-invalid=${error ? 'true' : undefined} autocomplete="off" spellcheck=${false} ...${rest} />`;
    return html`<div class=${cx('field', type, more)}>
        <label for=${id} class=${hideLabel && 'hidden'}>${label}</label>${input}
        ${error ? html`<p class="field-error" id=${id + '-e'}>${error}</p>` : hint && html`<p class="field-hint" id=${id + '-h'}>${hint}</p>`}
    </div>`;
}

const STATE_LOOK = {
    live: ['ok', 'ok'], running: ['ok', 'ok'], ok: ['ok', 'ok'], done: ['ok', 'ok'], idle: ['info', 'circle'], late: ['warn', 'triangle'],
    unknown: ['warn', 'triangle'], warning: ['warn', 'triangle'], pending: ['warn', 'triangle'], suspended: ['off', 'pause'], clearing: ['info', 'circle'],
    acknowledged: ['info', 'diamond'], expired: ['error', 'cross'], missing: ['error', 'cross'], failed: ['error', 'cross'], firing: ['error', 'cross'],
    error: ['error', 'cross'], critical: ['error', 'cross'], lost: ['error', 'cross'], deregistered: ['off', 'minus'], stopped: ['off', 'minus'], cleared: ['ok', 'ok'],
};

/* The look of a state's word: [colour, icon]. Never colour alone. */
export const stateLook = state => STATE_LOOK[state] ?? ['off', 'dot'];

/* A small word with a colour and a shape. look: ok, warn, error, info, off. */
export const Chip = ({look = 'off', icon, children, class: more, ...rest}) =>
    html`<span class=${cx('chip', look, more)} ...${rest}>${icon && html`<${Icon} name=${icon} />`}${children}</span>`;

export function State({state, text})
{
    const [look, icon] = stateLook(state);
    return html`<${Chip} look=${look} icon=${icon}>${text ?? state}<//>`;
}

export const Kbd = ({keys}) => html`<span class="keys">${keys.map(k => html`<kbd key=${k}>${k}</kbd>`)}</span>`;

/* A piece of a page with a heading. `aside`: what is at the right of it. */
export const Panel = ({title, aside, children, class: more, note}) =>
    html`<section class=${cx('panel', more)} aria-label=${title}>
        <header class="panel-head"><h2>${title}</h2>${note && html`<span class="note">${note}</span>`}<div class="panel-aside">${aside}</div></header>
        <div class="panel-body">${children}</div>
    </section>`;
