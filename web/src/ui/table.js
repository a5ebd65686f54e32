/* table.js - a table of any length: only the rows that can be seen are elements.
 *
 * columns: [{id, label, value(row), cell(row), end, width, hint}]; value is for sorting and filtering and is shown as text where
 * there is no cell. Rows are of one height. Arrow keys, Page Up and Down, Home, End move; Enter opens. */
import {html, cx, useState, useRef, useMemo, useLayoutEffect, useEffect, useId} from '../html.js';
import {Icon} from './basic.js';

const ROW_PX = 27, AROUND = 8;

/* Compares numbers as numbers, texts as people do; missing comes last whichever way it is sorted. Pure. */
const collator = new Intl.Collator('en', {numeric: true});

export function compare(a, b)
{
    return typeof a === 'number' && typeof b === 'number' ? a - b : collator.compare(String(a), String(b));
}

export function sorted(rows, value, isDown)
{
    const there = [], missing = [];
    let isNumbers = true;
    for (const row of rows) {
        const v = value(row);
        if (v === null || v === undefined || v === '') {
            missing.push(row);
            continue;
        }
        isNumbers &&= typeof v === 'number';
        there.push({v, row});
    }
    const by = isNumbers ? (a, b) => a.v - b.v : (a, b) => compare(a.v, b.v);
    there.sort(isDown ? (a, b) => by(b, a) : by);
    return there.map(k => k.row).concat(missing);
}

/* Rows with every word of the filter in one of their columns. The texts are made once for each list of rows. */
const texts = new WeakMap();

export function filtered(rows, columns, filter)
{
    const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
    if (!words.length)
        return rows;
    let all = texts.get(rows);
    if (!all)
        texts.set(rows, all = rows.map(row => columns.map(c => c.value?.(row) ?? '').join('\u0001').toLowerCase()));
    return rows.filter((_, i) => words.every(w => all[i].includes(w)));
}

/* rows: an array, also of numbers (TypedArray). sort: {by: column id, down}; kept by the table unless onSort is given. isSorted: rows are in that order already. rowKey(row), rowClass(row), onOpen(row), onPick(row). */
export function Table({label, columns, rows, filter = '', sort: given, onSort, isSorted, rowKey, rowClass, selected, onOpen, onPick, max, empty, class: more})
{
    const [own, setOwn] = useState(given ?? null);
    const [{top, height}, setSeen] = useState({top: 0, height: 400});
    const [at, setAt] = useState(-1);
    const scroller = useRef(null), id = useId();
    const sort = onSort ? given : own;

    const list = useMemo(() => {
        const by = sort && !isSorted && columns.find(c => c.id === sort.by);
        const left = filtered(rows, columns, filter);
        return by ? sorted(left, by.value, sort.down) : left;
    }, [rows, columns, filter, sort?.by, sort?.down]);

    useLayoutEffect(() => {
        const box = scroller.current;
        const look = () => setSeen({top: box.scrollTop, height: box.clientHeight});
        const observer = new ResizeObserver(look);
        observer.observe(box);
        box.addEventListener('scroll', look, {passive: true});
        return () => {
            observer.disconnect();
            box.removeEventListener('scroll', look);
        };
    }, []);
    useEffect(() => setAt(a => Math.min(a, list.length - 1)), [list.length]);

    const first = Math.max(0, Math.min(list.length, Math.floor(top / ROW_PX)) - AROUND);
    const last = Math.min(list.length, Math.ceil((top + height) / ROW_PX) + AROUND);
    const move = to => {
        to = Math.max(0, Math.min(list.length - 1, to));
        setAt(to);
        const box = scroller.current, head = box.querySelector('thead').offsetHeight;
        if (to * ROW_PX < box.scrollTop)
            box.scrollTop = to * ROW_PX;
        else if ((to + 1) * ROW_PX + head > box.scrollTop + box.clientHeight)
            box.scrollTop = (to + 1) * ROW_PX + head - box.clientHeight;
        onPick?.(list[to]);
    };
    const page = Math.max(1, Math.floor(height / ROW_PX) - 2);
    const onKey = e => {
        if (e.target.closest('button, input, a') && e.key !== 'Escape')
            return;
        const to = {ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + page, PageUp: at - page, Home: 0, End: list.length - 1}[e.key];
        if (to !== undefined && list.length)
            move(to);
        else if (e.key === 'Enter' && list[at])
            (onOpen ?? onPick)?.(list[at]);
        else
            return;
        e.preventDefault();
        e.stopPropagation();
    };
    const turn = column => {
        const next = {by: column.id, down: sort?.by === column.id ? !sort.down : column.end === true};
        onSort ? onSort(next) : setOwn(next);
    };
    const canOpen = onOpen || onPick;
    return html`<div class=${cx('table', more)} ref=${scroller} style=${{'--rows': max ? Math.min(max, Math.max(1, list.length)) : undefined}} data-max=${max && ''}>
        <table role="grid" tabindex="0" aria-label=${label} aria-rowcount=${list.length + 1} aria-colcount=${columns.length}
            aria-activedescendant=${at >= first && at < last ? id + at : undefined} onKeyDown=${onKey}>
            <colgroup>${columns.map(c => html`<col key=${c.id} style=${{width: c.width}} />`)}</colgroup>
            <thead><tr aria-rowindex="1">${columns.map(c => html`<th key=${c.id} scope="col" class=${c.end && 'end'} title=${c.hint}
                aria-sort=${sort?.by === c.id ? (sort.down ? 'descending' : 'ascending') : undefined}>
                ${c.value ? html`<button type="button" onClick=${() => turn(c)}>${c.label}${sort?.by === c.id && html`<${Icon} name=${sort.down ? 'down' : 'up'} />`}</button>` : c.label}</th>`)}</tr></thead>
            <tbody>
                ${first > 0 && html`<tr class="space" aria-hidden="true" style=${{height: first * ROW_PX + 'px'}}><td colspan=${columns.length}></td></tr>`}
                ${Array.from(list.slice(first, last), (row, i) => html`<tr key=${rowKey ? rowKey(row) : first + i} id=${id + (first + i)} aria-rowindex=${first + i + 2}
                    class=${cx(rowClass?.(row), first + i === at && 'at', canOpen && 'can')} aria-selected=${selected !== undefined && rowKey ? rowKey(row) === selected : undefined}
                    onClick=${() => { setAt(first + i); onPick?.(row); }} onDblClick=${() => onOpen?.(row)}>
                    ${columns.map(c => html`<td key=${c.id} class=${c.end && 'end'}>${c.cell ? c.cell(row) : text(c.value(row))}</td>`)}</tr>`)}
                ${last < list.length && html`<tr class="space" aria-hidden="true" style=${{height: (list.length - last) * ROW_PX + 'px'}}><td colspan=${columns.length}></td></tr>`}
            </tbody>
        </table>
        ${list.length === 0 && html`<p class="table-empty">${rows.length ? 'None of ' + rows.length + ' rows has “' + filter + '”.' : empty ?? 'No rows.'}</p>`}
    </div>`;
}

const text = v => v === null || v === undefined ? '–' : typeof v === 'object' ? JSON.stringify(v) : String(v);
