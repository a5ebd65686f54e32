/* Faults over time, back-tests, silences. */
import test from 'node:test';
import assert from 'node:assert/strict';
import {openFaults, stripsOf, backtestOf, backtestSentence, silenceArgs, isSilencedBy, heldBack} from '../../../web/src/pages/faults_model.js';

test('the gravest first', () => {
    const list = openFaults([
        {fault: '1', state: 'acknowledged', severity: 'critical', since: '2026-11-17T10:00:00Z'},
        {fault: '2', state: 'firing', severity: 'warning', since: '2026-11-17T10:00:00Z'},
        {fault: '3', state: 'firing', severity: 'error', since: '2026-11-17T10:00:00Z'},
        {fault: '4', state: 'firing', severity: 'error', since: '2026-11-17T11:00:00Z'},
    ]);
    assert.deepEqual(list.map(f => f.fault), ['4', '3', '2', '1']);
    assert.equal(list[0].sinceUs, Date.parse('2026-11-17T11:00:00Z') * 1e3);
    assert.ok(Number.isNaN(list[0].clearedUs));
    assert.equal(heldBack({silenced: true, state: 'acknowledged'}), 'silenced, acknowledged');
});

test('strips: pieces of a state each, cut to the range', () => {
    const at = (time, state, more) => ({time, fault: 'f', rule: 'r', target: 'h', severity: 'error', summary: 's', episode: 1, state, ...more});
    const [s] = stripsOf([at(5, 'firing'), at(20, 'acknowledged'), at(30, 'cleared'), at(50, 'firing', {episode: 2})], 10, 60);
    assert.deepEqual(s.pieces, [{state: 'firing', from: 10, to: 20}, {state: 'acknowledged', from: 20, to: 30}, {state: 'firing', from: 50, to: 60}]);
    assert.equal(s.fires, 1); /* the first was before the range */
    assert.equal(s.firingUs, 30);
    /* told again: one piece, one fire */
    const [again] = stripsOf([at(10, 'firing'), at(20, 'firing'), at(30, 'cleared')], 0, 60);
    assert.deepEqual(again.pieces, [{state: 'firing', from: 10, to: 30}]);
    assert.equal(again.fires, 1);
    assert.deepEqual(stripsOf([at(5, 'firing'), at(6, 'cleared')], 10, 60), []);
});

test('what a back-test says', () => {
    const iso = s => new Date(s * 1e3).toISOString();
    const rows = [
        {at: iso(10), rule: 'r', what: 'fires', fault: 'a', summary: 'x', severity: 'error'}, {at: iso(10), rule: 'r', what: 'fire', fault: 'a', actions: 'ops,pager'},
        {at: iso(20), rule: 'r', what: 'clears', fault: 'a', lasted_s: 10}, {at: iso(20), rule: 'r', what: 'clear', fault: 'a', actions: 'ops'},
        {at: iso(50), rule: 'r', what: 'fires', fault: 'b', summary: 'y'}, {at: iso(2), rule: 'r', what: 'clears', fault: 'c', lasted_s: 2},
        {rule: 'r', tested: true},
    ];
    const b = backtestOf(rows, 0, 60e6);
    assert.deepEqual([b.fires, b.open, b.deeds.length], [2, 1, 6]);
    assert.deepEqual(b.notices, {fire: 1, repeat: 0, escalate: 0, clear: 1});
    assert.deepEqual(b.actions, [['ops', 2], ['pager', 1]]);
    assert.equal(b.firingUs, 10e6 + 10e6 + 2e6);
    assert.match(backtestSentence(b, us => us / 1e6 + ' s'), /fired twice for 3 faults, 22 s in all, 1 of them still at the end; actions would have been told twice/);
    assert.equal(backtestSentence(backtestOf([], 0, 1), String), 'It would not have fired.');
});

test('silences', () => {
    assert.deepEqual(silenceArgs({rule: 'disk*', hours: '2', note: ' why '}, 1e6), {args: {until: 7201e9, rule: 'disk*', note: 'why'}});
    assert.ok(silenceArgs({rule: 'x', hours: '0'}, 0).error.hours);
    assert.ok(silenceArgs({hours: '1'}, 0).error.rule);
    assert.deepEqual(silenceArgs({everything: true, rule: 'x', hours: 1}, 0), {args: {until: 3600e9}});
    assert.ok(silenceArgs({where: 'nonsense', hours: 1}, 0).error.where);
    assert.ok(isSilencedBy({rule: 'disk*', hosts: ''}, {rule: 'disk-full', host: 'a'}));
    assert.ok(!isSilencedBy({rule: 'disk*', hosts: 'b*'}, {rule: 'disk-full', host: 'a'}));
    assert.ok(isSilencedBy({rule: '', hosts: 'a.b'}, {rule: 'x', host: 'a.b'}) && !isSilencedBy({rule: '', hosts: 'a.b'}, {rule: 'x', host: 'aXb'}));
});
