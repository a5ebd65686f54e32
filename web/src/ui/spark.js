/* spark.js - a small curve without axes, as SVG: for cells and tiles. */
import {html} from '../html.js';

/* values: numbers or null (a gap). */
export function Sparkline({values, width = 80, height = 18, min = 0, max, label})
{
    const there = values.filter(v => v !== null && v !== undefined && Number.isFinite(v));
    if (there.length < 2)
        return html`<svg class="spark" width=${width} height=${height} role="img" aria-label=${label ?? 'no curve'}></svg>`;
    const low = Math.min(min ?? Infinity, ...there), high = Math.max(max ?? -Infinity, ...there);
    const y = v => (height - 1.5 - (v - low) / (high - low || 1) * (height - 3)).toFixed(1);
    const x = i => (i / (values.length - 1) * width).toFixed(1);
    let path = '', isGap = true;
    values.forEach((v, i) => {
        if (v === null || v === undefined || !Number.isFinite(v)) {
            isGap = true;
            return;
        }
        path += `${isGap ? 'M' : 'L'}${x(i)} ${y(v)}`;
        isGap = false;
    });
    return html`<svg class="spark" width=${width} height=${height} viewBox=${`0 0 ${width} ${height}`} role="img" aria-label=${label ?? 'curve'}><path d=${path} /></svg>`;
}
