/* Times and spans as people write them. The runner sets the zone to Europe/Berlin. */
import test from 'node:test';
import assert from 'node:assert/strict';
import {parseTimeAt, parseSpan, spanText, formatSpan, formatTime, isoTime, digitsFor} from '../../../web/src/timetext.js';
import {timeTicks} from '../../../web/src/axis.js';
import {randomOf, wholeOf} from './random.mjs';

const now = Date.UTC(2026, 10, 17, 22, 0, 0) * 1e3;

test('what is a time', () => {
    const utc = text => parseTimeAt(text, now, 'utc');
    assert.equal(utc('now'), now);
    assert.equal(utc(' NOW '), now);
    assert.equal(utc('now-15m'), now - 900e6);
    assert.equal(utc('now + 1h30m'), now + 5400e6);
    assert.equal(utc('-1d'), now - 86400e6);
    assert.equal(utc('2026-11-17T22:19:08.5Z'), Date.UTC(2026, 10, 17, 22, 19, 8, 500) * 1e3);
    assert.equal(utc('2026-11-17 22:19:08.123456'), Date.UTC(2026, 10, 17, 22, 19, 8) * 1e3 + 123456);
    assert.equal(utc('2026-11-17T22:19:08.1234569Z'), Date.UTC(2026, 10, 17, 22, 19, 8) * 1e3 + 123456);
    assert.equal(utc('2026-11-17T23:00+01:00'), now);
    assert.equal(utc('2026-11-17'), Date.UTC(2026, 10, 17) * 1e3);
    assert.equal(utc('21:30'), now - 1800e6);
    assert.equal(utc('20261117220000.5'), now + 500000);
    assert.equal(utc('1794952800'), now);
    assert.equal(utc('1794952800.25'), now + 250000);
    assert.equal(utc('1794952800000'), now);
    assert.equal(utc('1794952800000000'), now);
    assert.equal(utc('1794952800000000123'), now);
});

test('what is none', () => {
    for (const text of ['', 'tomorrow', '2026-02-31', '2026-13-01', '25:00', '12:60', 'now-', 'now-5', 'now-5x', '12345', '2026-11-17T22:19:99Z', '-', '<b>'])
        assert.equal(parseTimeAt(text, now, 'utc'), null, text);
});

test('a time without a zone is in the one that is shown', () => {
    assert.equal(parseTimeAt('2026-11-17 23:00', now, 'local'), now); /* Berlin, winter */
    assert.equal(formatTime(now, {zone: 'local', digits: 0}), '2026-11-17 23:00:00');
    assert.equal(formatTime(now, {zone: 'utc', digits: 3}), '2026-11-17 22:00:00.000Z');
    assert.equal(formatTime(now + 1, {zone: 'utc', digits: 6, date: false}), '22:00:00.000001Z');
});

test('exact times come back', () => {
    const random = randomOf(4);
    for (let i = 0; i < 2000; i++) {
        const us = wholeOf(random, 4e15);
        assert.equal(parseTimeAt(isoTime(us), now, 'utc'), us, isoTime(us));
    }
});

test('spans', () => {
    assert.equal(parseSpan('15m'), 900e6);
    assert.equal(parseSpan('1h30m'), 5400e6);
    assert.equal(parseSpan('1.5 h'), 5400e6);
    assert.equal(parseSpan('250ms'), 250e3);
    assert.equal(parseSpan('-2d'), -2 * 86400e6);
    for (const text of ['', '5', 'm', '5x', '5m!', '1h-3m'])
        assert.equal(parseSpan(text), null, text);
    const random = randomOf(5);
    for (let i = 0; i < 2000; i++) {
        const us = 1 + wholeOf(random, 10 ** (1 + wholeOf(random, 14)));
        assert.equal(parseSpan(spanText(us)), us, spanText(us));
    }
    assert.deepEqual([900e6, 5400e6, 250e3, 12.5, 90061e6, 61e6].map(formatSpan), ['15 min', '1 h 30 min', '250 ms', '12.5 µs', '1 d 1 h', '1 min 1 s']);
    assert.deepEqual([3600e6, 60e6, 1e6].map(digitsFor), [0, 3, 6]);
});

test('marks of an axis are in order, within, at round times, and not too many', () => {
    const random = randomOf(6);
    for (let i = 0; i < 500; i++) {
        const from = 1e15 + wholeOf(random, 1e15), span = 10 ** (1 + random() * 14), max = 2 + wholeOf(random, 20);
        for (const zone of ['utc', 'local']) {
            const ticks = timeTicks(from, from + span, max, zone);
            assert.ok(ticks.length <= max + 2, `${ticks.length} of ${max}`);
            ticks.forEach((t, k) => assert.ok(t.at >= from && t.at <= from + span && (k === 0 || t.at > ticks[k - 1].at) && t.label));
        }
    }
    assert.deepEqual(timeTicks(now, now + 900e6, 4, 'utc').map(t => t.label), ['22:00', '22:05', '22:10', '22:15']);
    assert.deepEqual(timeTicks(now, now + 4 * 3600e6, 4, 'utc').map(t => t.label), ['22:00', '23:00', '11-18', '01:00', '02:00']);
});
