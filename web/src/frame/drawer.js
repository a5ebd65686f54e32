/* drawer.js - the details of what is selected, at the bottom. A page says what is in it. */
import {html, signal, useRef} from '../html.js';
import {remembered} from '../state.js';
import {Button} from '../ui/basic.js';
import {Empty} from '../ui/boxes.js';

/* {title, Body: a component, props}, or null */
export const selection = signal(null);
export const isDrawerOpen = signal(false);
const height = signal(Math.max(120, Math.min(900, Number(remembered.get('drawer')) || 260)));

/* Shows details; opens the drawer unless told not to. */
export function showDetails(title, Body, props = {}, {open = true} = {})
{
    selection.value = {title, Body, props};
    if (open)
        isDrawerOpen.value = true;
}

export function clearDetails()
{
    selection.value = null;
    isDrawerOpen.value = false;
}

export const toggleDrawer = () => { isDrawerOpen.value = !isDrawerOpen.value; };

function setHeight(px)
{
    height.value = Math.max(120, Math.min(innerHeight * 0.8, px));
    remembered.set('drawer', String(Math.round(height.value)));
}

export function Drawer()
{
    const grip = useRef(null);
    if (!isDrawerOpen.value)
        return null;
    const s = selection.value;
    const drag = e => {
        if (e.buttons & 1)
            setHeight(innerHeight - e.clientY);
    };
    const key = e => {
        const by = {ArrowUp: 24, ArrowDown: -24}[e.key];
        if (!by)
            return;
        setHeight(height.peek() + by);
        e.preventDefault();
    };
    return html`<aside class="drawer" aria-label="Details" style=${{'--drawer': height.value + 'px'}}>
        <div class="grip" ref=${grip} role="separator" aria-orientation="horizontal" aria-label="Height of the details"
            aria-valuenow=${Math.round(height.value)} aria-valuemin="120" aria-valuemax="900" tabindex="0" onKeyDown=${key} onPointerDown=${e => grip.current.setPointerCapture(e.pointerId)} onPointerMove=${drag}></div>
        <header class="drawer-head"><h2>${s?.title ?? 'Details'}</h2>
            <${Button} kind="quiet" icon="close" label="Close the details (Q)" onClick=${toggleDrawer} /></header>
        <div class="drawer-body">${s ? html`<${s.Body} ...${s.props} />` : html`<${Empty} title="Nothing is selected">
            <p>Click a lifeline, a host, a row or a fault; its details come here.</p><//>`}</div>
    </aside>`;
}

/* A row's fields that have a value, as details. */
export const Fields = ({row}) =>
    html`<dl class="facts">${Object.entries(row).filter(([, v]) => v !== null && v !== '').map(([name, v]) =>
        html`<div key=${name}><dt>${name}</dt><dd>${String(v)}</dd></div>`)}</dl>`;
