/* menu.js - a button that opens a list of things to do. */
import {html, cx, useState, useEffect, useRef, useId} from '../html.js';
import {Icon} from './basic.js';

/* items: [{label, hint, icon, checked, run, disabled}] or null for a line; children: what is on the button. */
export function Menu({label, items, children, icon, kind = 'plain', align = 'start', class: more})
{
    const [isOpen, setOpen] = useState(false);
    const ref = useRef(null), id = useId();
    useEffect(() => {
        if (!isOpen)
            return undefined;
        ref.current.querySelector('[role^=menuitem]:not([disabled])')?.focus();
        const away = e => !ref.current.contains(e.target) && setOpen(false);
        addEventListener('pointerdown', away);
        return () => removeEventListener('pointerdown', away);
    }, [isOpen]);
    const shut = () => {
        setOpen(false);
        ref.current.querySelector('button').focus();
    };
    const onKey = e => {
        if (!isOpen)
            return;
        const all = [...ref.current.querySelectorAll('[role^=menuitem]:not([disabled])')];
        const at = all.indexOf(document.activeElement);
        const to = {ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: -1}[e.key];
        if (to !== undefined)
            all.at(to % all.length)?.focus();
        else if (e.key === 'Escape')
            shut();
        else if (e.key === 'Tab')
            setOpen(false);
        else
            return;
        if (e.key !== 'Tab')
            e.preventDefault();
        e.stopPropagation();
    };
    return html`<div class=${cx('menu', more)} ref=${ref} onKeyDown=${onKey}>
        <button type="button" class=${cx('button', kind, !children && 'bare')} aria-haspopup="menu" aria-expanded=${isOpen} aria-controls=${isOpen ? id : undefined}
            aria-label=${label} title=${label} onClick=${() => setOpen(!isOpen)}>${icon && html`<${Icon} name=${icon} />`}${children}</button>
        ${isOpen && html`<div class=${cx('menu-list', align)} role="menu" id=${id} aria-label=${label}>
            ${items.map((item, i) => item === null ? html`<hr key=${i} />` : html`<button key=${i} type="button" class="menu-item" tabindex="-1"
                role=${item.checked === undefined ? 'menuitem' : 'menuitemradio'} aria-checked=${item.checked} disabled=${item.disabled}
                onClick=${() => { shut(); item.run(); }}>
                <span class="menu-tick">${item.checked ? html`<${Icon} name="ok" />` : item.icon && html`<${Icon} name=${item.icon} />`}</span>
                <span>${item.label}</span>${item.hint && html`<span class="menu-hint">${item.hint}</span>`}</button>`)}
        </div>`}
    </div>`;
}
