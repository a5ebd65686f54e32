/* The timeline's plain parts: lanes, SQL, notes, minimap, statistics of an area. */
import test from 'node:test';
import assert from 'node:assert/strict';
import {defaultLanes, tileSpecs, sane, shifted, changed, titleOf} from '../../../web/src/pages/timeline-lanes.js';
import {whereId, idValues, idFields, hopQuery, tableOf, name} from '../../../web/src/pages/timeline-find.js';

const KNOWN = {tables: [{event: 'job.start', table: 'job_start', fields: ['id', 'bytes']}, {event: 'two', table: 'two_2', fields: ['id', 'id:text']}, {event: 'lifeline.pair', fields: ['id']}, {event: 'vector', fields: ['cpu_user', 'cpu_system']},
                        {event: 'tcp', fields: ['retransmits']}], kinds: new Map([['tcp retransmits', {kind: 'counter', type: 'uint'}]])};

test('what is shown to begin with is what there is', () => {
    const lanes = defaultLanes(KNOWN);
    assert.deepEqual(lanes.map(l => l.title ?? l.kind), ['lifelines', 'CPU', 'TCP retransmits', 'Warnings and errors']);
    assert.equal(lanes[2].of[0].isRate, true);
    assert.deepEqual(defaultLanes({tables: [{event: 'lifeline.pair', fields: ['id']}], kinds: new Map()}).map(l => l.kind), ['points']);
    assert.equal(defaultLanes(KNOWN, 'id+bytes')[0].ids, 'id+bytes');
});

test('lanes of an address: what makes no sense is left out', () => {
    assert.equal(sane(undefined), null);
    assert.equal(sane('x'), null);
    assert.deepEqual(sane([null, 1, {kind: 'x'}, {kind: 'curves'}, {kind: 'curves', of: [{}]}, {kind: 'lifelines'}, {kind: 'points', event: 3}]), []);
    const good = [{kind: 'lifelines', ids: 'id'}, {kind: 'curves', of: [{event: 'a', field: 'b'}]}, {kind: 'points', event: '*'}];
    assert.deepEqual(sane(good), good);
    assert.equal(sane(Array(99).fill(good[0])).length, 24);
});

test('lanes move, change, and what is undefined goes', () => {
    const lanes = ['a', 'b', 'c'].map(ids => ({kind: 'lifelines', ids}));
    assert.deepEqual(shifted(lanes, 0, 1).map(l => l.ids), ['b', 'a', 'c']);
    assert.deepEqual(shifted(lanes, 0, -5).map(l => l.ids), ['a', 'b', 'c']);
    assert.deepEqual(changed(changed(lanes, 0, {color: 'host'}), 0, {color: undefined})[0], lanes[0]);
    assert.ok(titleOf(lanes[0]).includes('a'));
});

test('tiles: the lane’s own and the filter of all pages', () => {
    const filter = {host: 'n*', event: '', where: 'x > 1'};
    assert.deepEqual(tileSpecs({kind: 'lifelines', ids: 'id', where: 'y = 2'}, filter), [{kind: 'lifeline', name: 'id', params: {host: 'n*', where: '(y = 2) AND (x > 1)', event: undefined, id: undefined}}]);
    assert.equal(tileSpecs({kind: 'heat', ids: 'id'}, filter)[0].kind, 'lifeline-density');
    assert.deepEqual(tileSpecs({kind: 'curves', of: [{event: 'e', field: 'f'}], host: 'a'}, filter)[0].params, {field: 'f', host: 'a', key: undefined});
});

test('ids: one field or several, numbers or texts, quotes', () => {
    assert.deepEqual(idFields('job+task@x.*'), ['job', 'task']);
    assert.deepEqual(idValues('a+b', ['id']), ['a+b']);
    assert.deepEqual(idValues('a\\+b+c\\\\d', ['x', 'y']), ['a+b', 'c\\d']);
    const plain = tableOf(KNOWN, 'job.start');
    assert.equal(whereId(plain, 'id', '17'), `"id" IN (17, '17')`);
    assert.equal(whereId(plain, 'id', '017'), `"id" = '017'`);
    assert.equal(whereId(plain, 'id', "x' OR 1 --"), `"id" = 'x'' OR 1 --'`);
    assert.equal(whereId(plain, 'id+bytes', '1+z'), `"id" IN (1, '1') AND "bytes" = 'z'`);
    assert.equal(whereId(tableOf(KNOWN, 'two'), 'id', 'z'), `("id" = 'z' OR "id:text" = 'z')`);
    assert.equal(tableOf(KNOWN, 'two').sql, '"two_2"');
    assert.equal(name('we"ird'), '"we""ird"');
});

test('the question about hops: every table that has the id, every column of it, both ends of the time', () => {
    const q = hopQuery(KNOWN, {ids: 'id', events: ['job.start', 'two', 'tcp'], from: 1e15, to: 1e15 + 10, before: 5});
    assert.ok(q.includes('999999999999995000') && q.includes('1000000000000010000'));
    assert.ok(q.includes('"job_start"') && q.includes('"two_2"') && !q.includes('tcp'));
    assert.ok(q.includes('coalesce(CAST("id" AS TEXT), CAST("id:text" AS TEXT))'));
});
