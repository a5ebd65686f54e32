/* timetext.js - times and spans as people write and read them. Pure; microseconds. time.js gives it on. */

export const SECOND = 1e6, MINUTE = 60 * SECOND, HOUR = 60 * MINUTE, DAY = 24 * HOUR;

const UNITS = {ns: 1e-3, us: 1, 'µs': 1, ms: 1e3, s: SECOND, m: MINUTE, min: MINUTE, h: HOUR, d: DAY, w: 7 * DAY};

/* '15m', '1h30m', '1.5 h', '-250ms' → microseconds; null: it is no span. */
export function parseSpan(text)
{
    const trimmed = String(text).trim().toLowerCase();
    const match = /^([+-]?)((?:\s*\d+(?:\.\d+)?\s*(?:ns|us|µs|ms|min|[smhdw]))+)$/.exec(trimmed);
    if (!match)
        return null;
    let sum = 0;
    for (const [, value, unit] of match[2].matchAll(/(\d+(?:\.\d+)?)\s*(ns|us|µs|ms|min|[smhdw])/g))
        sum += Number(value) * UNITS[unit];
    return match[1] === '-' ? -sum : sum;
}

/* Exact and short, for addresses: 900000000 → '15m'. parseSpan reads it back. */
export function spanText(us)
{
    for (const [unit, size] of [['d', DAY], ['h', HOUR], ['m', MINUTE], ['s', SECOND], ['ms', 1e3]]) {
        if (us >= size && us % size === 0)
            return us / size + unit;
    }
    return us + 'us';
}

/* '15 min', '1 h 30 min', '250 ms', '12.5 µs': at most two units. */
export function formatSpan(us)
{
    const sign = us < 0 ? '−' : '';
    us = Math.abs(us);
    if (us < MINUTE) {
        const [unit, size] = us >= SECOND ? ['s', SECOND] : us >= 1e3 ? ['ms', 1e3] : ['µs', 1];
        return sign + Number((us / size).toPrecision(3)) + ' ' + unit;
    }
    const steps = [['d', DAY], ['h', HOUR], ['min', MINUTE], ['s', SECOND]];
    const i = steps.findIndex(([, size]) => us >= size);
    const whole = Math.floor(us / steps[i][1]);
    const rest = steps[i + 1] ? Math.floor((us - whole * steps[i][1]) / steps[i + 1][1]) : 0;
    return sign + whole + ' ' + steps[i][0] + (rest ? ' ' + rest + ' ' + steps[i + 1][0] : '');
}

const pad = (n, width = 2) => String(n).padStart(width, '0');

/* The parts of a time in a zone, 'utc' or 'local'. */
export function partsOf(us, zone = 'local')
{
    const whole = Math.floor(us / 1e3);
    const d = new Date(whole);
    const rest = Math.floor(us - whole * 1e3);
    return zone === 'utc'
        ? {year: d.getUTCFullYear(), month: d.getUTCMonth() + 1, day: d.getUTCDate(), hour: d.getUTCHours(), minute: d.getUTCMinutes(),
           second: d.getUTCSeconds(), micro: d.getUTCMilliseconds() * 1000 + rest}
        : {year: d.getFullYear(), month: d.getMonth() + 1, day: d.getDate(), hour: d.getHours(), minute: d.getMinutes(),
           second: d.getSeconds(), micro: d.getMilliseconds() * 1000 + rest};
}

/* '2026-11-17 22:19:08.123'; digits: of the second (0 to 6); date: false leaves the day out. UTC ends in Z. */
export function formatTime(us, {zone = 'local', digits = 3, date = true} = {})
{
    if (!Number.isFinite(us) || Math.abs(us) > 8.64e18)
        return '–';
    const p = partsOf(us, zone);
    const fraction = digits > 0 ? '.' + pad(p.micro, 6).slice(0, digits) : '';
    const clock = `${pad(p.hour)}:${pad(p.minute)}:${pad(p.second)}${fraction}${zone === 'utc' ? 'Z' : ''}`;
    return date ? `${p.year}-${pad(p.month)}-${pad(p.day)} ${clock}` : clock;
}

/* Exact ISO 8601 in UTC, for addresses and the clipboard. */
export function isoTime(us)
{
    const p = partsOf(us, 'utc');
    const fraction = p.micro ? '.' + pad(p.micro, 6).replace(/0+$/, '') : '';
    return `${pad(p.year, 4)}-${pad(p.month)}-${pad(p.day)}T${pad(p.hour)}:${pad(p.minute)}:${pad(p.second)}${fraction}Z`;
}

/* Digits of the second that a range needs to tell its times apart. */
export const digitsFor = spanUs => spanUs > 10 * MINUTE ? 0 : spanUs > 2 * SECOND ? 3 : 6;

const CLOCK = /^(\d{1,2}):(\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?$/;
const ISO = /^(\d{4})-(\d{2})-(\d{2})(?:[T ](\d{2}):(\d{2})(?::(\d{2})(?:[.,](\d{1,9}))?)?)?\s*(Z|[+-]\d{2}:?\d{2})?$/i;
const ULM = /^(\d{4})(\d{2})(\d{2})(\d{2})(\d{2})(\d{2})(?:\.(\d{1,9}))?$/;

const micros = fraction => fraction ? Math.floor(Number('0.' + fraction) * 1e6 + 1e-6) : 0;

/* The time of such parts, if there is one (no 31st of February). */
function timeOf([year, month, day, hour = 0, minute = 0, second = 0], micro, zone)
{
    const n = [year, month - 1, day, hour, minute, second].map(Number);
    const ms = zone === 'utc' ? Date.UTC(...n) : new Date(...n).getTime();
    if (!Number.isFinite(ms))
        return null;
    const p = partsOf(ms * 1e3, zone);
    return p.month === Number(month) && p.day === Number(day) && Number(hour) < 24 && Number(minute) < 60 && Number(second) < 60
        ? ms * 1e3 + micro : null;
}

function parseIso([, year, month, day, hour, minute, second, fraction, offset], zone)
{
    const date = [year, month, day, hour, minute, second];
    if (!offset)
        return timeOf(date, micros(fraction), zone);
    const us = timeOf(date, micros(fraction), 'utc');
    if (us === null || /z/i.test(offset))
        return us;
    const [, sign, h, m] = /([+-])(\d{2}):?(\d{2})/.exec(offset);
    return us - (sign === '-' ? -1 : 1) * (Number(h) * HOUR + Number(m) * MINUTE);
}

/* Reads what a person types: now, now-15m, -15m, ISO 8601 (without a zone: in `zone`), a day, 22:19:08 (today), as in ULM, seconds
 * since 1970 (also milli-, micro- and nanoseconds, by how long they are). `nowUs` is what now means. null: it is no time. */
export function parseTimeAt(text, nowUs, zone = 'local')
{
    text = String(text).trim();
    const relative = /^(now)?\s*([+-].+)?$/i.exec(text);
    if (relative && text) {
        if (!relative[2])
            return nowUs;
        const span = parseSpan(relative[2]);
        return span === null ? null : nowUs + span;
    }
    let m;
    if ((m = CLOCK.exec(text))) {
        const p = partsOf(nowUs, zone);
        return timeOf([p.year, p.month, p.day, m[1], m[2], m[3] ?? 0], micros(m[4]), zone);
    }
    if ((m = ISO.exec(text)))
        return parseIso(m, zone);
    if ((m = ULM.exec(text)))
        return timeOf(m.slice(1, 7), micros(m[7]), 'utc');
    if ((m = /^(\d{9,19})(\.\d+)?$/.exec(text))) {
        const scale = m[1].length <= 11 ? 1e6 : m[1].length <= 14 ? 1e3 : m[1].length <= 17 ? 1 : 1e-3;
        return Math.round(Number(text) * scale);
    }
    return null;
}
