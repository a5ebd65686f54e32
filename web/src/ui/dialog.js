/* dialog.js - a modal dialog: the browser's own, which keeps the focus within and gives it back. */
import {html, cx, useEffect, useRef, useId} from '../html.js';
import {Button} from './basic.js';
import {takeTyped} from '../keys.js';

function typeInto(input, text)
{
    if (!text || !(input instanceof HTMLInputElement))
        return;
    input.value += text;
    input.dispatchEvent(new InputEvent('input', {bubbles: true}));
}

/* Open as long as it is rendered; onClose is called for Escape, a click beside it, and the button. */
export function Dialog({title, onClose, children, actions, class: more, bare})
{
    const ref = useRef(null), id = useId();
    useEffect(() => {
        const dialog = ref.current, before = document.activeElement;
        dialog.showModal();
        typeInto(document.activeElement, takeTyped());
        return () => {
            dialog.close();
            before?.isConnected && before.focus?.();
        };
    }, []);
    const cancel = e => {
        e.preventDefault();
        onClose();
    };
    const click = e => e.target === ref.current && onClose();
    return html`<dialog ref=${ref} class=${cx('dialog', more)} aria-labelledby=${id} onCancel=${cancel} onMouseDown=${click}>
        ${bare ? html`<h2 id=${id} class="hidden">${title}</h2>` : html`<div class="dialog-head"><h2 id=${id}>${title}</h2>
            <${Button} kind="quiet" icon="close" label="Close" onClick=${onClose} /></div>`}
        <div class="dialog-body">${children}</div>${actions && html`<div class="dialog-foot">${actions}</div>`}
    </dialog>`;
}
