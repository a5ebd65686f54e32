/* help.js - the keys that work here, from the table of keys. */
import {html, signal} from '../html.js';
import {keys, printed} from '../keys.js';
import {Dialog} from '../ui/dialog.js';
import {Kbd} from '../ui/basic.js';

export const isHelpOpen = signal(false);

export function Help()
{
    const groups = new Map();
    for (const k of keys.value) {
        if (k.label && !k.isHidden)
            groups.set(k.group ?? 'Page', [...groups.get(k.group ?? 'Page') ?? [], k]);
    }
    return html`<${Dialog} title="Keys" onClose=${() => { isHelpOpen.value = false; }} class="help">
        <div class="help-groups">${[...groups].map(([group, list]) => html`<section key=${group}><h3>${group}</h3><dl>${list.map((k, i) =>
            html`<div key=${i}><dt><${Kbd} keys=${printed(k)} /></dt><dd>${k.label}</dd></div>`)}</dl></section>`)}</div>
        <p class="note">Keys work while nobody types. Letters are places on the keyboard, whatever is printed on them.
            Mouse: drag over a chart to zoom, Ctrl and wheel to zoom at the pointer.</p>
    <//>`;
}
