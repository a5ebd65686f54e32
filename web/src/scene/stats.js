/* stats.js - numbers about many numbers. */

/* The value below which a part of p (0 … 1) lies, between two in proportion; as percentile() of SQL. */
export function quantile(sorted, p)
{
    if (!sorted.length)
        return NaN;
    const at = p * (sorted.length - 1), i = Math.floor(at);
    return i + 1 < sorted.length ? sorted[i] + (sorted[i + 1] - sorted[i]) * (at - i) : sorted[i];
}

export function summaryOf(values)
{
    const sorted = Float64Array.from(values).sort();
    const n = sorted.length;
    let sum = 0;
    for (const v of sorted)
        sum += v;
    return {count: n, min: n ? sorted[0] : NaN, mean: n ? sum / n : NaN, max: n ? sorted[n - 1] : NaN, p50: quantile(sorted, 0.5),
            p95: quantile(sorted, 0.95), p99: quantile(sorted, 0.99)};
}

/* Latencies of density tiles: bin b is from binNs(b) to binNs(b + 1) (docs/tiles.md). */
export const NO_LATENCY = 255;
export const binNs = b => b < 8 ? b : (4 + b % 4) * 2 ** (Math.floor(b / 4) - 1);
export function binOf(ns)
{
    if (ns < 8)
        return Math.max(0, Math.floor(ns));
    const power = Math.floor(Math.log2(ns));
    return Math.min(251, 4 * (power - 1) + Math.floor(ns / 2 ** (power - 2)) - 4);
}

/* The same of counted bins (an array by bin): to within a fifth, as bins are. */
export function binnedSummary(counts)
{
    let count = 0, sum = 0, first = -1, last = -1;
    const middle = b => (binNs(b) + binNs(b + 1)) / 2;
    counts.forEach((n, b) => {
        if (!n)
            return;
        count += n;
        sum += n * middle(b);
        first = first < 0 ? b : first;
        last = b;
    });
    const at = p => {
        let seen = 0;
        const goal = p * count;
        for (let b = 0; b < counts.length; b++) {
            seen += counts[b] ?? 0;
            if (counts[b] && seen >= goal)
                return middle(b);
        }
        return NaN;
    };
    return {count, min: first < 0 ? NaN : binNs(first), mean: count ? sum / count : NaN, max: last < 0 ? NaN : binNs(last + 1), p50: at(0.5),
            p95: at(0.95), p99: at(0.99)};
}
