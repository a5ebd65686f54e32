/* Text can be read: a contrast of 4.5:1 (WCAG 2.2, 1.4.3) wherever the styles put one colour on another; lines of charts have 3:1 (1.4.11). */
import test from 'node:test';
import assert from 'node:assert/strict';
import {themes} from '../../../web/src/palette.js';

function luminance(hex)
{
    const [r, g, b] = [1, 3, 5].map(i => parseInt(hex.slice(i, i + 2), 16) / 255).map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

function contrast(a, b)
{
    const [x, y] = [luminance(a), luminance(b)];
    return (Math.max(x, y) + 0.05) / (Math.min(x, y) + 0.05);
}

const GROUNDS = ['bg', 'panel', 'raised'];
const PAIRS = [
    ...['text', 'dim', 'faint', 'accent', 'ok', 'warn', 'error', 'info'].flatMap(c => GROUNDS.map(g => [c, g])),
    ...['text', 'dim'].flatMap(c => ['hover', 'select'].map(g => [c, g])),
    ...['ok', 'warn', 'error', 'info'].map(c => [c, c + 'Ground']), ['dim', 'offGround'], ['axis', 'panel'], ['accentText', 'accent'],
];

for (const [name, t] of Object.entries(themes)) {
    test(`${name}: text has 4.5:1`, () => {
        for (const [colour, ground] of PAIRS)
            assert.ok(contrast(t[colour], t[ground]) >= 4.5, `${colour} on ${ground}: ${contrast(t[colour], t[ground]).toFixed(2)}`);
        t.heat.forEach((ground, i) => assert.ok(contrast(t.heatText, ground) >= 4.5, `heat ${i}: ${contrast(t.heatText, ground).toFixed(2)}`));
    });
    test(`${name}: curves have 3:1 on their ground, and no two are alike`, () => {
        t.series.forEach((colour, i) => assert.ok(contrast(colour, t.panel) >= 3, `series ${i}: ${contrast(colour, t.panel).toFixed(2)}`));
        assert.equal(new Set(t.series).size, t.series.length);
    });
}

test('both themes have the same colours', () => assert.deepEqual(Object.keys(themes.dark).sort(), Object.keys(themes.light).sort()));
