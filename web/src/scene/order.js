/* order.js - in which order event names stand above each other.
 *
 * What usually follows stands higher, so that lifelines rise as in nlv. Of the hops between each two names, as many as possible shall go
 * upwards: the heuristic of Eades, Lin and Smyth (take away sinks, then sources, else what leaves most more often than it is come to), which gives the
 * order of a pipeline exactly and cuts a cycle where it is entered. */

/* hops: Map of 'from\u0000to' → count. names: all of them. Returns the names, the first event first. */
export function autoOrder(names, hops)
{
    const out = new Map(names.map(n => [n, new Map()])), into = new Map(names.map(n => [n, new Map()]));
    for (const [key, count] of hops) {
        const [a, b] = key.split('\u0000');
        if (a === b || !out.has(a) || !out.has(b))
            continue;
        out.get(a).set(b, count);
        into.get(b).set(a, count);
    }
    const sum = map => {
        let total = 0;
        for (const n of map.values())
            total += n;
        return total;
    };
    const left = new Set([...names].sort());
    const first = [], last = [];
    const take = (name, list) => {
        list.push(name);
        left.delete(name);
        for (const other of out.get(name).keys())
            into.get(other).delete(name);
        for (const other of into.get(name).keys())
            out.get(other).delete(name);
    };
    while (left.size) {
        const all = [...left];
        const alone = all.filter(n => !out.get(n).size && !into.get(n).size);
        const sink = all.find(n => !out.get(n).size && into.get(n).size);
        const source = all.find(n => !into.get(n).size && out.get(n).size);
        if (sink !== undefined)
            take(sink, last);
        else if (source !== undefined)
            take(source, first);
        else if (alone.length === all.length)
            alone.forEach(n => take(n, first));
        else
            take(all.filter(n => out.get(n).size).reduce((best, n) => sum(out.get(n)) - sum(into.get(n)) > sum(out.get(best)) - sum(into.get(best)) ? n : best),
                 first);
    }
    return [...first, ...last.reverse()];
}

/* The order that is shown: what a person chose first, in its places; what is new, beside what stands beside it in the automatic one. */
export function mergedOrder(chosen, automatic)
{
    const order = chosen.filter(n => automatic.includes(n));
    automatic.forEach((name, i) => {
        if (order.includes(name))
            return;
        const before = automatic.slice(0, i).reverse().find(n => order.includes(n));
        order.splice(before === undefined ? 0 : order.indexOf(before) + 1, 0, name);
    });
    return order;
}

/* Moves a name to where another one stands. */
export function moved(order, name, to)
{
    const next = order.filter(n => n !== name);
    const at = order.indexOf(to);
    if (at < 0 || name === to)
        return order;
    next.splice(at, 0, name);
    return next;
}
