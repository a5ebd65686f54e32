/* boxes.js - what stands where there is nothing to show: each says what, why, and what next. */
import {html, cx} from '../html.js';
import {Icon, Button} from './basic.js';
import {connection} from '../poll.js';
import {who} from '../api.js';

const Box = ({icon, look, title, children, actions, role}) =>
    html`<div class=${cx('box', look)} role=${role}>
        <${Icon} name=${icon} /><div class="box-text"><p class="box-title">${title}</p>
        ${children && html`<div class="box-why">${children}</div>`}${actions && html`<div class="box-actions">${actions}</div>`}</div>
    </div>`;

/* There is nothing, and that is no error. children: why, and what next. */
export const Empty = ({title, children, actions}) => html`<${Box} icon="circle" look="empty" title=${title} actions=${actions}>${children}<//>`;

export const Loading = ({title = 'Loading …'}) =>
    html`<div class="box loading" role="status"><span class="spinner" aria-hidden="true"></span><div class="box-text"><p class="box-title">${title}</p></div></div>`;

const HINTS = {
    0: 'The gateway does not answer. It is asked again by itself, as long as this page is open.',
    401: 'This tab is not signed in, or no longer. Run “gridline viewer” on the gateway’s host and open the address that it prints.',
    403: 'You may not see this here. “gridline access” on the gateway’s host says what you may do, and docs/access.md how that is changed.',
    404: 'The gateway does not have it: perhaps it keeps no archive, or nothing of that name has come yet.',
    422: 'It would need more than is allowed. Choose a shorter time, or fewer hosts.',
    503: 'The gateway is busy. It is asked again by itself.',
    504: 'It took too long. Choose a shorter time, or fewer hosts.',
};

/* An error, of the API or of ours. again: a function that tries again. */
export function Failed({error, title = 'This could not be loaded', again})
{
    const hint = HINTS[error?.status];
    return html`<${Box} icon="faults" look="failed" role="alert" title=${title}
        actions=${again && html`<${Button} onClick=${again}>Try again<//>`}>
        <p>${error?.message ?? String(error)}</p>${hint && hint !== error?.message && html`<p>${hint}</p>`}
        ${error?.request && html`<p class="note">Request ${error.request} in the gateway’s log.</p>`}
    <//>`;
}

/* Above what is shown while it can't be brought up to date. */
export const Stale = ({error, again}) =>
    html`<div class="stale" role="status"><${Icon} name="clock" />
        <span>${error?.status === 0 ? 'Reconnecting: this is how it was.' : 'Not up to date: ' + (error?.message ?? '')}</span>
        ${again && html`<${Button} kind="quiet" onClick=${again}>Now<//>`}</div>`;

/* The states of a poll in one: loading, failed, stale, empty; else children(value). */
export function Polled({poll, loading, title, empty, children})
{
    const state = poll.state.value;
    if (state === 'loading')
        return html`<${Loading} title=${loading} />`;
    if (state === 'failed')
        return html`<${Failed} error=${poll.error.value} title=${title} again=${poll.again} />`;
    const value = poll.value.value;
    const isEmpty = Array.isArray(value) && value.length === 0 && empty;
    return html`${state === 'stale' && html`<${Stale} error=${poll.error.value} again=${poll.again} />`}${isEmpty ? empty : children(value)}`;
}

/* Instead of everything, for who is not signed in. */
export const SignIn = ({error}) =>
    html`<main class="signin" id="main"><div class="signin-card">
        <h1>gridline</h1>
        <p><strong>This browser is not signed in${who.value.who ? ': it is ' + who.value.who : ''}.</strong></p>
        <p>On the gateway’s host run</p><pre>gridline viewer</pre>
        <p>and open the address that it prints. It works once, and within a few minutes.</p>
        ${error && html`<p class="field-error" role="alert">${error.message}</p>`}
        ${connection.value !== 'ok' && html`<p class="note">The gateway does not answer at the moment.</p>`}
        <${Button} kind="primary" onClick=${() => location.reload()}>Try again<//>
    </div></main>`;
