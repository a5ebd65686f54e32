/* sensors_model.js - the directory in columns: 100,000 sensors in a few megabytes, filtered while somebody types. Pure.
 *
 * Texts are numbers in dictionaries (there are few different ones), so that a word is looked for once in each different text and
 * not in each row. */

const none = v => v === null || v === undefined;

/* Different texts by numbers from 1; 0 is none. */
class Words {
    constructor()
    {
        this.list = [''];
        this.low = [''];
        this.of = new Map([['', 0]]);
    }

    add(text)
    {
        if (none(text) || text === '')
            return 0;
        let n = this.of.get(text);
        if (n === undefined) {
            n = this.list.length;
            this.of.set(text, n);
            this.list.push(text);
            this.low.push(String(text).toLowerCase());
        }
        return n;
    }
}

const TEXTS = ['host', 'domain', 'sensor', 'status', 'host_state', 'mode', 'why', 'events'];
const NUMBERS = ['every_ms', 'rate', 'consumers', 'age_ms'];
const SEARCHED = ['host', 'domain', 'sensor', 'status', 'mode', 'why', 'events'];

/* What is asked for: by format=columns of the gateway (docs/http.md), in which it comes a block of rows at a time. */
export const COLUMNS = [...TEXTS, ...NUMBERS, 'expected'];

/* The values of a block's column go to array[from …]: an array of them; or few different ones and which of them each row has; or one for all. */
function fill(array, from, rows, column, of)
{
    if (Array.isArray(column)) {
        for (let i = 0; i < rows; i++)
            array[from + i] = of(column[i]);
    } else if (column?.at) {
        const few = column.of.map(of);
        for (let i = 0; i < rows; i++)
            array[from + i] = few[column.at[i]];
    } else {
        array.fill(of(column?.all), from, from + rows);
    }
}

export class Sensors {
    constructor(room = 1024)
    {
        this.n = 0;
        this.words = Object.fromEntries(TEXTS.map(name => [name, new Words()]));
        this.texts = Object.fromEntries(TEXTS.map(name => [name, new Uint32Array(room)]));
        this.numbers = Object.fromEntries(NUMBERS.map(name => [name, new Float64Array(room)]));
        this.expected = new Uint8Array(room);
    }

    makeRoom(rows)
    {
        const room = Math.max(rows, 2 * this.expected.length);
        const longer = a => {
            const b = new a.constructor(room);
            b.set(a);
            return b;
        };
        for (const name of TEXTS)
            this.texts[name] = longer(this.texts[name]);
        for (const name of NUMBERS)
            this.numbers[name] = longer(this.numbers[name]);
        this.expected = longer(this.expected);
    }

    /* Rows of the directory: {rows: how many, columns: {name: column}}. */
    add({rows, columns})
    {
        const from = this.n;
        if (from + rows > this.expected.length)
            this.makeRoom(from + rows);
        for (const name of TEXTS)
            fill(this.texts[name], from, rows, columns[name], v => this.words[name].add(v));
        for (const name of NUMBERS)
            fill(this.numbers[name], from, rows, columns[name], v => none(v) ? NaN : v);
        fill(this.expected, from, rows, columns.expected, v => v ? 1 : 0);
        this.n += rows;
    }

    text(name, i)
    {
        return this.words[name].list[this.texts[name][i]];
    }

    number(name, i)
    {
        return this.numbers[name][i];
    }

    row(i)
    {
        const out = {i, expected: this.expected[i] === 1};
        for (const name of TEXTS)
            out[name] = this.text(name, i);
        for (const name of NUMBERS)
            out[name] = Number.isNaN(this.numbers[name][i]) ? null : this.numbers[name][i];
        return out;
    }

    key(i)
    {
        const mode = this.text('mode', i); /* a sensor's may change; a program may be called as a sensor */
        return [this.text('host', i), this.text('sensor', i), mode === 'program' || mode === 'archive' ? mode : 'sensor'].join('\u0000');
    }
}

/* A filter as it is typed: words that all have to be somewhere; `host:x` only there; `-x` not; `rate>5`, `age>60`, `consumers=0`. */
export function parseFilter(text)
{
    const out = [];
    for (const word of text.trim().split(/\s+/).filter(Boolean)) {
        const isNot = word.length > 1 && word[0] === '-';
        const rest = isNot ? word.slice(1) : word;
        const number = /^(rate|consumers|age|every)(>=|<=|>|<|=)(\d+(?:\.\d+)?)$/.exec(rest);
        const field = /^(host|domain|sensor|status|mode|why|events?):(.*)$/.exec(rest);
        if (number)
            out.push({isNot, field: {age: 'age_ms', every: 'every_ms'}[number[1]] ?? number[1], sign: number[2],
                      value: Number(number[3]) * (number[1] === 'age' || number[1] === 'every' ? 1000 : 1)});
        else if (field)
            out.push({isNot, fields: [field[1] === 'event' ? 'events' : field[1]], text: field[2].toLowerCase()});
        else
            out.push({isNot, fields: SEARCHED, text: rest.toLowerCase()});
    }
    return out;
}

const SIGNS = {'>': (a, b) => a > b, '<': (a, b) => a < b, '>=': (a, b) => a >= b, '<=': (a, b) => a <= b, '=': (a, b) => a === b};

/* 1 for each text that meets the condition. A loop: TypedArray.from is several times as slow, and there may be 100,000. */
function marks(list, is)
{
    const out = new Uint8Array(list.length);
    for (let i = 0; i < list.length; i++)
        out[i] = is(list[i]) ? 1 : 0;
    return out;
}

/* Which rows pass the words and the facets ({status: Set, …}; none: all): Uint32Array of their numbers. */
export function filterRows(s, text, facets = {})
{
    const pass = new Uint8Array(s.n).fill(1);
    for (const term of parseFilter(text)) {
        if (term.sign) {
            const values = s.numbers[term.field], is = SIGNS[term.sign];
            for (let i = 0; i < s.n; i++)
                pass[i] &= is(values[i], term.value) !== term.isNot ? 1 : 0;
            continue;
        }
        const hits = term.fields.map(name => marks(s.words[name].low, t => t.includes(term.text)));
        const columns = term.fields.map(name => s.texts[name]);
        for (let i = 0; i < s.n; i++) {
            if (!pass[i])
                continue;
            let is = 0;
            for (let f = 0; f < columns.length && !is; f++)
                is = hits[f][columns[f][i]];
            pass[i] = is !== (term.isNot ? 1 : 0) ? 1 : 0;
        }
    }
    for (const [name, wanted] of Object.entries(facets)) {
        if (!wanted || wanted.size === 0)
            continue;
        const hit = marks(s.words[name].list, t => wanted.has(t)), column = s.texts[name];
        for (let i = 0; i < s.n; i++)
            pass[i] &= hit[column[i]];
    }
    let n = 0;
    for (let i = 0; i < s.n; i++)
        n += pass[i];
    const out = new Uint32Array(n);
    for (let i = 0, k = 0; i < s.n; i++) {
        if (pass[i])
            out[k++] = i;
    }
    return out;
}

/* How many rows have each value: [[value, count]], the most first. */
export function facetOf(s, rows, name)
{
    const counts = new Uint32Array(s.words[name].list.length);
    const column = s.texts[name];
    for (const i of rows)
        counts[column[i]]++;
    return [...counts].map((n, i) => [s.words[name].list[i], n]).filter(([, n]) => n > 0).sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1));
}

const collator = new Intl.Collator('en', {numeric: true});

/* Rows by a column; what is missing comes last. */
export function sortRows(s, rows, by, isDown)
{
    let rank;
    if (by in s.texts) {
        const order = s.words[by].list.map((_, i) => i).sort((a, b) => collator.compare(s.words[by].list[a], s.words[by].list[b]));
        const place = new Float64Array(order.length);
        order.forEach((w, k) => { place[w] = k; });
        place[0] = NaN;
        rank = i => place[s.texts[by][i]];
    } else {
        rank = i => s.numbers[by][i];
    }
    const keys = Float64Array.from(rows, rank);
    const index = Uint32Array.from(rows, (_, k) => k);
    const sign = isDown ? -1 : 1;
    index.sort((a, b) => {
        const x = keys[a], y = keys[b];
        if (x !== x || y !== y)
            return (x !== x) - (y !== y) || a - b;
        return sign * (x - y) || a - b;
    });
    return Uint32Array.from(index, k => rows[k]);
}

const WORST = ['failed', 'missing', 'unknown', 'suspended', 'stopped', 'idle', 'running'];

/* domain → host → its rows, with how many are not well: [{id, label, n, bad, children: [{id, label, n, bad, state, rows}]}] */
export function treeOf(s, rows)
{
    const domains = new Map();
    const badWords = Uint8Array.from(s.words.status.list, t => t === 'failed' || t === 'missing' || t === 'unknown' ? 1 : 0);
    for (const i of rows) {
        const domain = s.text('domain', i) || '(no domain)';
        let d = domains.get(domain);
        if (!d)
            domains.set(domain, d = {id: 'd\u0000' + domain, label: domain, n: 0, bad: 0, hosts: new Map()});
        const number = s.texts.host[i];
        let h = d.hosts.get(number);
        if (!h)
            d.hosts.set(number, h = {id: 'h\u0000' + domain + '\u0000' + s.text('host', i), label: s.text('host', i), n: 0, bad: 0, state: s.text('host_state', i), rows: []});
        h.n++;
        h.rows.push(i);
        const isBad = badWords[s.texts.status[i]];
        h.bad += isBad;
        d.bad += isBad;
        d.n++;
    }
    return [...domains.values()].sort((a, b) => collator.compare(a.label, b.label))
        .map(({hosts, ...d}) => ({...d, children: [...hosts.values()].sort((a, b) => collator.compare(a.label, b.label))}));
}

/* The lines of the tree that can be seen: [{kind: 'domain' | 'host' | 'sensor', id, depth, node | row, isOpen}] */
export function linesOf(s, tree, open)
{
    const out = [];
    for (const d of tree) {
        const isOpen = open.has(d.id) || tree.length === 1 && !open.has('-' + d.id);
        out.push({kind: 'domain', id: d.id, depth: 0, node: d, isOpen});
        if (!isOpen)
            continue;
        for (const h of d.children) {
            const isHostOpen = open.has(h.id);
            out.push({kind: 'host', id: h.id, depth: 1, node: h, isOpen: isHostOpen});
            for (const i of isHostOpen ? h.rows : [])
                out.push({kind: 'sensor', id: 's' + i, depth: 2, row: i});
        }
    }
    return out;
}

export const worstOf = statuses => WORST.find(w => statuses.includes(w)) ?? statuses[0] ?? 'unknown';

/* ---- orders ---- */

/* What can be ordered: verb, what it needs, what it does in words. `grave`: asks first, with the number of hosts. */
export const ORDERS = {
    start: {verb: 'sensor.start', label: 'Start', help: 'begins to measure, whoever asks for it', of: 'sensor'},
    stop: {verb: 'sensor.stop', label: 'Stop', help: 'no events of it any more', of: 'sensor', grave: true},
    restart: {verb: 'sensor.stop', then: 'sensor.start', label: 'Re-initialise', help: 'stops it and starts it anew, with what it keeps forgotten', of: 'sensor', grave: true},
    set: {verb: 'sensor.set', label: 'Set …', help: 'period, thresholds, mode', of: 'sensor'},
    ports: {verb: 'sensor.set', label: 'Port monitor …', help: 'runs only while its ports have traffic', of: 'sensor'},
    activate: {verb: 'activate', label: 'Instrumentation …', help: 'which events programs on the host write', of: 'host'},
    suspend: {verb: 'worker.suspend', label: 'Suspend host', help: 'all its sensors rest', of: 'host', grave: true},
    resume: {verb: 'worker.resume', label: 'Resume host', help: 'its sensors go on', of: 'host'},
};

/* Settings a form may give, checked: {set} or {error: {field: text}}. */
export function checkSettings(given)
{
    const set = {}, error = {};
    const isTime = v => /^\d+(\.\d+)?\s*(ns|us|ms|s|m|h|d|w)$/.test(v);
    for (const name of ['every', 'refresh', 'hold']) {
        const v = (given[name] ?? '').trim();
        if (v && !isTime(v))
            error[name] = 'a time with its unit: 500ms, 2s, 1m';
        else if (v)
            set[name] = v;
    }
    const ports = (given.ports ?? '').trim();
    if (ports) {
        const list = ports.split(/[\s,]+/).filter(Boolean);
        if (list.some(p => !/^\d+$/.test(p) || Number(p) < 1 || Number(p) > 65535))
            error.ports = 'numbers from 1 to 65535, by commas';
        else
            set.ports = list.join(', ');
    }
    if (given.mode)
        set.mode = given.mode;
    if (given.mode === 'port' && !ports)
        error.ports = 'which ports?';
    const change = (given.change ?? '').trim();
    if (change) {
        const parts = change.split(',').map(p => p.trim()).filter(Boolean);
        if (parts.some(p => !/^(\S+) \d+(\.\d+)?%?$/.test(p)))
            error.change = 'a field and how far it must move: load1 0.5, or * 5%';
        else
            set.change = parts.join(', ');
    }
    const priority = (given.priority ?? '').trim();
    if (priority && !/^\d$/.test(priority))
        error.priority = 'a digit, 0 to 9';
    else if (priority)
        set.priority = priority;
    if (!Object.keys(error).length && !Object.keys(set).length)
        error.every = 'nothing is set';
    return Object.keys(error).length ? {error} : {set};
}

/* The questions that an order about these rows is made of: one for each sensor, with all its hosts. rows: [{host, sensor}] */
export function questionsOf(order, rows, more = {})
{
    const o = ORDERS[order];
    const hosts = list => [...new Set(list.map(r => r.host))].sort();
    if (o.of === 'host')
        return [{verb: o.verb, args: {workers: hosts(rows).join(','), ...more}, hosts: hosts(rows)}];
    const by = new Map();
    for (const r of rows)
        by.set(r.sensor, [...(by.get(r.sensor) ?? []), r]);
    return [...by].sort(([a], [b]) => a < b ? -1 : 1)
        .map(([sensor, list]) => ({verb: o.verb, args: {sensor, workers: hosts(list).join(','), ...more}, hosts: hosts(list)}));
}

/* Answers as they come: {asked, answered, done, failed, cost, rows}. */
export function tally(answers, asked)
{
    const ended = answers.filter(a => a.answer);
    const newest = new Map(answers.map(a => [a.host + ' ' + (a.sensor ?? ''), a.cost_observed ?? a.cost_predicted])); /* the last word of each */
    const costs = [...newest.values()].filter(v => typeof v === 'number' && v >= 0);
    const isDone = a => a.answer === 'done' || a.answer === 'would_ask';
    return {asked, answered: ended.length, done: ended.filter(isDone).length, failed: ended.filter(a => !isDone(a)).length,
            cost: costs.length ? costs.reduce((sum, v) => sum + v, 0) : NaN, most: costs.length ? Math.max(...costs) : NaN};
}

/* Why an order can't be given: '' if it can. */
export function whyNot(order, rows, may)
{
    if (!may)
        return 'You may not give orders here: the access table of this gateway does not give you “control”.';
    if (!rows.length)
        return 'Choose a sensor first.';
    const o = ORDERS[order];
    if (o.of === 'sensor' && rows.every(r => r.mode === 'program' || r.mode === 'archive'))
        return 'This is a program that writes events, not a sensor of an agent: it can only be given instrumentation levels.';
    if (rows.every(r => r.host_state !== 'live' && r.host_state !== 'late'))
        return 'The host is not connected: there is nobody to give the order to.';
    return '';
}
