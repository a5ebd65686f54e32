/* toast.js - short messages that go by themselves, and what is said to screen readers only. */
import {html, signal} from '../html.js';
import {Chip, Button} from './basic.js';

const TOASTS_MAX = 4, KEEP_MS = 6000;

export const toasts = signal([]);
export const said = signal('');
let next = 1;

/* look: info, ok, warn, error. Errors stay until they are closed. */
export function toast(text, look = 'info')
{
    const one = {id: next++, text, look};
    toasts.value = [...toasts.peek(), one].slice(-TOASTS_MAX);
    if (look !== 'error')
        setTimeout(() => drop(one.id), KEEP_MS);
}

const drop = id => { toasts.value = toasts.peek().filter(t => t.id !== id); };

/* To screen readers, politely; the newest only. */
let sayTimer = 0;
export function say(text)
{
    clearTimeout(sayTimer);
    sayTimer = setTimeout(() => { said.value = text; }, 250);
}

export const Toasts = () =>
    html`<div class="toasts" role="status" aria-live="polite">
        ${toasts.value.map(t => html`<div class="toast" key=${t.id}><${Chip} look=${t.look}>${t.text}<//>
            <${Button} kind="quiet" icon="close" label="Close" onClick=${() => drop(t.id)} /></div>`)}
    </div><div class="hidden" aria-live="polite">${said}</div>`;
