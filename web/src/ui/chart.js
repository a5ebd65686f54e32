/* chart.js - curves over time, by uPlot: the shared range and cursor, dragging zooms for all, and a table instead for who asks.
 *
 * uPlot is made once for a chart and for each change of what its series are; data, range, size and theme are put into it. */
import uPlot from 'uplot';
import {html, cx, useState, useLayoutEffect, useRef, useMemo, effect, useSignalEffect} from '../html.js';
import {palette, dashOf, seriesColor} from '../palette.js';
import {view, setRange, setCursor} from '../state.js';
import {timeTicks} from '../axis.js';
import {formatTime, digitsFor, zoom} from '../time.js';
import {number, MISSING} from '../format.js';
import {tell} from '../debug.js';
import {Button} from './basic.js';
import {Table} from './table.js';

const charts = {made: 0, alive: 0, drawn: 0};
tell('charts', () => ({...charts}));

/* The value of a series at a time: that of the nearest point before it, no further than `reach` µs away. */
export function valueAt(xs, ys, t, reach)
{
    let lo = 0, hi = xs.length - 1;
    while (lo < hi) {
        const mid = (lo + hi + 1) >> 1;
        if (xs[mid] <= t)
            lo = mid;
        else
            hi = mid - 1;
    }
    for (let i = lo; i >= 0 && t - xs[i] <= reach; i--) {
        if (xs[i] <= t && ys[i] !== null && ys[i] !== undefined)
            return ys[i];
    }
    return null;
}

/* Steps of an axis of bytes: 1, 2, 4, … of each unit. */
const BYTE_STEPS = Array.from({length: 60}, (_, i) => 2 ** i);

function axesOf(format, isBytes, isBare)
{
    const colours = () => palette.peek();
    const font = '11px system-ui, sans-serif';
    return [
        {stroke: () => colours().axis, grid: {stroke: () => colours().grid, width: 1}, ticks: {show: false}, font, size: isBare ? 0 : 22, gap: 4,
         splits: (u, _, min, max) => timeTicks(min, max, Math.max(2, u.bbox.width / devicePixelRatio / 82), view.zone.peek()).map(t => t.at),
         values: (u, splits) => {
             const labels = new Map(timeTicks(u.scales.x.min, u.scales.x.max, Math.max(2, u.bbox.width / devicePixelRatio / 82), view.zone.peek()).map(t => [t.at, t.label]));
             const edge = 18 * (u.scales.x.max - u.scales.x.min) / (u.bbox.width / devicePixelRatio); /* there is no room for half of one */
             return splits.map(s => s > u.scales.x.max - edge ? '' : labels.get(s) ?? '');
         }},
        {stroke: () => colours().axis, grid: {stroke: () => colours().grid, width: 1}, ticks: {show: false}, font, gap: 4, space: 26, ...(isBytes && {incrs: BYTE_STEPS}),
         size: (u, values) => isBare ? 0 : 10 + Math.max(24, ...(values ?? []).map(v => 6.2 * String(v).length)),
         values: (u, splits) => splits.map(v => v === null ? '' : format(v))},
    ];
}

/* Each series upon those before it; missing counts as nothing where another one has a value. */
export function stacked(data)
{
    const [xs, ...columns] = data;
    const sums = new Array(xs.length).fill(0);
    return [xs, ...columns.map(ys => ys.map((v, i) => {
        if (v === null || v === undefined)
            return v;
        sums[i] += v;
        return sums[i];
    }))];
}

/* series: [{label, fill, color, dash}]; hasBands: behind the curves data has the least and greatest of each; isStacked: each upon the others. */
function optionsOf({series, hasBands, isStacked, isBytes, format, min, max, width, height, isBare})
{
    const colours = series.map((s, i) => () => s.color ? palette.peek()[s.color] ?? s.color : seriesColor(i, palette.peek()));
    const lines = series.map((s, i) => ({
        label: s.label, stroke: colours[i], width: isStacked ? 1 : 1.4, dash: s.dash ?? dashOf(i), points: {show: false}, spanGaps: false,
        fill: isStacked && i === 0 ? () => colours[i]() + 'a8' : s.fill ? () => colours[i]() + '30' : undefined,
    }));
    const edges = hasBands ? series.flatMap(() => [0, 1].map(() => ({label: '', stroke: undefined, width: 0, points: {show: false}, spanGaps: false}))) : [];
    return {
        width, height, pxAlign: 0.5, padding: [6, 6, 0, 0], legend: {show: false}, focus: {alpha: 1},
        scales: {x: {time: false, auto: false, range: () => [view.from.peek(), view.to.peek()]},
                 y: {range: (u, lo, hi) => rangeOf(lo, hi, min, max)}},
        series: [{}, ...lines, ...edges],
        bands: bandsOf(series, colours, hasBands, isStacked),
        axes: axesOf(format, isBytes, isBare),
        cursor: {x: true, y: false, points: {size: 5}, drag: {x: true, y: false, setScale: false, dist: 5}},
    };
}

function bandsOf(series, colours, hasBands, isStacked)
{
    if (isStacked)
        return series.slice(1).map((_, i) => ({series: [i + 2, i + 1], fill: () => colours[i + 1]() + 'a8'}));
    return hasBands ? series.map((_, i) => {
        const at = 1 + series.length + 2 * i;
        return {series: [at + 1, at], fill: () => colours[i]() + '28'};
    }) : [];
}

/* From 0 where values are not below, with a little air; as far as `max` at least where that is given. */
function rangeOf(lo, hi, min = 0, max = null)
{
    if (lo === null || lo === undefined)
        return [min ?? 0, max ?? 1];
    const bottom = min === null ? lo : Math.min(min, lo);
    const top = Math.max(hi, max ?? -Infinity);
    return [bottom, top > bottom ? top + (max !== null && hi <= max ? 0 : (top - bottom) * 0.08) : bottom + 1];
}

function listen(u, over)
{
    const move = e => setCursor(u.posToVal(e.clientX - over.getBoundingClientRect().left, 'x'));
    const leave = () => setCursor(null);
    const wheel = e => {
        if (!e.ctrlKey && !e.metaKey)
            return;
        e.preventDefault();
        zoom(e.deltaY > 0 ? 1.25 : 0.8, u.posToVal(e.clientX - over.getBoundingClientRect().left, 'x'));
    };
    over.addEventListener('mousemove', move);
    over.addEventListener('mouseleave', leave);
    over.addEventListener('wheel', wheel, {passive: false});
    u.hooks.setSelect = [() => {
        if (u.select.width > 4)
            setRange(u.posToVal(u.select.left, 'x'), u.posToVal(u.select.left + u.select.width, 'x'));
        u.setSelect({left: 0, width: 0, top: 0, height: 0}, false);
    }];
}

/* The picture itself. data: [times (µs), values of each series, …]; with bands also least and greatest of each. */
export function Plot({series, data, hasBands = false, isStacked = false, isBytes = false, height = 150, format = number, min, max, label, isBare})
{
    const box = useRef(null), plot = useRef(null);
    const shape = JSON.stringify([series, hasBands, isStacked, min, max, isBare]);
    const drawn = useMemo(() => isStacked ? stacked(data) : data, [data, isStacked]);

    useLayoutEffect(() => {
        const element = box.current;
        const u = new uPlot(optionsOf({series, hasBands, isStacked, isBytes, format, min, max, isBare, width: Math.max(60, element.clientWidth), height}), drawn, element);
        plot.current = u;
        charts.made++;
        charts.alive++;
        listen(u, u.over);
        const observer = new ResizeObserver(() => element.clientWidth > 0 && u.setSize({width: element.clientWidth, height}));
        observer.observe(element);
        const end = effect(() => {
            void palette.value;
            void view.zone.value;
            u.redraw(false, true);
        });
        return () => {
            end();
            observer.disconnect();
            u.destroy();
            plot.current = null;
            charts.alive--;
        };
    }, [shape, height]);
    useLayoutEffect(() => {
        charts.drawn++;
        plot.current?.setData(drawn, true);
    }, [drawn]);
    useSignalEffect(() => {
        const from = view.from.value, to = view.to.value;
        plot.current?.setScale('x', {min: from, max: to});
    });
    useSignalEffect(() => {
        const t = view.cursor.value, u = plot.current;
        if (!u)
            return;
        const isIn = t !== null && t >= u.scales.x.min && t <= u.scales.x.max;
        u.setCursor(isIn ? {left: u.valToPos(t, 'x'), top: 0} : {left: -10, top: -10}, false);
    });
    return html`<div class="plot" ref=${box} role="img" aria-label=${label}></div>`;
}

/* What the curves are, and their values at the cursor, or the newest. */
function Legend({series, data, format, reach})
{
    const t = view.cursor.value;
    const xs = data[0];
    const at = t ?? (xs.length ? xs[xs.length - 1] : 0);
    return html`<ul class="legend">${series.map((s, i) => {
        const v = xs.length ? valueAt(xs, data[i + 1], at, reach) : null;
        return html`<li key=${s.label + i}><span class="swatch" style=${{'--swatch': s.color ? palette.value[s.color] ?? s.color : seriesColor(i, palette.value)}}></span>
            <span class="legend-name" title=${s.label}>${s.label}</span><span class="legend-value">${v === null ? MISSING : format(v)}</span></li>`;
    })}</ul>`;
}

/* The same as a table: a row a time, the newest first. */
function Twin({series, data, format, title})
{
    const rows = useMemo(() => data[0].length ? Array.from({length: data[0].length}, (_, i) => data[0].length - 1 - i) : [], [data]);
    const digits = digitsFor(view.span.value);
    const columns = useMemo(() => [
        {id: 'time', label: 'Time', value: i => data[0][i], cell: i => formatTime(data[0][i], {digits})},
        ...series.map((s, k) => ({id: String(k), label: s.label, end: true, value: i => data[k + 1][i], cell: i => {
            const v = data[k + 1][i];
            return v === null || v === undefined ? MISSING : format(v);
        }})),
    ], [data, series, digits]);
    return html`<${Table} label=${title + ', as a table'} columns=${columns} rows=${rows} max=${10} />`;
}

/* A titled chart with legend and table twin. progress: {done, all, error} of its tiles. */
export function Chart({title, note, series, data, hasBands, isStacked, isBytes, height, format = number, min, max, reach = Infinity, progress, actions, empty})
{
    const [own, setTable] = useState(null);
    const isTable = own ?? view.options.value.tables === true;
    const isEmpty = !data[0].length;
    const newest = ys => format(ys.findLast(v => v !== null && v !== undefined) ?? NaN);
    const summary = isEmpty ? title + ': no data' : `${title}: ${series.map((s, i) => s.label + ' ' + newest(data[i + 1])).join(', ')}`;
    const isLoading = progress && progress.done < progress.all;
    const why = progress?.error ? progress.error.message : isLoading ? 'Loading …' : empty ?? 'Nothing in this range.';
    return html`<figure class=${cx('chart', isEmpty && 'empty')}>
        <figcaption><span class="chart-title">${title}</span>${note && html`<span class="note">${note}</span>`}
            ${isLoading && html`<span class="spinner small" role="img" aria-label="loading"></span>`}
            <span class="chart-actions">${actions}
                <${Button} kind="quiet" icon="table" label=${title + ' as a table'} pressed=${isTable} onClick=${() => setTable(!isTable)} /></span></figcaption>
        ${isTable ? html`<${Twin} ...${{series, data, format, title}} />` : html`
            <${Plot} ...${{series, data, hasBands, isStacked, isBytes, height, format, min, max}} label=${summary} />
            ${isEmpty && html`<p class="chart-empty">${why}</p>`}`}
        <${Legend} ...${{series, data, format, reach}} />
    </figure>`;
}
