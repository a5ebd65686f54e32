/* app.js - the frame: top bar with the time control, rail of pages, the page, drawer, dialogs. */
import {html, cx, useEffect, useErrorBoundary, useState} from './html.js';
import {view, go, setTheme, setZone, setFilter, setOptions} from './state.js';
import {goLive, pan, play, zoom} from './time.js';
import {who, signOut, sqlObjects} from './api.js';
import {usePoll} from './poll.js';
import {deletedIn} from './retention.js';
import {addKeys} from './keys.js';
import {pages, pageOf, loaded, loadPage} from './pages.js';
import {Button, Icon, Chip} from './ui/basic.js';
import {Menu} from './ui/menu.js';
import {Failed, Loading, SignIn} from './ui/boxes.js';
import {Toasts, toast} from './ui/toast.js';
import {TimeBar, timeDialog, toggleLive, faster} from './frame/timebar.js';
import {Omnibox, omnibox} from './frame/omnibox.js';
import {StatusChip} from './frame/status.js';
import {Drawer, toggleDrawer, isDrawerOpen} from './frame/drawer.js';
import {Help, isHelpOpen} from './frame/help.js';

/* Keys of the frame. Those of a page go before them. */
const KEYS = [
    {code: 'KeyW', label: 'Zoom in', group: 'Time', run: () => zoom(0.5)},
    {code: 'KeyS', label: 'Zoom out', group: 'Time', run: () => zoom(2)},
    {code: 'KeyA', label: 'Earlier', group: 'Time', run: () => pan(-0.25)},
    {code: 'KeyD', label: 'Later', group: 'Time', run: () => pan(0.25)},
    {code: 'KeyA', shift: true, label: 'Much earlier', group: 'Time', run: () => pan(-1)},
    {code: 'KeyD', shift: true, label: 'Much later', group: 'Time', run: () => pan(1)},
    {key: ' ', label: 'Live or paused', group: 'Time', run: e => e.target?.closest?.('button, a, summary, [role=tab], [role=treeitem]') ? false : toggleLive()},
    {code: 'KeyL', label: 'Go live', group: 'Time', run: goLive},
    {code: 'KeyP', label: 'Play', group: 'Time', run: () => play()},
    {key: '+', label: 'Play faster', group: 'Time', run: () => faster(2)},
    {key: '-', label: 'Play slower', group: 'Time', run: () => faster(0.5)},
    {code: 'KeyG', label: 'Go to a time', group: 'Time', opens: true, run: () => { timeDialog.value = 'goto'; }},
    {code: 'KeyG', shift: true, label: 'Choose the range', group: 'Time', opens: true, run: () => { timeDialog.value = 'range'; }},
    {key: '/', label: 'Search', group: 'Everywhere', opens: true, run: () => { omnibox.value = ''; }},
    {key: '>', label: 'Commands', group: 'Everywhere', opens: true, run: () => { omnibox.value = '>'; }},
    {code: 'KeyP', ctrl: true, shift: true, always: true, isHidden: true, label: 'Commands', group: 'Everywhere', opens: true,
     run: () => { omnibox.value = '>'; }},
    {code: 'KeyQ', label: 'Details', group: 'Everywhere', run: toggleDrawer},
    {code: 'KeyT', label: 'Pictures as tables, and back', group: 'Everywhere',
     run: () => setOptions({tables: view.options.peek().tables ? undefined : true})},
    {key: '?', label: 'This help', group: 'Everywhere', opens: true, run: () => { isHelpOpen.value = true; }},
    ...pages.map(p => ({key: p.key, label: p.title, group: 'Pages', run: () => go(p.id)})),
];

const THEMES = {auto: ['auto', 'As the system'], dark: ['moon', 'Dark'], light: ['sun', 'Light']};

function FilterChips()
{
    const f = view.filter.value;
    const on = Object.entries(f).filter(([, v]) => v);
    return on.length > 0 && html`<div class="filters" role="group" aria-label="Filter">${on.map(([name, value]) => html`<${Chip} key=${name} look="info">
        <span>${name} ${value}</span><button type="button" class="chip-close" aria-label=${`Take away the filter ${name}`}
            onClick=${() => setFilter({[name]: ''})}><${Icon} name="close" /></button><//>`)}</div>`;
}

/* Who is signed in; a session can be ended, a token or a certificate can't be from here. */
function User()
{
    const {who: name, isSession} = who.value;
    const leave = () => signOut().then(() => location.reload(), e => toast(e.message, 'error'));
    return html`<${Menu} class="user only-wide" kind="quiet" align="end" icon="user" label=${'You: ' + name}
        items=${[{label: name, disabled: true, run: () => {}}, null, {label: 'Sign out', disabled: !isSession, run: leave}]} />`;
}

function Theme()
{
    const on = view.theme.value;
    const items = Object.entries(THEMES).map(([id, [icon, label]]) => ({label, icon, checked: on === id, run: () => setTheme(id)}));
    return html`<${Menu} kind="quiet" align="end" icon=${THEMES[on][0]} label="Theme" items=${items} />`;
}

const Zone = () =>
    html`<button type="button" class="button quiet zone" title="Times in UTC or local time"
        onClick=${() => setZone(view.zone.peek() === 'utc' ? 'local' : 'utc')}>${view.zone.value === 'utc' ? 'UTC' : 'Local'}</button>`;

/* A link of ours: the browser's own way to open it in another tab works, too. */
const follow = page => e => {
    if (e.ctrlKey || e.metaKey || e.shiftKey)
        return;
    e.preventDefault();
    go(page);
};

/* Retention has deleted events of the range that is shown. */
function Deleted()
{
    const rows = usePoll('retention', 60000, ({signal}) =>
        sqlObjects('SELECT event, from_time / 1000 AS "from", to_time / 1000 AS "to" FROM retention WHERE step = 0', {signal})).value.value;
    const deleted = deletedIn(rows ?? [], view.from.value, view.to.value, view.zone.value);
    return deleted && html`<div class="filters deleted" role="note" title=${deleted.text} aria-label=${deleted.text}><${Chip} look="warn" icon="clock">${deleted.short}<//></div>`;
}

const TopBar = () =>
    html`<header class="top">
        <a class="brand" href="#/overview" aria-label="gridline: overview" onClick=${follow('overview')}>gridline</a>
        <${TimeBar} /><${Deleted} /><${FilterChips} />
        <button type="button" class="omni-button" onClick=${() => { omnibox.value = ''; }} aria-label="Search (/)">
            <${Icon} name="search" /><span class="omni-text">Search</span><kbd>/</kbd></button>
        <div class="top-end"><${StatusChip} /><${Zone} /><${Theme} />
            <${Button} kind="quiet" icon="drawer" label="Details (Q)" pressed=${isDrawerOpen.value} onClick=${toggleDrawer} class="only-wide" />
            <${Button} kind="quiet" icon="help" label="Keys (?)" onClick=${() => { isHelpOpen.value = true; }} class="only-wide" />
            <${User} />
        </div>
    </header>`;

function RailItem({p})
{
    const isOn = p.id === view.page.value;
    return html`<a href=${'#/' + p.id} class=${cx('rail-item', isOn && 'on')} aria-current=${isOn ? 'page' : undefined} title=${`${p.title} (${p.key})`}
        onPointerEnter=${() => loadPage(p).catch(() => {})} onClick=${follow(p.id)}><${Icon} name=${p.id} /><span>${p.title}</span></a>`;
}

const Rail = () => html`<nav class="rail" aria-label="Pages">${pages.map(p => html`<${RailItem} key=${p.id} p=${p} />`)}</nav>`;

/* The page, once its file is there. A file that is gone is of an older viewer: the gateway has been changed under this tab. */
function Loaded({page})
{
    const [error, setError] = useState(null);
    const [, setReady] = useState(0);
    useEffect(() => {
        if (!loaded.has(page.id))
            loadPage(page).then(() => setReady(n => n + 1), setError);
    }, [page.id]);
    if (error)
        return html`<${Failed} error=${{message: 'The file of this page could not be loaded. The gateway does not answer, or has another viewer now.'}} again=${() => location.reload()} />`;
    const Page = loaded.get(page.id);
    return Page ? html`<${Page} />` : html`<${Loading} title=${`Loading ${page.title} …`} />`;
}

/* A page that throws takes nothing but itself along. */
function Guarded({page})
{
    const [error, reset] = useErrorBoundary(e => console.error(e));
    return error ? html`<${Failed} error=${error} title="This page has failed" again=${reset} />` : html`<${Loaded} page=${page} />`;
}

export function App({error})
{
    useEffect(() => addKeys(KEYS), []);
    const page = pageOf(view.page.value);
    useEffect(() => { document.title = `${page.title} – gridline`; }, [page.id]);
    if (who.value.state === 'unknown')
        return html`<main id="main" class="signin"><${Loading} title="Asking the gateway who you are …" /></main>`;
    if (who.value.state === 'out')
        return html`<${SignIn} error=${error} />`;
    return html`<a class="skip" href="#main" onClick=${e => { e.preventDefault(); document.getElementById('main').focus(); }}>To the page</a>
        <${TopBar} /><${Rail} />
        <main id="main" class=${'page page-' + page.id} tabindex="-1" aria-label=${page.title}><h1 class="hidden">${page.title}</h1><${Guarded} key=${page.id} page=${page} /></main>
        <${Drawer} /><${Toasts} />
        ${omnibox.value !== null && html`<${Omnibox} />`}${isHelpOpen.value && html`<${Help} />`}`;
}
