/* ledger.js - what the ledger's accounts say, and whether they add up, at each of two hops: at the senders, as they report it, and at the
 * gateway. taken = passed + filtered + duplicate + dropped by reason + queued. Pure. */

/* Why a gateway drops, and what that means. */
export const REASONS = {
    refused: 'the sender may not say that, or it can’t be kept', too_old: 'older than the archive keeps it, or than what is remembered of its sender', too_new: 'further ahead of now than the archive takes it', no_schema: 'its schema was never announced',
};

/* Columns sender_X that are no reason of a drop. */
const SENDER_SUMS = new Set(['taken', 'passed', 'queued', 'filtered', 'dropped']);

const n = v => Number(v ?? 0);
const sumOf = counts => Object.values(counts).reduce((a, b) => a + b, 0);

/* A hop of an account: its numbers, its drops by reason, and how many of what it took are not accounted for. */
function hopOf(taken, passed, filtered, duplicate, queued, reasons)
{
    const dropped = sumOf(reasons);
    return {taken: n(taken), passed: n(passed), filtered: n(filtered), duplicate: n(duplicate), queued: n(queued), reasons, dropped,
            off: n(taken) - n(passed) - n(filtered) - n(duplicate) - dropped - n(queued)};
}

/* One account: {gateway, sender: hops (sender null: it has not reported), lost, off: the first difference that is not 0} */
export function accountOf(row)
{
    const gateway = hopOf(row.taken, row.passed, 0, row.duplicate, row.queued, Object.fromEntries(Object.keys(REASONS).map(r => [r, n(row[r])])));
    const senders = Object.entries(row).filter(([name, v]) => name.startsWith('sender_') && !SENDER_SUMS.has(name.slice(7)) && n(v));
    const sender = row.sender_taken === undefined || row.sender_taken === null ? null
        : hopOf(row.sender_taken, row.sender_passed, row.sender_filtered, 0, row.sender_queued, Object.fromEntries(senders.map(([name, v]) => [name.slice(7), n(v)])));
    return {gateway, sender, lost: n(row.lost), off: gateway.off || sender?.off || 0};
}

function addHop(sums, hop)
{
    for (const name of ['taken', 'passed', 'filtered', 'duplicate', 'dropped', 'queued', 'off'])
        sums[name] += hop[name];
    for (const [reason, count] of Object.entries(hop.reasons))
        sums.reasons[reason] = (sums.reasons[reason] ?? 0) + count;
}

const noHop = () => ({taken: 0, passed: 0, filtered: 0, duplicate: 0, dropped: 0, queued: 0, off: 0, reasons: {}});

/* All accounts: the sums of each hop; wrong: accounts that do not add up; bad: all that was lost or dropped anywhere, once (what a gateway
 * refuses for good its sender counts, too). */
export function sumsOf(rows)
{
    const sums = {gateway: noHop(), senders: noHop(), reported: 0, lost: 0, retried: 0, bad: 0, wrong: 0, open: 0};
    for (const row of rows) {
        const {gateway, sender, lost, off} = accountOf(row);
        addHop(sums.gateway, gateway);
        if (sender)
            addHop(sums.senders, sender);
        sums.reported += sender ? 1 : 0;
        sums.lost += lost;
        sums.retried += n(row.retried);
        sums.bad += lost + gateway.dropped + (sender ? sender.dropped - (sender.reasons.refused ?? 0) : 0);
        sums.wrong += off !== 0 ? 1 : 0;
        sums.open += row.state === 'open' ? 1 : 0;
    }
    return sums;
}
