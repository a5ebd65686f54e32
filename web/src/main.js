/* main.js - mounts the app. */
import './style.css';
import {html, render, effect} from './html.js';
import {App} from './app.js';
import {view, followHash} from './state.js';
import {now, runClock} from './time.js';
import {whoAmI, session, who, traffic} from './api.js';
import {applyTheme} from './palette.js';
import {onKey} from './keys.js';
import {cacheSize} from './tiles.js';
import {pollsOpen, pollsFailed, connection} from './poll.js';
import {liveState} from './live.js';
import {debugParts} from './debug.js';

/* A one-time key in the fragment is swapped for a cookie, and gone from the address before anything else. */
async function signIn()
{
    const key = /^#key=([^&]+)/.exec(location.hash)?.[1];
    if (!key)
        return;
    history.replaceState(null, '', location.pathname);
    await session(decodeURIComponent(key));
}

function exposeDebug()
{
    const debug = () => ({page: view.page.value, mode: view.mode.value, from: view.from.value, to: view.to.value,
                          theme: document.documentElement.dataset.theme, connection: connection.value, signedIn: who.value.state,
                          traffic: {...traffic}, tiles: cacheSize(), polls: pollsOpen(), failed: pollsFailed(), live: {...liveState, lanes: liveState.lanes()},
                          ...Object.fromEntries(Object.entries(debugParts).filter(([, part]) => typeof part === 'function').map(([name, part]) => [name, part()]))});
    /* When nothing has been asked for and nothing waits, for some frames. */
    const idle = async (frames = 4) => {
        for (let quiet = 0; quiet < frames;) {
            await new Promise(requestAnimationFrame);
            quiet = traffic.open === 0 && cacheSize().waiting === 0 && cacheSize().asking === 0 ? quiet + 1 : 0;
        }
    };
    window.__gridline = {debug, idle, hit: (x, y) => window.__gridline.hitTest?.(x, y) ?? null};
}

async function start()
{
    effect(() => applyTheme(view.theme.value));
    matchMedia('(prefers-color-scheme: light)').addEventListener('change', () => applyTheme(view.theme.peek()));
    let error = null;
    try {
        await signIn();
    } catch (e) {
        error = e;
    }
    followHash(now);
    effect(() => document.documentElement.classList.toggle('reduced', matchMedia('(prefers-reduced-motion: reduce)').matches));
    runClock();
    addEventListener('keydown', onKey);
    exposeDebug();
    render(html`<${App} error=${error} />`, document.getElementById('app'));
    ask();
}

/* Who we are: asked until the gateway answers. */
async function ask(wait = 500)
{
    try {
        await whoAmI();
    } catch (e) {
        if (e.status) {
            who.value = {state: 'out', who: '', may: new Set()};
            return;
        }
        setTimeout(() => ask(Math.min(wait * 2, 15000)), wait);
    }
}

start();
