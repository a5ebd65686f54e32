/* The console's knowledge of SQL. */
import test from 'node:test';
import assert from 'node:assert/strict';
import {tokens, tablesIn, complete, schemaOf, fillIn, errorPlace, wordAt, lineOf, timeOf, guessChart, seriesOf, barsOf, csvOf, jsonOf, withQuery,
        readKept, quoteName, withLimit} from '../../../web/src/pages/sql_model.js';

const schema = schemaOf([['cpu', 'cpu', 'cpu,user,system'], ['job_state', 'job.state', 'id,state'], ['load', 'load', 'load1,order']]);
const texts = (sql, max) => {
    const caret = sql.indexOf('|');
    return complete(sql.replace('|', ''), caret, schema, max).items.map(i => i.text);
};

test('tokens are all of the text', () => {
    for (const text of ["SELECT 'it''s', \"a b\" FROM x -- end", 'a/* b', "'open", '"open', 'SELECT 1e5+.5;', '', 'ünïcode = 1', '[x y].z'])
        assert.equal(tokens(text).map(t => t.text).join(''), text);
});

test('tables and aliases', () => {
    assert.deepEqual([...tablesIn('SELECT * FROM cpu AS c JOIN "job.state" j ON j.host = c.host')],
                     [['cpu', 'cpu'], ['c', 'cpu'], ['job.state', 'job.state'], ['j', 'job.state']]);
    assert.deepEqual([...tablesIn("SELECT * FROM cpu_bucket('now-1d', at('now')) b, load WHERE x").keys()], ['cpu_bucket', 'b', 'load']);
    assert.deepEqual([...tablesIn("SELECT ' FROM nope'").keys()], []);
    assert.equal(tablesIn('SELECT * FROM x(').size, 1);
});

test('completion: tables behind FROM, columns elsewhere', () => {
    assert.deepEqual(texts('SELECT * FROM cp|'), ['cpu', 'cpu_latest']);
    assert.deepEqual(texts('SELECT * FROM cpu, lo|').slice(0, 2), ['load', 'load_latest']);
    assert.deepEqual(texts('SELECT us| FROM cpu').slice(0, 1), ['user']);
    assert.deepEqual(texts('SELECT c.sys| FROM cpu AS c'), ['system']);
    assert.ok(texts('SELECT c.| FROM cpu AS c').includes('time'));
    assert.deepEqual(texts('SELECT j.sta| FROM "job_state" j'), ['state']);
    assert.ok(texts('SELECT * FROM cpu WHERE cou|').includes('counter_rate('));
    assert.deepEqual(texts("SELECT 'us| FROM cpu"), []);
    assert.deepEqual(texts('SELECT * FROM cpu -- us|'), []);
    assert.deepEqual(texts('SELECT * FROM cpu WHERE time > :f|'), [':from']);
    assert.ok(texts('SELECT * FROM load_latest WHERE ord|').includes('"order"'));
    assert.deepEqual(texts('SELECT * FROM sensors WHERE consu|'), ['consumers']);
    assert.equal(texts('|', 5).length, 5);
    assert.equal(quoteName('a b"c'), '"a b""c"');
});

test('the shared range goes in, and places come back', () => {
    const q = "SELECT ':from', x FROM a WHERE time > :from AND time < :to AND y";
    const f = fillIn(q, 1_700_000_000_000_000, 1_700_000_001_000_000);
    assert.equal(f.text, "SELECT ':from', x FROM a WHERE time > 1700000000000000000 AND time < 1700000001000000000 AND y");
    assert.ok(f.used);
    assert.equal(f.map(f.text.indexOf('AND y')), q.indexOf('AND y'));
    assert.equal(f.map(f.text.indexOf('17000000010')), q.indexOf(':to'));
    assert.equal(f.map(3), 3);
    assert.equal(fillIn('SELECT 1', 0, 1).used, false);
});

test('where an error is', () => {
    const e = errorPlace('near "FORM": syntax error, at character 10', 'SELECT * FORM cpu');
    assert.deepEqual(e, {message: 'near "FORM": syntax error', at: 9});
    assert.deepEqual(wordAt('SELECT * FORM cpu', 9), [9, 13]);
    assert.equal(errorPlace('no such column: x, at character 12', "SELECT 'ü', x").at, 10);
    assert.equal(errorPlace('its time was up', '').at, -1);
    assert.equal(errorPlace('x, at character 99', 'y').at, -1);
    assert.deepEqual(lineOf('a\nbc', 3), {line: 2, column: 2});
    assert.deepEqual(wordAt('ab', 2), [1, 2]);
});

test('one row more than is wanted', () => {
    const q = withLimit(' SELECT 1; ', 10);
    assert.equal(q.text, 'SELECT * FROM ( SELECT 1\n) LIMIT 11');
    assert.equal(q.text.indexOf(' SELECT 1'), q.shift);
    assert.deepEqual(withLimit('EXPLAIN QUERY PLAN SELECT 1', 10), {text: 'EXPLAIN QUERY PLAN SELECT 1', shift: 0});
    assert.ok(withLimit('SELECT 1 -- end', 1).text.includes('end\n)'));
});

test('what a chart of it could be', () => {
    const t = 1.79e18;
    const lines = guessChart(['time', 'host', 'load'], [[t, 'a', 1], [t + 1e10, 'b', 2]]);
    assert.deepEqual([lines.kind, lines.x, lines.group, lines.y], ['lines', 0, 1, [2]]);
    assert.equal(guessChart(['host', 'n'], [['a', 1], ['b', 2]]).kind, 'bars');
    assert.equal(guessChart(['host'], [['a']]).kind, 'none');
    assert.equal(guessChart(['n'], []).kind, 'none');
    assert.equal(guessChart(['at', 'x'], [['2026-11-17T10:00:00Z', 1], ['2026-11-17T10:00:01Z', 2]]).kind, 'lines');
    assert.equal(guessChart(['n', 'x', 'y'], [[1, 2, 3], [2, 3, 4], [3, 4, 5]]).x, 0);
    assert.equal(guessChart(['x', 'y'], [[null, null]]).kind, 'none');
    assert.equal(timeOf('2026-11-17 10:00:00'), Date.parse('2026-11-17T10:00:00Z') * 1e3);
    assert.ok(Number.isNaN(timeOf(12)) && Number.isNaN(timeOf('x')));
});

test('series, one for each group', () => {
    const t = 1.79e18;
    const rows = [[t + 1e10, 'a', 3], [t, 'a', 1], [t, 'b', 2]];
    const s = seriesOf(['time', 'host', 'load'], rows, guessChart(['time', 'host', 'load'], rows));
    assert.equal(s.x.length, 2);
    assert.ok(s.x[0] < s.x[1]);
    assert.deepEqual(s.series, [{label: 'a', values: [1, 3]}, {label: 'b', values: [2, null]}]);
    const many = Array.from({length: 100}, (_, i) => [t + i, 'h' + i, i]);
    assert.equal(seriesOf(['time', 'h', 'x'], many, guessChart(['time', 'h', 'x'], many)).leftOut, 76);
    const bars = barsOf(Array.from({length: 100}, (_, i) => ['x' + i, i]), {x: 0, y: [1]});
    assert.deepEqual([bars.bars.length, bars.leftOut, bars.most, bars.bars[0].value], [60, 40, 99, 99]);
});

test('out: CSV and JSON', () => {
    assert.equal(csvOf(['a', 'b'], [[1, 'x,"y"'], [null, '=1+1']]), 'a,b\r\n1,"x,""y"""\r\n,\'=1+1\r\n');
    assert.deepEqual(JSON.parse(jsonOf(['a', 'a'], [[1, 2]])), [{a: 1, a_2: 2}]);
});

test('what was asked before: the newest first, each once, whatever was kept', () => {
    let h = [];
    for (const q of ['a', 'b', ' a ', ''])
        h = withQuery(h, q, 1);
    assert.deepEqual(h.map(x => x.text), ['a', 'b']);
    for (let i = 0; i < 300; i++)
        h = withQuery(h, 'q' + i, i);
    assert.equal(h.length, 100);
    assert.deepEqual(readKept('{"x":1}'), []);
    assert.deepEqual(readKept('nonsense'), []);
    assert.deepEqual(readKept(null), []);
    assert.deepEqual(readKept('[{"text":"a"},{"text":1},null]'), [{text: 'a'}]);
});
