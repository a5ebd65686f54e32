/* What the time bar says of deleted events. */
import test from 'node:test';
import assert from 'node:assert/strict';
import {deletedIn} from '../../../web/src/retention.js';

const at = (h, min = 0) => Date.UTC(2026, 10, 17, h, min) * 1e3;
const rows = [{event: 'cpu', from: at(6), to: at(9)}, {event: 'disk', from: at(5), to: at(8)}];

test('only where the range has lost events', () => {
    assert.equal(deletedIn([], at(0), at(24), 'utc'), null);
    assert.equal(deletedIn(rows, at(9), at(12), 'utc'), null);
    assert.equal(deletedIn(rows, at(3), at(5), 'utc'), null);
});

test('how much of the range, and up to when', () => {
    const one = deletedIn(rows, at(8, 30), at(12), 'utc');
    assert.equal(one.short, '30 min deleted');
    assert.match(one.text, /^Events of cpu before 2026-11-17 09:00:00Z are deleted by retention: 30 min of this range\./);
    assert.match(deletedIn(rows, at(0), at(12), 'utc').text, /2 event names before 2026-11-17 09:00:00Z .*: 4 h of this range/);
    assert.equal(deletedIn(rows, at(7), at(7, 30), 'utc').short, '30 min deleted');
});
