/* sql_model.js - what the console knows of SQL: words and where the caret is among them, what can come there, :from and :to, where
 * an error is, what a chart of a result can be, a result as CSV. Pure. */

export const KEYWORDS = ['SELECT', 'FROM', 'WHERE', 'GROUP BY', 'ORDER BY', 'HAVING', 'LIMIT', 'OFFSET', 'JOIN', 'LEFT JOIN', 'ON', 'USING', 'AS', 'AND',
    'OR', 'NOT', 'IN', 'BETWEEN', 'LIKE', 'GLOB', 'IS NULL', 'IS NOT NULL', 'DISTINCT', 'UNION ALL', 'UNION', 'EXCEPT', 'INTERSECT', 'WITH', 'CASE',
    'WHEN', 'THEN', 'ELSE', 'END', 'ASC', 'DESC', 'OVER', 'PARTITION BY', 'VALUES', 'EXPLAIN QUERY PLAN', 'CAST', 'EXISTS', 'NULL'];

export const FUNCTIONS = {
    at: "at('now-15m')", time_text: 'time_text(time)', bucket: "bucket(time, '1m')", duration: "duration('10s')", duration_text: 'duration_text(ns)',
    severity: 'severity(level)', counter_rate: 'counter_rate(time, value)', counter_increase: 'counter_increase(time, value)',
    percentile: 'percentile(value, 99)', median: 'median(value)', count: 'count(*)', sum: 'sum(x)', total: 'total(x)', avg: 'avg(x)', min: 'min(x)',
    max: 'max(x)', group_concat: 'group_concat(x)', round: 'round(x, 1)', abs: 'abs(x)', coalesce: 'coalesce(x, y)', ifnull: 'ifnull(x, y)',
    iif: 'iif(c, x, y)', lower: 'lower(x)', upper: 'upper(x)', substr: 'substr(x, 1, n)', instr: 'instr(x, y)', length: 'length(x)',
    replace: 'replace(x, y, z)', printf: "printf('%d', x)", json_extract: "json_extract(x, '$.a')", row_number: 'row_number()', lag: 'lag(x)', lead: 'lead(x)',
};

export const PLACEHOLDERS = {':from': 'the beginning of the time range, in ns', ':to': 'its end, in ns', ':span': 'how long it is, in ns'};

/* What every table of events has. */
export const COMMON = ['time', 'host', 'prog', 'level'];

/* Tables that are no events. */
export const OWN_TABLES = {
    tables: ['name', 'event', 'fields'], baselines: ['name', 'label', 'from_time', 'to_time', 'condition'], partitions: ['from_time', 'to_time', 'step'],
    workers: ['host', 'worker', 'state', 'since', 'mode', 'connected', 'domain', 'sensors', 'programs', 'missing', 'cpus', 'memory', 'kernel'],
    sensors: ['host', 'domain', 'sensor', 'status', 'host_state', 'mode', 'every_ms', 'rate', 'consumers', 'last', 'age_ms', 'started', 'why', 'expected', 'events'],
    subscriptions: ['consumer', 'who', 'id', 'event', 'host', 'where', 'durable', 'state', 'given', 'filtered', 'lost'],
    ledger: ['host', 'producer', 'epoch', 'class', 'state', 'taken', 'passed', 'duplicate', 'refused', 'lost'],
    schemas: ['event', 'hash', 'fields', 'makers', 'events', 'first', 'last', 'conflict'],
    schema_fields: ['event', 'hash', 'field', 'type', 'role', 'kind', 'unit', 'help'], domains: ['domain', 'hosts', 'sensors', 'programs'],
    faults: ['fault', 'rule', 'severity', 'state', 'host', 'since', 'summary', 'episode', 'told', 'silenced', 'hidden'],
    rules: ['rule', 'severity', 'place', 'every_ms', 'evaluations', 'failures', 'why', 'firing', 'query'],
};

const SPACE = 'space', WORD = 'word', TEXT = 'text', NAME = 'name', NUMBER = 'number', SIGN = 'sign', COMMENT = 'comment';

/* [{kind, from, to}], all of the text. What is not closed goes to the end. */
export function tokens(text)
{
    const out = [];
    const pattern = /(\s+)|(--[^\n]*|\/\*[\s\S]*?(?:\*\/|$))|('(?:[^']|'')*(?:'|$))|("(?:[^"]|"")*(?:"|$)|\[[^\]]*(?:\]|$)|`[^`]*(?:`|$))|(\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|\.\d+)|([:@$]?[\p{L}_][\p{L}\p{N}_$]*)|([\s\S])/gu;
    const kinds = [SPACE, COMMENT, TEXT, NAME, NUMBER, WORD, SIGN];
    for (const m of text.matchAll(pattern))
        out.push({kind: kinds[m.slice(1).findIndex(g => g !== undefined)], from: m.index, to: m.index + m[0].length, text: m[0]});
    return out;
}

/* The tables that the statement names behind FROM and JOIN, and their aliases: Map lower-case name or alias → table's name. */
export function tablesIn(text)
{
    const list = tokens(text).filter(t => t.kind !== SPACE && t.kind !== COMMENT);
    const found = new Map();
    const plain = t => t.kind === NAME ? t.text.slice(1, -1).replaceAll('""', '"') : t.text;
    for (let i = 0; i < list.length - 1; i++) {
        if (list[i].kind !== WORD || !/^(from|join)$/i.test(list[i].text))
            continue;
        for (let k = i + 1; k < list.length; k++) {
            if (list[k].kind !== WORD && list[k].kind !== NAME)
                break;
            const table = plain(list[k]);
            found.set(table.toLowerCase(), table);
            let next = list[k + 1];
            if (next?.text === '(') { /* arguments of a bucket */
                let depth = 0;
                do {
                    k++;
                    depth += list[k].text === '(' ? 1 : list[k].text === ')' ? -1 : 0;
                } while (depth > 0 && k < list.length - 1);
                next = list[k + 1];
            }
            if (next && /^as$/i.test(next.text)) {
                k++;
                next = list[k + 1];
            }
            if (next && (next.kind === NAME || next.kind === WORD && !isKeyword(next.text))) {
                found.set(plain(next).toLowerCase(), table);
                k++;
            }
            if (list[k + 1]?.text !== ',')
                break;
            k++;
        }
    }
    return found;
}

const SINGLE = new Set(KEYWORDS.flatMap(k => k.split(' ')).concat(['BY', 'NATURAL', 'INNER', 'CROSS', 'OUTER', 'LEFT']));
export const isKeyword = word => SINGLE.has(word.toUpperCase());

/* A name as SQL wants it. */
export const quoteName = name => /^[a-z_][a-z0-9_]*$/i.test(name) && !isKeyword(name) ? name : '"' + name.replaceAll('"', '""') + '"';

/* What could be at the caret: {from, to, items: [{text, kind, help}]}; at most `max`. schema: Map table → [columns]. */
export function complete(text, caret, schema, max = 40)
{
    const before = text.slice(0, caret);
    const at = tokens(before).at(-1);
    if (at && (at.kind === COMMENT && !before.endsWith('*/') || at.kind === TEXT && !isClosed(at.text)))
        return {from: caret, to: caret, items: []};
    const isWord = at && (at.kind === WORD || at.kind === NAME && !isClosed(at.text));
    const prefix = isWord ? at.text.replace(/^["`[]/, '') : at?.text === ':' ? ':' : '';
    const from = isWord ? at.from : at?.text === ':' ? at.from : caret;
    const rest = tokens(before.slice(0, from)).filter(t => t.kind !== SPACE && t.kind !== COMMENT);
    const last = rest.at(-1), tables = tablesIn(text);
    let items;
    if (prefix.startsWith(':'))
        items = Object.entries(PLACEHOLDERS).map(([name, help]) => ({text: name, kind: 'time', help}));
    else if (last?.text === '.' && rest.length > 1)
        items = columnsOf(schema, tables.get(unquote(rest.at(-2).text).toLowerCase()) ?? unquote(rest.at(-2).text));
    else if (last && /^(from|join)$/i.test(last.text) || last?.text === ',' && isInFrom(rest))
        items = tableItems(schema);
    else
        items = [...[...new Set(tables.values())].flatMap(t => columnsOf(schema, t)),
                 ...(tables.size ? [] : COMMON.map(text => ({text, kind: 'column', help: 'of every event'}))),
                 ...Object.entries(FUNCTIONS).map(([name, help]) => ({text: name + '(', kind: 'function', help})),
                 ...KEYWORDS.map(text => ({text, kind: 'keyword', help: ''}))];
    return {from, to: caret, items: matching(items, prefix, max)};
}

const isClosed = text => text.length > 1 && text.at(-1) === (text[0] === '[' ? ']' : text[0]);
const unquote = text => /^["`[]/.test(text) ? text.slice(1, -1) : text;

function isInFrom(list)
{
    for (let i = list.length - 1; i >= 0; i--) {
        if (list[i].kind === WORD && /^(from|join)$/i.test(list[i].text))
            return true;
        if (list[i].kind === WORD && isKeyword(list[i].text) && !/^as$/i.test(list[i].text))
            return false;
    }
    return false;
}

const tableItems = schema => [...schema.keys()].map(name => ({text: quoteName(name), kind: 'table', help: (schema.get(name) ?? []).slice(0, 8).join(', ')}));

function columnsOf(schema, table)
{
    const name = table.toLowerCase().replace(/_latest$/, '');
    const own = schema.get(table.toLowerCase()) ?? schema.get(name);
    if (!own)
        return [];
    const all = table.toLowerCase() in OWN_TABLES ? own : [...COMMON, ...own.filter(c => !COMMON.includes(c))];
    return all.map(text => ({text: quoteName(text), kind: 'column', help: 'of ' + table}));
}

/* Those that begin with it, then those that have it, each once. */
function matching(items, prefix, max)
{
    const low = prefix.toLowerCase(), first = [], then = [], seen = new Set();
    for (const item of items) {
        const plain = item.text.toLowerCase().replace(/^"/, '');
        if (seen.has(item.text) || plain === low || !plain.includes(low))
            continue;
        seen.add(item.text);
        (plain.startsWith(low) ? first : then).push(item);
    }
    return [...first, ...then].slice(0, max);
}

/* tables: rows [name, event, fields] of the table `tables`. */
export function schemaOf(tables)
{
    const schema = new Map();
    for (const [name, , fields] of tables) {
        schema.set(name.toLowerCase(), fields ? fields.split(',') : []);
        schema.set(name.toLowerCase() + '_latest', fields ? fields.split(',') : []);
    }
    for (const [name, columns] of Object.entries(OWN_TABLES)) {
        if (!schema.has(name))
            schema.set(name, columns);
    }
    return schema;
}

/* :from, :to and :span as numbers in ns; not within texts and comments. → {text, used, map}: map(position in the result's text) is the
 * position in the one given. */
export function fillIn(text, from, to)
{
    const ns = us => (BigInt(Math.round(us)) * 1000n).toString();
    const values = {':from': ns(from), ':to': ns(to), ':span': ns(to - from)};
    const shifts = [];
    let out = '', used = false;
    for (const t of tokens(text)) {
        const value = t.kind === WORD ? values[t.text.toLowerCase()] : undefined;
        if (value !== undefined) {
            used = true;
            shifts.push({at: out.length, made: value.length, was: t.to - t.from, from: t.from});
        }
        out += value ?? t.text;
    }
    const map = position => {
        let shift = 0;
        for (const s of shifts) {
            if (position >= s.at + s.made)
                shift += s.was - s.made;
            else if (position >= s.at)
                return s.from;
        }
        return position + shift;
    };
    return {text: out, used, map};
}

/* The gateway refuses a result that is too long as a whole; one row more than is wanted shows that there are more. shift: by how much
 * places in it are behind those in the statement. */
export function withLimit(text, rows)
{
    if (!/^\s*(select|with|values)\b/i.test(text))
        return {text, shift: 0};
    const before = 'SELECT * FROM (';
    return {text: `${before}${text.replace(/;\s*$/, '')}\n) LIMIT ${rows + 1}`, shift: before.length};
}

/* The place of "…, at character 10" (bytes, from 1): an index into the statement, or -1; and the message without it. */
export function errorPlace(detail, statement)
{
    const m = /^([\s\S]*?),? at character (\d+)\.?$/.exec(detail ?? '');
    if (!m)
        return {message: detail ?? '', at: -1};
    const bytes = Number(m[2]) - 1;
    const whole = new TextEncoder().encode(statement);
    return {message: m[1], at: bytes > whole.length ? -1 : new TextDecoder().decode(whole.subarray(0, bytes)).length};
}

/* The word at a place, to be marked: [from, to]. */
export function wordAt(text, at)
{
    const t = tokens(text).find(t => at >= t.from && at < t.to);
    return t && t.kind !== SPACE ? [t.from, t.to] : [Math.max(0, Math.min(at, text.length) - (at >= text.length ? 1 : 0)), Math.min(at + 1, text.length)];
}

export function lineOf(text, at)
{
    const lines = text.slice(0, at).split('\n');
    return {line: lines.length, column: lines.at(-1).length + 1};
}

/* ---- charts ---- */

const TIME_NAME = /(^|_)(time|bucket|at|since|from|to|start|started|end)$|^bucket\(|^min\(time|^max\(time/i;
const NS_MIN = 6e17, NS_MAX = 4e18; /* 1989 … 2096 in ns */

/* A value as µs since 1970, or NaN: numbers in ns, or ISO texts. */
export function timeOf(v)
{
    if (typeof v === 'number')
        return v > NS_MIN && v < NS_MAX ? v / 1e3 : NaN;
    if (typeof v === 'string' && /^\d{4}-\d\d-\d\d([T ]\d\d:\d\d|$)/.test(v))
        return Date.parse(/[zZ]|[+-]\d\d:?\d\d$/.test(v) || v.length === 10 ? v.replace(' ', 'T') : v.replace(' ', 'T') + 'Z') * 1e3;
    return NaN;
}

const SAMPLE = 200;

/* What a column's values are: 'time', 'number', 'text', 'none'. */
export function kindOf(rows, column, name)
{
    let times = 0, numbers = 0, n = 0;
    const step = Math.max(1, Math.floor(rows.length / SAMPLE));
    for (let i = 0; i < rows.length; i += step) {
        const v = rows[i][column];
        if (v === null || v === undefined)
            continue;
        n++;
        times += Number.isNaN(timeOf(v)) ? 0 : 1;
        numbers += typeof v === 'number' ? 1 : 0;
    }
    if (n === 0)
        return 'none';
    if (times === n && (TIME_NAME.test(name) || typeof rows.find(r => r[column] !== null)[column] === 'string' || numbers === n))
        return 'time';
    return numbers === n ? 'number' : 'text';
}

/* What a chart of it could be: {kind: 'lines' | 'bars' | 'none', x, group (-1: none), y: [columns]}. */
export function guessChart(columns, rows)
{
    const kinds = columns.map((name, i) => kindOf(rows, i, name));
    const time = kinds.indexOf('time');
    const numbers = kinds.flatMap((k, i) => k === 'number' ? [i] : []);
    const text = kinds.indexOf('text');
    if (rows.length === 0 || numbers.length === 0)
        return {kind: 'none', x: -1, group: -1, y: [], kinds};
    if (time >= 0 && rows.length > 1)
        return {kind: 'lines', x: time, group: text, y: numbers.slice(0, text >= 0 ? 1 : 6), kinds};
    if (text >= 0)
        return {kind: 'bars', x: text, group: -1, y: numbers.slice(0, 1), kinds};
    return rows.length > 2 && numbers.length > 1 ? {kind: 'lines', x: numbers[0], group: -1, y: numbers.slice(1, 7), kinds} : {kind: 'none', x: -1, group: -1, y: [], kinds};
}

export const SERIES_MAX = 24, BARS_MAX = 60;

/* {x: Float64Array (µs for times), series: [{label, values}], leftOut}: a value for each x, null where there is none. */
export function seriesOf(columns, rows, chart)
{
    const isTime = chart.kinds?.[chart.x] === 'time';
    const xs = new Map(), series = new Map();
    const value = v => isTime ? timeOf(v) : typeof v === 'number' ? v : NaN;
    for (const r of rows) {
        const x = value(r[chart.x]);
        if (!Number.isNaN(x) && !xs.has(x))
            xs.set(x, 0);
    }
    const x = Float64Array.from(xs.keys()).sort();
    x.forEach((v, i) => xs.set(v, i));
    let leftOut = 0;
    for (const r of rows) {
        const at = xs.get(value(r[chart.x]));
        if (at === undefined)
            continue;
        for (const y of chart.y) {
            const group = chart.group >= 0 ? String(r[chart.group] ?? '–') : '';
            const label = chart.group < 0 ? columns[y] : chart.y.length > 1 ? group + ' ' + columns[y] : group;
            let s = series.get(label);
            if (!s) {
                if (series.size >= SERIES_MAX) {
                    leftOut++;
                    continue;
                }
                s = new Array(x.length).fill(null);
                series.set(label, s);
            }
            if (typeof r[y] === 'number')
                s[at] = r[y];
        }
    }
    return {x, isTime, series: [...series].map(([label, values]) => ({label, values})), leftOut};
}

/* The largest first when there are too many: [{label, value}] and how many are not there. */
export function barsOf(rows, chart)
{
    const all = rows.map(r => ({label: String(r[chart.x] ?? '–'), value: r[chart.y[0]]})).filter(b => typeof b.value === 'number');
    const shown = all.length > BARS_MAX ? all.toSorted((a, b) => Math.abs(b.value) - Math.abs(a.value)).slice(0, BARS_MAX) : all;
    return {bars: shown, leftOut: all.length - shown.length, most: shown.reduce((m, b) => Math.max(m, Math.abs(b.value)), 0)};
}

/* ---- out ---- */

/* RFC 4180. What a spreadsheet would take for a formula has a ' before it. */
export function csvOf(columns, rows)
{
    const cell = v => {
        if (v === null || v === undefined)
            return '';
        const text = typeof v === 'string' && /^[=+\-@\t\r]/.test(v) ? "'" + v : String(v);
        return /[",\r\n]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text;
    };
    return [columns, ...rows].map(r => r.map(cell).join(',')).join('\r\n') + '\r\n';
}

/* A list of objects; a column whose name was there before has its number behind it. */
export function jsonOf(columns, rows)
{
    const names = columns.map((c, i) => columns.indexOf(c) === i ? c : c + '_' + (i + 1));
    return JSON.stringify(rows.map(r => Object.fromEntries(names.map((n, i) => [n, r[i]]))), null, 1);
}

/* ---- what was asked before ---- */

export const HISTORY_MAX = 100;

/* The newest first, each once. */
export function withQuery(history, text, at)
{
    const trimmed = text.trim();
    return trimmed ? [{text: trimmed, at}, ...history.filter(h => h.text !== trimmed)].slice(0, HISTORY_MAX) : history;
}

/* What was kept on this machine: whatever is there, only what makes sense of it is taken. */
export function readKept(json, field = 'text')
{
    try {
        const list = JSON.parse(json ?? '[]');
        return Array.isArray(list) ? list.filter(x => x && typeof x[field] === 'string' && x[field].length < 65536).slice(0, HISTORY_MAX) : [];
    } catch {
        return [];
    }
}

export const EXAMPLES = [
    {name: 'Busiest hosts', text: "SELECT host, round(avg(load1), 2) AS load, max(load1) AS most\nFROM load WHERE time BETWEEN :from AND :to\nGROUP BY host ORDER BY 2 DESC"},
    {name: 'Load over time', text: "SELECT bucket(time, '10s') AS time, host, avg(load1) AS load\nFROM load WHERE time BETWEEN :from AND :to\nGROUP BY 1, 2 ORDER BY 1"},
    {name: 'Network bytes a second', text: "SELECT bucket(time, '10s') AS time, interface, counter_rate(time, rx_bytes) AS received\nFROM network WHERE time BETWEEN :from AND :to\nGROUP BY 1, 2, host ORDER BY 1"},
    {name: 'Slowest hops', text: "SELECT time_text(time) AS at, id, hop_from, hop_to, latency_ns / 1e6 AS ms, on_host\nFROM lifeline_outlier WHERE slow AND time BETWEEN :from AND :to\nORDER BY latency_ns DESC LIMIT 50"},
    {name: 'Faults that fired', text: "SELECT time_text(time) AS at, rule, target, state, severity, summary\nFROM fault_state WHERE time BETWEEN :from AND :to ORDER BY time DESC"},
    {name: 'Sensors that do not run', text: "SELECT host, sensor, status, why FROM sensors WHERE status NOT IN ('running', 'idle')"},
    {name: 'Tables there are', text: 'SELECT name, event, fields FROM tables ORDER BY name'},
];
