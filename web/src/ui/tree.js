/* tree.js - a tree with the keys of one. nodes: [{id, label, hint, icon, children}] */
import {html, cx, useRef, useState} from '../html.js';
import {Icon} from './basic.js';

/* The nodes that can be seen, in order: [{node, depth, parent}] */
function seen(nodes, open, depth = 0, parent = null, out = [])
{
    for (const node of nodes) {
        out.push({node, depth, parent});
        if (node.children?.length && open.has(node.id))
            seen(node.children, open, depth + 1, node.id, out);
    }
    return out;
}

/* open: Set of ids; onOpen(id, isOpen); selected: id; onSelect(id, node) */
export function Tree({nodes, open, onOpen, selected, onSelect, label})
{
    const ref = useRef(null);
    const [at, setAt] = useState(null);
    const rows = seen(nodes, open);
    const current = rows.some(r => r.node.id === at) ? at : rows.some(r => r.node.id === selected) ? selected : rows[0]?.node.id;
    const focus = row => {
        if (!row)
            return;
        setAt(row.node.id);
        ref.current.querySelector(`[data-id="${CSS.escape(row.node.id)}"]`)?.focus();
    };
    const onKey = e => {
        const i = rows.findIndex(r => r.node.id === current);
        const {node, parent} = rows[i] ?? {};
        if (!node)
            return;
        const isOpen = open.has(node.id), has = node.children?.length > 0;
        if (e.key === 'ArrowDown')
            focus(rows[i + 1]);
        else if (e.key === 'ArrowUp')
            focus(rows[i - 1]);
        else if (e.key === 'Home')
            focus(rows[0]);
        else if (e.key === 'End')
            focus(rows.at(-1));
        else if (e.key === 'ArrowRight')
            has && !isOpen ? onOpen(node.id, true) : focus(rows[i + 1]);
        else if (e.key === 'ArrowLeft')
            has && isOpen ? onOpen(node.id, false) : focus(rows.find(r => r.node.id === parent));
        else if (e.key === 'Enter' || e.key === ' ')
            onSelect(node.id, node);
        else
            return;
        e.preventDefault();
        e.stopPropagation();
    };
    return html`<div class="tree" role="tree" aria-label=${label} ref=${ref} onKeyDown=${onKey} data-keys="own">
        ${rows.map(({node, depth}) => html`<div key=${node.id} role="treeitem" data-id=${node.id} class=${cx('tree-row', node.id === selected && 'selected')}
            aria-level=${depth + 1} aria-selected=${node.id === selected} aria-expanded=${node.children?.length ? open.has(node.id) : undefined}
            tabindex=${node.id === current ? 0 : -1} style=${{'--depth': depth}} onClick=${() => { setAt(node.id); onSelect(node.id, node); }}>
            <span class="tree-turn" onClick=${e => { e.stopPropagation(); onOpen(node.id, !open.has(node.id)); }}>
                ${node.children?.length ? html`<${Icon} name=${open.has(node.id) ? 'down' : 'right'} />` : ''}</span>
            ${node.icon && html`<${Icon} name=${node.icon} />`}<span class="tree-label">${node.label}</span>
            ${node.hint !== undefined && html`<span class="tree-hint">${node.hint}</span>`}
        </div>`)}
    </div>`;
}
