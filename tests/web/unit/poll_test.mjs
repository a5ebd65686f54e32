/* Polls: how long they wait, that they keep what they had, that one name is one poll, that nothing is asked after the end. */
import test from 'node:test';
import assert from 'node:assert/strict';
import {backoff, poll, connection, pollsOpen, heard} from '../../../web/src/poll.js';
import {ApiError} from '../../../web/src/api.js';

const until = async is => {
    for (let i = 0; !is(); i++) {
        if (i > 5000)
            throw new Error('it never became so');
        await new Promise(resolve => setTimeout(resolve, 1));
    }
};

test('twice as long each time, at most 30 s, with chance', () => {
    assert.equal(backoff(0, 5000), 5000);
    const least = [1, 2, 3, 4, 5, 50].map(n => backoff(n, 1000, () => 0));
    assert.deepEqual(least, [2000, 4000, 8000, 16000, 30000, 30000]);
    assert.equal(backoff(3, 1000, () => 1), 4000);
    assert.equal(backoff(1, 60000, () => 0), 60000); /* never more often than without failures */
    for (let n = 0; n < 2000; n++)
        assert.ok(backoff(n, 100) > 0 && backoff(n, 100) <= 30000);
});

test('a value, then a failure: stale, the value stays; then well again', async () => {
    const answers = [() => 1, () => { throw new ApiError({}); }, () => 2];
    let asked = 0;
    const p = poll('one', 5, async () => answers[Math.min(asked++, 2)]());
    assert.equal(p.state.value, 'loading');
    await until(() => p.state.value === 'ok');
    assert.equal(p.value.value, 1);
    await until(() => p.state.value === 'stale');
    assert.deepEqual([p.value.value, connection.value], [1, 'reconnecting']);
    p.again();
    await until(() => p.state.value === 'ok');
    assert.deepEqual([p.value.value, connection.value, p.error.value], [2, 'ok', null]);
    p.close();
});

test('failed from the beginning; one that says no is there all the same', async () => {
    const p = poll('no', 5, async () => { throw new ApiError({status: 403, detail: 'you may not'}); });
    await until(() => p.state.value === 'failed');
    assert.deepEqual([p.error.value.message, connection.value], ['you may not', 'ok']);
    p.close();
});

test('the connection is lost after some silence, and back with the first answer', () => {
    for (let i = 0; i < 4; i++)
        heard(false);
    assert.equal(connection.value, 'lost');
    heard(true);
    assert.equal(connection.value, 'ok');
});

test('one name is one poll; the last user ends it, and what is under way with it', async () => {
    let asked = 0, aborted = false;
    const fn = ({signal}) => new Promise(() => {
        asked++;
        signal.addEventListener('abort', () => { aborted = true; });
    });
    const a = poll('shared', 1, fn), b = poll('shared', 1, fn);
    assert.equal(a, b);
    await until(() => asked === 1);
    a.close();
    assert.deepEqual([pollsOpen(), aborted], [['shared'], false]);
    b.close();
    assert.deepEqual([pollsOpen(), aborted, asked], [[], true, 1]);
});
