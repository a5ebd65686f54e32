/* The directory in columns: filters, facets, order, tree, orders. */
import test from 'node:test';
import assert from 'node:assert/strict';
import {Sensors, filterRows, facetOf, sortRows, treeOf, linesOf, checkSettings, questionsOf, tally, whyNot, parseFilter, worstOf} from '../../../web/src/pages/sensors_model.js';

const row = (host, sensor, more = {}) => ({host, domain: 'site', sensor, status: 'running', host_state: 'live', mode: 'always', every_ms: 1000, rate: 1,
                                           consumers: 0, age_ms: 100, events: sensor, ...more});

/* Rows as the gateway sends them: {rows, columns}, each column as short as it can be. */
function blockOf(rows)
{
    const columns = {};
    for (const name of new Set(rows.flatMap(Object.keys))) {
        const all = rows.map(r => r[name] ?? null), of = [...new Set(all)];
        columns[name] = of.length === 1 ? {all: of[0]} : of.length <= 64 && of.length < all.length ? {of, at: all.map(v => of.indexOf(v))} : all;
    }
    return {rows: rows.length, columns};
}

function some()
{
    const s = new Sensors(2);
    s.add(blockOf([row('node10', 'cpu', {rate: 4}), row('node2', 'cpu', {rate: 2, status: 'failed', why: 'No such Device'}),
                   row('node2', 'disk', {domain: 'other', consumers: 3, rate: null})]));
    s.add(blockOf([row('node9', 'tcp', {status: 'idle', mode: 'port', events: 'tcp,tcp.connection'})]));
    return s;
}

const found = (s, text, facets) => [...filterRows(s, text, facets)];

test('words, fields, numbers, not', () => {
    const s = some();
    assert.deepEqual(found(s, ''), [0, 1, 2, 3]);
    assert.deepEqual(found(s, 'NODE2 cpu'), [1]);
    assert.deepEqual(found(s, 'device'), [1]);
    assert.deepEqual(found(s, 'tcp.conn'), [3]);
    assert.deepEqual(found(s, 'host:node1'), [0]);
    assert.deepEqual(found(s, '-cpu'), [2, 3]);
    assert.deepEqual(found(s, 'rate>1'), [0, 1]);
    assert.deepEqual(found(s, 'consumers=0 -status:idle'), [0, 1]);
    assert.deepEqual(found(s, 'age<1'), [0, 1, 2, 3]);
    assert.deepEqual(found(s, 'zzz'), []);
    assert.deepEqual(found(s, '', {status: new Set(['failed', 'idle'])}), [1, 3]);
    assert.deepEqual(found(s, '', {status: new Set(), mode: new Set(['port'])}), [3]);
    assert.equal(parseFilter('-').length, 1);
});

test('what is missing stays missing', () => {
    const r = some().row(2);
    assert.equal(r.rate, null);
    assert.equal(r.why, '');
    assert.equal(r.expected, false);
});

test('facets count what is left', () => {
    const s = some();
    assert.deepEqual(facetOf(s, filterRows(s, ''), 'status'), [['running', 2], ['failed', 1], ['idle', 1]]);
});

test('order: numbers in names by their value, missing last both ways', () => {
    const s = some(), all = filterRows(s, '');
    assert.deepEqual([...sortRows(s, all, 'host', false)], [1, 2, 3, 0]);
    assert.deepEqual([...sortRows(s, all, 'rate', false)], [3, 1, 0, 2]);
    assert.deepEqual([...sortRows(s, all, 'rate', true)], [0, 1, 3, 2]);
});

test('tree and its lines', () => {
    const s = some(), tree = treeOf(s, filterRows(s, ''));
    assert.deepEqual(tree.map(d => [d.label, d.n, d.bad]), [['other', 1, 0], ['site', 3, 1]]);
    assert.deepEqual(tree[1].children.map(h => h.label), ['node2', 'node9', 'node10']);
    assert.deepEqual(linesOf(s, tree, new Set()).map(l => l.kind), ['domain', 'domain']);
    const open = new Set([tree[1].id, tree[1].children[0].id]);
    assert.deepEqual(linesOf(s, tree, open).map(l => l.kind), ['domain', 'domain', 'host', 'sensor', 'host', 'host']);
    const one = treeOf(s, [0]);
    assert.equal(linesOf(s, one, new Set()).length, 2); /* a single domain is open */
    assert.equal(linesOf(s, one, new Set(['-' + one[0].id])).length, 1);
    assert.equal(worstOf(['running', 'failed']), 'failed');
});

test('100,000 sensors: every word is looked for in different texts only', () => {
    const s = new Sensors();
    for (let h = 0; h < 1000; h++)
        s.add(blockOf(Array.from({length: 100}, (_, k) => row('node' + h, 'sensor-' + k, {status: k % 50 ? 'running' : 'failed'}))));
    assert.equal(s.n, 100000);
    assert.equal(found(s, 'node77 sensor-5').length, 11 * 11);
    assert.equal(found(s, 'status:failed').length, 2000);
    assert.equal(s.words.host.list.length, 1001);
});

test('blocks: arrays, few values, one value, none', () => {
    const s = new Sensors(1);
    s.add({rows: 3, columns: {host: ['a', 'b', 'c'], sensor: {of: ['cpu', null], at: [0, 1, 0]}, status: {all: 'idle'}, rate: {of: [1.5, null, 2], at: [2, 0, 1]}, expected: {all: true}}});
    s.add({rows: 1, columns: {host: {all: 'a'}, sensor: {all: 'cpu'}, every_ms: {all: 10}, rate: {all: 7}, expected: {all: false}}});
    const rows = [0, 1, 2, 3].map(i => s.row(i));
    assert.deepEqual(rows.map(r => r.host), ['a', 'b', 'c', 'a']);
    assert.deepEqual(rows.map(r => r.sensor), ['cpu', '', 'cpu', 'cpu']);
    assert.deepEqual(rows.map(r => r.status), ['idle', 'idle', 'idle', '']);
    assert.deepEqual(rows.map(r => r.rate), [2, 1.5, null, 7]);
    assert.deepEqual(rows.map(r => r.every_ms), [null, null, null, 10]);
    assert.deepEqual(rows.map(r => r.expected), [true, true, true, false]);
    assert.equal(s.words.host.list.length, 4);
});

test('settings of a form', () => {
    assert.deepEqual(checkSettings({every: '2s', change: 'load1 0.5, * 5%'}), {set: {every: '2s', change: 'load1 0.5, * 5%'}});
    assert.ok(checkSettings({every: '2'}).error.every);
    assert.ok(checkSettings({}).error);
    assert.deepEqual(checkSettings({mode: 'port', ports: '5001 2811'}).set, {mode: 'port', ports: '5001, 2811'});
    assert.ok(checkSettings({mode: 'port'}).error.ports);
    assert.ok(checkSettings({ports: '70000'}).error.ports);
    assert.ok(checkSettings({priority: '11', every: '1s'}).error.priority);
});

test('an order is a question for each sensor, with its hosts', () => {
    const rows = [{host: 'b', sensor: 'cpu'}, {host: 'a', sensor: 'cpu'}, {host: 'a', sensor: 'disk'}];
    assert.deepEqual(questionsOf('stop', rows, {dry_run: true}).map(q => [q.verb, q.args]), [
        ['sensor.stop', {sensor: 'cpu', workers: 'a,b', dry_run: true}], ['sensor.stop', {sensor: 'disk', workers: 'a', dry_run: true}]]);
    assert.deepEqual(questionsOf('suspend', rows)[0].args, {workers: 'a,b'});
});

test('answers are counted as they come', () => {
    const t = tally([{host: 'a', cost_predicted: 5}, {host: 'a', answer: 'done', cost_observed: 7}, {host: 'b', answer: 'no_answer'}], 3);
    assert.deepEqual([t.asked, t.answered, t.done, t.failed, t.cost, t.most], [3, 2, 1, 1, 7, 7]);
    assert.ok(Number.isNaN(tally([], 1).cost));
});

test('why not', () => {
    const live = {host: 'a', sensor: 'cpu', mode: 'always', host_state: 'live'};
    assert.equal(whyNot('start', [live], true), '');
    assert.match(whyNot('start', [live], false), /may not/);
    assert.match(whyNot('start', [], true), /Choose/);
    assert.match(whyNot('stop', [{...live, mode: 'program'}], true), /program/);
    assert.equal(whyNot('activate', [{...live, mode: 'program'}], true), '');
    assert.match(whyNot('stop', [{...live, host_state: 'expired'}], true), /not connected/);
});
