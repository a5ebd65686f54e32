/* format.js - numbers and units, for people. Pure. Missing is a dash, never 0. */

export const MISSING = '–';

const isMissing = v => v === null || v === undefined || Number.isNaN(v);

/* Three significant digits: 0.00123, 12.3, 1,234 */
export function number(v, digits = 3)
{
    if (isMissing(v))
        return MISSING;
    v = Number(v);
    if (!Number.isFinite(v))
        return v > 0 ? '∞' : v < 0 ? '−∞' : MISSING;
    const size = Math.abs(v);
    if (size === 0)
        return '0';
    if (size < 1e-4)
        return v.toExponential(1);
    const places = size >= 100 ? 0 : Math.max(0, digits - 1 - Math.floor(Math.log10(size)));
    const text = v.toFixed(Math.min(places, 8));
    return group(text.includes('.') ? text.replace(/\.?0+$/, '') : text).replace(/^-/, '−');
}

/* All digits, in groups: 1,234,567 */
export function count(v)
{
    return isMissing(v) ? MISSING : group(String(Math.round(Number(v)))).replace(/^-/, '−');
}

function group(text)
{
    const [whole, rest] = text.split('.');
    const grouped = whole.replace(/\B(?=(\d{3})+$)/g, ',');
    return rest === undefined ? grouped : grouped + '.' + rest;
}

function scaled(v, base, names)
{
    if (isMissing(v))
        return MISSING;
    v = Number(v);
    let i = 0;
    while (Math.abs(v) >= base && i < names.length - 1) {
        v /= base;
        i++;
    }
    return number(v) + (names[i] ? ' ' + names[i] : '');
}

export const bytes = v => scaled(v, 1024, ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB']);
export const short = v => scaled(v, 1000, ['', 'k', 'M', 'G', 'T', 'P', 'E']);
export const percent = v => isMissing(v) ? MISSING : number(v) + ' %';
export const fraction = v => isMissing(v) ? MISSING : number(100 * v) + ' %';

const SECONDS = [['ns', 1e-9], ['µs', 1e-6], ['ms', 1e-3], ['s', 1]];

/* A time in seconds: 12.3 ms, 2 min 5 s, 3 d 4 h */
export function seconds(v)
{
    if (isMissing(v))
        return MISSING;
    v = Number(v);
    if (!Number.isFinite(v))
        return '∞';
    const sign = v < 0 ? '−' : '';
    v = Math.abs(v);
    if (v === 0)
        return '0 s';
    if (v < 60) {
        const [name, size] = SECONDS.findLast(([, s]) => v >= s * 0.9995) ?? SECONDS[0];
        return sign + number(v / size) + ' ' + name;
    }
    const parts = [['d', 86400], ['h', 3600], ['min', 60], ['s', 1]];
    let first = parts.findIndex(([, s]) => v >= s);
    const [name, size] = parts[first];
    const whole = Math.floor(v / size);
    const next = parts[first + 1];
    const rest = next ? Math.floor((v - whole * size) / next[1]) : 0;
    return sign + group(String(whole)) + ' ' + name + (rest ? ' ' + rest + ' ' + next[0] : '');
}

/* How long ago, from microseconds. */
export function ago(us)
{
    if (isMissing(us))
        return MISSING;
    return us < 0 ? 'in ' + seconds(-us / 1e6) : us < 1e6 ? 'now' : seconds(Math.floor(us / 1e6)) + ' ago';
}

/* By the unit of a schema's field; rate: a second. */
export function withUnit(v, unit, rate = false)
{
    const per = rate ? '/s' : '';
    switch (unit) {
    case 'bytes': return bytes(v) + per;
    case '%': return percent(v);
    case 's': return rate ? number(v) + ' s/s' : seconds(v);
    case 'ms': return rate ? number(v) + ' ms/s' : seconds(v / 1e3);
    case 'us': return rate ? number(v) + ' µs/s' : seconds(v / 1e6);
    case 'ns': return rate ? number(v) + ' ns/s' : seconds(v / 1e9);
    case undefined: case null: case '': return short(v) + per;
    default: return short(v) + ' ' + unit + per;
    }
}
