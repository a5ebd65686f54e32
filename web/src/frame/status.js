/* status.js - how the gateway is, in one chip: connection, loss by the ledger, lag, silent agents, faults. */
import {html, cx, computed} from '../html.js';
import {poll, connection} from '../poll.js';
import {sqlObjects, sqlOnce, askClock, directory, who} from '../api.js';
import {count} from '../format.js';
import {go} from '../state.js';
import {Icon} from '../ui/basic.js';

const EVERY_MS = 5000, CONFIGS_MS = 30000, SELDOM_MS = 60000, LARGE = 20000;
const BEHIND = 1000; /* records that the archive has not read yet: more than a moment's */

/* What a gateway refuses for good its sender counts, too. */
const QUESTION = `SELECT (SELECT sum(lost + refused + too_old + no_schema + coalesce(sender_dropped, 0) - coalesce(sender_refused, 0)) FROM ledger) AS lost,
    (SELECT count(*) FROM workers) AS hosts,
    (SELECT count(*) FROM workers WHERE state IN ('late', 'expired', 'missing')) AS silent,
    (SELECT count(*) FROM faults WHERE state = 'firing') AS firing,
    (SELECT count(*) FROM sensors WHERE status = 'failed') AS failed`;

const FIRING = `SELECT count(*) AS firing FROM faults WHERE state = 'firing'`;

/* Hosts whose agent has refused its newest configuration and goes on with the one before. */
const REFUSED = `SELECT host, why, state, max(time) FROM agent_state WHERE time > at('now-30d') AND state IN ('refused', 'reloaded', 'started') GROUP BY host`;

export const refusedConfigs = async options => (await sqlOnce('agent_state', REFUSED, options)).filter(r => r.state === 'refused');

let shared = null, configs = null;

/* Who may not look up every host has no status; the rest of the chip is there all the same. */
function noStatus(e)
{
    if (e.status === 403)
        return [];
    throw e;
}

/* Of very many hosts, sensors and accounts the gateway would have to make tables for the question: then they are counted once a minute, and where that is too much
 * for it (422), what is firing is asked alone, and the chip says that the rest is not counted. */
let counted = null, countedAt = 0;

async function countsOf(status, options)
{
    const size = ['accounts', 'directory.hosts', 'directory.sensors', 'directory.programs'].reduce((sum, name) => sum + (status?.[name] ?? 0), 0);
    if (counted && size > LARGE && performance.now() - countedAt < SELDOM_MS)
        return counted;
    try {
        [counted] = await sqlObjects(QUESTION, options);
    } catch (e) {
        if (e.status !== 422)
            throw e;
        const [faults] = await sqlObjects(FIRING, options).catch(() => [{}]);
        counted = {hosts: status?.['directory.hosts'], isPartial: true, ...faults};
    }
    countedAt = performance.now();
    return counted;
}

/* The poll of the whole frame; begins when somebody is signed in. */
export function frameStatus()
{
    shared ??= poll('frame', EVERY_MS, async ({signal}) => {
        if (who.peek().state !== 'in')
            return null;
        const sent = performance.now();
        const [status] = await directory('status', {}, {signal}).catch(noStatus);
        const took = performance.now() - sent;
        const [counts] = await Promise.all([countsOf(status, {signal}), askClock({signal})]);
        return {...counts, took, behind: status?.['archive.lag_records'] ?? 0};
    });
    configs ??= poll('configs', CONFIGS_MS, options => who.peek().state === 'in' ? refusedConfigs(options) : []);
    return shared;
}

/* {look, icon, parts: [text], title} */
const summary = computed(() => {
    const state = connection.value, s = shared?.value.value;
    if (state !== 'ok')
        return {look: state === 'lost' ? 'error' : 'warn', icon: state === 'lost' ? 'cross' : 'clock', parts: [state === 'lost' ? 'Connection lost' : 'Reconnecting …']};
    if (!s)
        return {look: 'off', icon: 'clock', parts: ['Connecting …']};
    const parts = [];
    if (s.firing)
        parts.push(`${s.firing} firing`);
    if (s.lost !== undefined) /* null: nothing was ever taken */
        parts.push(`lost or dropped ${count(s.lost ?? 0)}`);
    if (s.silent)
        parts.push(`${count(s.silent)} of ${count(s.hosts)} silent`);
    else
        parts.push(`${count(s.hosts)} ${s.hosts === 1 ? 'host' : 'hosts'}`);
    if (s.failed)
        parts.push(`${s.failed} failed`);
    if (s.isPartial)
        parts.push('losses and silent hosts not counted: too many');
    if (s.behind > BEHIND)
        parts.push(`archive ${count(s.behind)} behind`);
    const refused = configs?.value.value?.length;
    if (refused)
        parts.push(`${refused} ${refused === 1 ? 'configuration' : 'configurations'} refused`);
    parts.push(`${Math.round(s.took)} ms`);
    const look = s.firing || s.silent ? 'error' : s.lost || s.failed || s.isPartial || s.behind > BEHIND || refused ? 'warn' : 'ok';
    return {look, icon: look === 'ok' ? 'ok' : look === 'warn' ? 'triangle' : 'cross', parts};
});

export function StatusChip()
{
    frameStatus();
    const {look, icon, parts} = summary.value;
    return html`<button type="button" class=${cx('status chip', look)} onClick=${() => go('system')}
        title=${`The gateway: ${parts.join(', ')}. Click for the System page.`}>
        <${Icon} name=${icon} /><span class="status-parts">${parts.map((p, i) => html`<span key=${i}>${p}</span>`)}</span></button>`;
}
