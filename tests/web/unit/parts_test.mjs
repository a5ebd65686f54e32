/* Smaller pure parts: numbers for people, the ledger's sums, tables, frames of the live connection, keys, colours, search, hints. */
import test from 'node:test';
import assert from 'node:assert/strict';
import {number, count, bytes, seconds, short, ago, withUnit} from '../../../web/src/format.js';
import {accountOf, sumsOf} from '../../../web/src/ledger.js';
import {sorted, filtered} from '../../../web/src/ui/table.js';
import {frameReader} from '../../../web/src/live.js';
import {matches, printed} from '../../../web/src/keys.js';
import {seriesColor, palette} from '../../../web/src/palette.js';
import {search} from '../../../web/src/frame/omnibox.js';
import {hintsOf} from '../../../web/src/pages/system.js';
import {quote} from '../../../web/src/api.js';
import {randomOf, wholeOf} from './random.mjs';

test('numbers', () => {
    assert.deepEqual([0, 1234567, 12.345, 0.00123, -5, NaN, null, undefined, Infinity, 1e-9].map(v => number(v)), ['0', '1,234,567', '12.3', '0.00123', '−5', '–', '–', '–', '∞', '1.0e-9']);
    assert.deepEqual([count(1234567), count(null), bytes(1536), bytes(0), short(2500), withUnit(1024, 'bytes', true)], ['1,234,567', '–', '1.5 KiB', '0 B', '2.5 k', '1 KiB/s']);
    assert.deepEqual([0.0123, 2e-7, 59.95, 125, 90061, 0, null].map(seconds), ['12.3 ms', '200 ns', '60 s', '2 min 5 s', '1 d 1 h', '0 s', '–']);
    assert.deepEqual([ago(500), ago(65e6), ago(-5e6)], ['now', '1 min 5 s ago', 'in 5 s']);
});

test('the ledger adds up, or it is said by how much not', () => {
    const good = {taken: 10, passed: 5, duplicate: 1, refused: 1, too_old: 1, no_schema: 1, queued: 1, lost: 3, state: 'open'};
    assert.equal(accountOf(good).off, 0);
    const told = {taken: 1, passed: 1, sender_taken: 60, sender_passed: 1, sender_filtered: 2, sender_queued: 3, sender_unwritable: 54, sender_dropped: 54};
    const sums = sumsOf([good, {...good, passed: 4}, told]);
    assert.deepEqual([sums.wrong, sums.gateway.off, sums.gateway.taken, sums.gateway.dropped, sums.lost, sums.retried], [1, 1, 21, 6, 6, 0]);
    assert.deepEqual([sums.senders.off, sums.senders.taken, sums.senders.dropped, sums.senders.reasons], [0, 60, 54, {unwritable: 54}]);
    assert.equal(sums.bad, 6 + 6 + 54);
    assert.equal(accountOf({...told, sender_taken: 61}).off, 1); /* "adds up" is about what is shown: the senders' drops are in it */
    assert.equal(sumsOf([{taken: 2, passed: 1, refused: 1, sender_taken: 2, sender_passed: 1, sender_refused: 1}]).bad, 1); /* one loss, told by both */
    assert.equal(sumsOf([{taken: 2, passed: 2, retried: 5}]).bad, 0); /* sent again is not dropped */
});

test('tables: missing comes last either way; numbers as numbers; every word of a filter', () => {
    const rows = [{v: 10}, {v: null}, {v: 9}, {v: 100}];
    assert.deepEqual(sorted(rows, r => r.v, false).map(r => r.v), [9, 10, 100, null]);
    assert.deepEqual(sorted(rows, r => r.v, true).map(r => r.v), [100, 10, 9, null]);
    assert.deepEqual(sorted(['node10', 'node9'], r => r, false), ['node9', 'node10']);
    const hosts = [{a: 'Node1', b: 'live'}, {a: 'node2', b: 'late'}], columns = [{value: r => r.a}, {value: r => r.b}];
    assert.deepEqual(filtered(hosts, columns, 'NODE la').map(r => r.a), ['node2']);
    assert.equal(filtered(hosts, columns, ' '), hosts);
});

test('live frames, cut anywhere', () => {
    const payloads = [new Uint8Array([1, 2, 3]), new Uint8Array(0), Uint8Array.from({length: 70000}, (_, i) => i)];
    const stream = new Uint8Array(payloads.reduce((a, p) => a + 8 + p.length, 0)), view = new DataView(stream.buffer);
    payloads.reduce((at, p, i) => {
        view.setUint32(at, p.length, true);
        view.setUint16(at + 4, i + 1, true);
        stream[at + 6] = 1;
        stream.set(p, at + 8);
        return at + 8 + p.length;
    }, 0);
    const random = randomOf(11);
    for (let round = 0; round < 50; round++) {
        const got = [], read = frameReader(f => got.push(f));
        for (let at = 0; at < stream.length;) {
            const n = 1 + wholeOf(random, round < 10 ? 9 : 30000);
            read(stream.slice(at, at + n));
            at += n;
        }
        assert.deepEqual(got.map(f => [f.lane, f.kind, f.payload.byteLength]), payloads.map((p, i) => [i + 1, 1, p.length]));
        assert.deepEqual(new Uint8Array(got[2].payload), payloads[2]);
    }
    assert.throws(() => frameReader(() => {})(new Uint8Array([255, 255, 255, 255, 0, 0, 1, 0])));
});

test('keys', () => {
    const e = (key, code, more = {}) => ({key, code, ctrlKey: false, metaKey: false, altKey: false, shiftKey: false, ...more});
    assert.ok(matches({code: 'KeyW'}, e('z', 'KeyW')));
    assert.ok(!matches({code: 'KeyW'}, e('w', 'KeyW', {ctrlKey: true})));
    assert.ok(!matches({code: 'KeyE'}, e('E', 'KeyE', {shiftKey: true})));
    assert.ok(matches({key: '?'}, e('?', 'Slash', {shiftKey: true})));
    assert.deepEqual(printed({code: 'KeyE', shift: true}), ['Shift', 'E']);
});

test('more than 256 colours, the first ones apart', () => {
    const colours = Array.from({length: 300}, (_, i) => seriesColor(i, palette.value));
    assert.ok(new Set(colours).size >= 280, String(new Set(colours).size));
    colours.forEach(c => assert.match(c, /^#[0-9a-f]{6}$/));
});

test('search: what begins with it first; words of label, hint and kind', () => {
    const items = ['my node', 'node7', 'disk on node7'].map(label => ({label, hint: 'live', kind: 'host'}));
    assert.deepEqual(search(items, 'node').map(i => i.label), ['node7', 'my node', 'disk on node7']);
    assert.deepEqual(search(items, 'live disk').map(i => i.label), ['disk on node7']);
    assert.equal(search(items, 'nothing').length, 0);
});

test('hints: none where all is well, one for each that is not', () => {
    assert.deepEqual(hintsOf({}), []);
    assert.deepEqual(hintsOf({status: {'certificate.until': '2999-01-01T00:00:00Z'}}), []);
    assert.equal(hintsOf({status: {'certificate.until': '2020-01-01T00:00:00Z'}}).length, 1);
    const hints = hintsOf({status: {'journal.bytes': 95, 'journal.max': 100}, ledger: [{taken: 2, passed: 1}], hosts: [{host: 'a', state: 'expired', version: '1'}, {host: 'b', state: 'live', version: '2', clock_offset_ns: -5e9}],
                           subscriptions: [{consumer: 'slow one', lost: 4}], sensors: [{sensor: 'disk', host: 'a', status: 'failed', why: 'no such file'}], configs: [{host: 'a', why: 'line 3'}]});
    assert.deepEqual(hints.map(h => h.look), ['error', 'warn', 'warn', 'error', 'info', 'warn', 'warn', 'warn']);
    assert.ok(hints.every(h => h.text && h.next));
});

test('text for SQL', () => assert.equal(quote("it's"), "'it''s'"));
