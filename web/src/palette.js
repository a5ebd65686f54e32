/* palette.js - the colours of both themes, once: for CSS (custom properties of the root element) and for canvases.
 *
 * Made from the colours of Okabe and Ito, which people with every kind of colour vision tell apart; made lighter on dark and
 * darker on light until text in them has a contrast of 4.5:1 on every ground of the theme. Nothing is said by colour alone:
 * severities and states have a shape and a word, too. */
import {signal} from '@preact/signals-core';

const DARK = {
    bg: '#0d1117', panel: '#141a22', raised: '#1c242e', hover: '#232d39', line: '#2b3644', strong: '#415062',
    text: '#e7ecf2', dim: '#a3b0be', faint: '#8492a2',
    accent: '#5cb8ee', accentText: '#06121c', select: '#1b3a52',
    ok: '#34c79a', warn: '#f0ac1f', error: '#ff8163', info: '#5cb8ee', off: '#8b98a7',
    okGround: '#10312a', warnGround: '#392b0c', errorGround: '#43201a', infoGround: '#122f42', offGround: '#222b36',
    grid: '#202a35', axis: '#8a98a8', cursor: '#f4f7fa', band: '#5cb8ee26', shadow: '#000000a0',
    series: ['#5cb8ee', '#f0ac1f', '#34c79a', '#e48fc0', '#efe45a', '#ff8d5c', '#93a7ff', '#b7c2cd'],
    heat: ['#173a40', '#1b5a54', '#3f6f33', '#6f680f', '#955a0c', '#b8432a'],
    heatText: '#ffffff',
};

const LIGHT = {
    bg: '#f3f5f8', panel: '#ffffff', raised: '#f7f9fb', hover: '#e9eef4', line: '#d5dce4', strong: '#a9b5c2',
    text: '#141b24', dim: '#4a5765', faint: '#5c6a78',
    accent: '#0069a8', accentText: '#ffffff', select: '#d3e8f8',
    ok: '#00704f', warn: '#8a5a00', error: '#b83200', info: '#0069a8', off: '#5a6774',
    okGround: '#dcf3ea', warnGround: '#fbeecd', errorGround: '#fde3da', infoGround: '#dcedf9', offGround: '#e8edf2',
    grid: '#e8edf2', axis: '#5c6a78', cursor: '#141b24', band: '#0069a822', shadow: '#25324133',
    series: ['#0072b2', '#b06a00', '#007d5b', '#b0478a', '#7d7000', '#c44a00', '#4253c5', '#5a6774'],
    heat: ['#c9e8e4', '#a5dccb', '#c8dc97', '#eddd7b', '#f6bd6a', '#f29b7c'],
    heatText: '#141b24',
};

export const themes = {dark: DARK, light: LIGHT};

/* The palette that is on, for canvases: read palette.value in what draws, and it is drawn again when the theme changes. */
export const palette = signal({...DARK, name: 'dark'});

const kebab = name => name.replace(/[A-Z]/g, c => '-' + c.toLowerCase());

/* Sets the theme: 'dark', 'light', or 'auto' (what the system says). */
export function applyTheme(theme, root = document.documentElement)
{
    const isLight = theme === 'light' || (theme === 'auto' && matchMedia('(prefers-color-scheme: light)').matches);
    const colours = isLight ? LIGHT : DARK;
    for (const [name, value] of Object.entries(colours)) {
        if (typeof value === 'string')
            root.style.setProperty('--' + kebab(name), value);
        else
            value.forEach((c, i) => root.style.setProperty(`--${name}-${i}`, c));
    }
    root.style.setProperty('color-scheme', isLight ? 'light' : 'dark');
    root.dataset.theme = isLight ? 'light' : 'dark';
    palette.value = {...colours, name: isLight ? 'light' : 'dark'};
}

/* The colour of the i-th thing: eight that are easily told apart, then hues by the golden angle; as many as are asked for. */
export function seriesColor(i, p = palette.value)
{
    if (i < p.series.length)
        return p.series[i];
    const hue = ((i - p.series.length) * 137.508 + 20) % 360;
    const band = Math.floor((i - p.series.length) / 24) % 3;
    return p.name === 'dark' ? hsl(hue, 70 - band * 12, 66 + band * 7) : hsl(hue, 75 - band * 15, 34 - band * 5);
}

/* The colour of a text (a host, an id): always the same one, of 256. */
export function colorOf(text, p = palette.value)
{
    let hash = 2166136261;
    for (let i = 0; i < text.length; i++)
        hash = Math.imul(hash ^ text.charCodeAt(i), 16777619);
    return seriesColor((hash >>> 0) % 256, p);
}

function hsl(h, s, l)
{
    const a = s / 100 * Math.min(l, 100 - l) / 100;
    const part = n => {
        const k = (n + h / 30) % 12;
        const v = l / 100 - a * Math.max(-1, Math.min(k - 3, 9 - k, 1));
        return Math.round(255 * v).toString(16).padStart(2, '0');
    };
    return '#' + part(0) + part(8) + part(4);
}

/* Dashes for lines, so that colour is not alone: of the i-th series. */
export const dashOf = i => [[], [6, 3], [2, 3], [8, 3, 2, 3]][Math.floor(i / 8) % 4];

/* 0 … 1 as one of the heat colours' numbers. */
export const heatStep = v => Math.max(0, Math.min(5, Math.floor(v * 6)));

/* Levels by their numbers (docs/predicate.md): name, the colour's name, and the shape that canvases and icons draw. */
export const SEVERITIES = ['emergency', 'alert', 'critical', 'error', 'warning', 'auth', 'security', 'important', 'notice', 'system',
                           'usage', 'info', 'debug', 'trace'];

export function severityLook(number)
{
    if (number <= 3)
        return {color: 'error', shape: 'cross'};
    if (number === 4)
        return {color: 'warn', shape: 'triangle'};
    if (number <= 10)
        return {color: 'info', shape: 'diamond'};
    return number === 11 ? {color: 'info', shape: 'circle'} : {color: 'off', shape: 'dot'};
}
