/* The view state and its hash. */
import test from 'node:test';
import assert from 'node:assert/strict';
import {hashOf, stateOf, START, PAGES} from '../../../web/src/state.js';
import {randomOf, wholeOf, oneOf} from './random.mjs';

const TEXTS = ['', 'node7', 'job.*,client.send', "a = 'it''s' AND b > 1", '50% & more # ? + =', 'ünïcode ☃ 漢字', '<img src=x onerror=alert(1)>', '"quoted"', 'a\nb\tc', '%', '+', ' lead and trail '];

function randomState(random)
{
    const from = 1e15 + wholeOf(random, 1e15), span = 1 + wholeOf(random, 1e12);
    const mode = oneOf(random, ['live', 'paused', 'play']);
    const isLive = mode === 'live';
    return {
        page: oneOf(random, PAGES), mode, from: isLive ? 0 : from, to: isLive ? 0 : from + span, span, speed: mode === 'play' ? oneOf(random, [0.1, 1, 2.5, 1000]) : 1,
        cursor: random() < 0.5 ? null : from + wholeOf(random, span), filter: {host: oneOf(random, TEXTS), event: oneOf(random, TEXTS), where: oneOf(random, TEXTS)},
        theme: oneOf(random, ['auto', 'dark', 'light']), zone: oneOf(random, ['local', 'utc']),
        options: oneOf(random, [{}, {ids: 'id'}, {lanes: [{kind: 'series', name: 'cpu'}, {text: oneOf(random, TEXTS)}], n: 1.5, yes: true}]),
    };
}

test('a state comes back from its hash, whatever is in it', () => {
    const random = randomOf(1);
    for (let i = 0; i < 3000; i++) {
        const state = randomState(random);
        assert.deepEqual(stateOf(hashOf(state)), state, hashOf(state));
    }
});

test('and from what a browser makes of it', () => {
    const random = randomOf(2);
    for (let i = 0; i < 500; i++) {
        const state = randomState(random);
        assert.deepEqual(stateOf(new URL('http://x/' + hashOf(state)).hash), state);
    }
});

test('the beginning', () => {
    assert.deepEqual(stateOf(''), {...START});
    assert.equal(hashOf(START), '#/overview?last=15m');
});

test('what is typed into an address is read as far as it makes sense', () => {
    const nowUs = 1794952800e6;
    assert.deepEqual([stateOf('#/host').page, stateOf('#host').page, stateOf('#/nowhere').page], ['host', 'host', 'overview']);
    const s = stateOf('#/timeline?from=now-1h&to=now&host=a+b', nowUs);
    assert.deepEqual([s.mode, s.from, s.to, s.filter.host], ['paused', nowUs - 3600e6, nowUs, 'a b']);
    for (const wrong of ['from=1', 'from=now&to=now-1h', 'last=-5m', 'last=x', 'last=99999999d', 'o=[1]', 'o={', 'theme=pink', 'host=%', '&&&=&', 'at=never'])
        assert.deepEqual({...stateOf('#/overview?' + wrong, nowUs), cursor: null}, {...START, filter: START.filter}, wrong);
    assert.equal(stateOf('#/overview?from=now-1h&to=now&play=5000', nowUs).mode, 'paused');
});

test('no hash throws', () => {
    const random = randomOf(3);
    const letters = '#/?&=%+{}[]":,abcfromtolastplay0123456789.-TZ\u0000☃';
    for (let i = 0; i < 5000; i++) {
        const text = Array.from({length: wholeOf(random, 60)}, () => oneOf(random, letters)).join('');
        assert.deepEqual(Object.keys(stateOf(text)).sort(), Object.keys(START).sort());
    }
});
