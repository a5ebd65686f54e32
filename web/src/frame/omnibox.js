/* omnibox.js - search for hosts, sensors, events and pages (/), and for commands (>). */
import {html, cx, useState, useRef, useMemo, useEffect, useId, signal} from '../html.js';
import {go, setFilter, setTheme, setZone} from '../state.js';
import {directory, sqlObjects, isAbort} from '../api.js';
import {keys, printed} from '../keys.js';
import {Icon, Kbd} from '../ui/basic.js';
import {Dialog} from '../ui/dialog.js';
import {toast} from '../ui/toast.js';
import {pages} from '../pages.js';

/* null: shut; else the text that it opens with. */
export const omnibox = signal(null);

const SHOWN_MAX = 40, KEPT_MS = 20000;
let kept = {at: -Infinity, items: []};

const hostItem = h => ({kind: 'host', icon: 'host', label: h.host, hint: h.state, run: () => go('host', {hosts: [h.host]})});

const sensorItem = s => ({kind: 'sensor', icon: 'sensors', label: `${s.sensor} on ${s.host}`, hint: s.status,
                          run: () => go('sensors', {q: `host:${s.host} ${s.sensor}`})});

const eventItem = event => ({kind: 'event', icon: 'timeline', label: event, hint: 'event', run: () => {
    setFilter({event});
    go('timeline');
}});

/* What can be found, asked for when the box opens; kept for a moment. */
async function findable(abort)
{
    if (performance.now() - kept.at < KEPT_MS)
        return kept.items;
    const [hosts, sensors, schemas] = await Promise.allSettled([
        directory('hosts', {}, {signal: abort}),
        sqlObjects('SELECT host, sensor, status FROM sensors ORDER BY host, sensor LIMIT 20000', {signal: abort, rows: 20000}),
        directory('schemas', {}, {signal: abort}),
    ]);
    const of = r => r.status === 'fulfilled' ? r.value : [];
    const events = [...new Set(of(schemas).map(s => s.event))].sort();
    kept = {at: performance.now(), items: [
        ...of(hosts).map(hostItem), ...events.map(eventItem), ...of(sensors).map(sensorItem),
    ]};
    return kept.items;
}

const pageItems = () => pages.map(p => ({kind: 'page', icon: p.id, label: p.title, hint: 'page', keys: [p.key], run: () => go(p.id)}));

const copyLink = () => navigator.clipboard?.writeText(location.href).then(
    () => toast('The address is in the clipboard.', 'ok'), () => toast('The browser does not allow that.', 'warn'));

const THEME_ICON = {auto: 'auto', dark: 'moon', light: 'sun'};

function commands()
{
    const command = (icon, label, run, more) => ({kind: 'command', icon, label, run, ...more});
    const ofKeys = keys.value.filter(k => k.label && !k.isHidden);
    return [
        ...ofKeys.map(k => command('right', k.label, () => k.run(new Event('command')), {hint: k.group, keys: printed(k)})),
        ...Object.entries(THEME_ICON).map(([theme, icon]) => command(icon, 'Theme: ' + theme, () => setTheme(theme))),
        command('clock', 'Times in UTC', () => setZone('utc')), command('clock', 'Times in local time', () => setZone('local')),
        command('link', 'Copy the address of this view', copyLink),
        command('filter', 'Clear the filter', () => setFilter({host: '', event: '', where: ''})),
    ];
}

/* Those that have every word, best first: a label that begins with the text, then one that has it, then the others. Pure. */
export function search(items, text)
{
    const whole = text.trim().toLowerCase(), words = whole.split(/\s+/).filter(Boolean);
    const rated = [];
    for (const item of items) {
        const label = item.label.toLowerCase(), all = label + ' ' + (item.hint ?? '') + ' ' + item.kind;
        if (words.every(w => all.includes(w)))
            rated.push([label.startsWith(whole) ? 0 : label.includes(whole) ? 1 : 2, item]);
    }
    rated.sort(([a], [b]) => a - b);
    return rated.map(([, item]) => item);
}

export function Omnibox()
{
    const [text, setText] = useState(omnibox.peek());
    const [items, setItems] = useState(kept.items);
    const [at, setAt] = useState(0);
    const id = useId(), list = useRef(null);
    const close = () => { omnibox.value = null; };
    useEffect(() => {
        const abort = new AbortController();
        findable(abort.signal).then(setItems, e => isAbort(e) || toast(e.message, 'warn'));
        return () => abort.abort();
    }, []);
    const isCommand = text.startsWith('>');
    const found = useMemo(() => isCommand ? search(commands(), text.slice(1)) : search([...pageItems(), ...items], text),
                          [text, items]);
    const shown = found.slice(0, SHOWN_MAX);
    const pick = item => {
        close();
        item.run();
    };
    const onKey = e => {
        const to = {ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + 10, PageUp: at - 10}[e.key];
        if (to !== undefined) {
            const next = Math.max(0, Math.min(shown.length - 1, to));
            setAt(next);
            list.current.children[next]?.scrollIntoView({block: 'nearest'});
        } else if (e.key === 'Enter' && shown[at]) {
            pick(shown[at]);
        } else {
            return;
        }
        e.preventDefault();
    };
    const type = e => {
        setText(e.currentTarget.value);
        setAt(0);
    };
    const row = (item, i) => html`<li key=${item.kind + item.label} role="option" id=${`${id}-${i}`} aria-selected=${i === at}
        class=${cx('omni-item', i === at && 'at')} onMouseMove=${() => i !== at && setAt(i)} onClick=${() => pick(item)}>
        <${Icon} name=${item.icon} /><span class="omni-label">${item.label}</span><span class="omni-hint">${item.hint}</span>
        ${item.keys && html`<${Kbd} keys=${item.keys} />`}</li>`;
    const told = shown.length === 0 ? `Nothing has “${text}”.` : found.length > shown.length ? `${shown.length} of ${found.length}: type more` : `${found.length} found`;
    return html`<${Dialog} title="Search" bare onClose=${close} class="omnibox">
        <div class="omni-head"><${Icon} name="search" />
            <input type="text" value=${text} autofocus onInput=${type} onKeyDown=${onKey} placeholder="Hosts, sensors, events, pages; > for commands"
                aria-label="Search for hosts, sensors, events and pages; begin with > for commands" role="combobox" aria-expanded="true"
                aria-controls=${id} aria-activedescendant=${shown[at] ? `${id}-${at}` : undefined} autocomplete="off" spellcheck=${false} /></div>
        <ul class="omni-list" role="listbox" id=${id} aria-label="Found" ref=${list}>${shown.map(row)}</ul>
        <p class="omni-foot note" role="status">${told}</p>
    <//>`;
}
