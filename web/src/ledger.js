/* ledger.js - what the ledger's accounts say, and whether they add up: taken = passed + duplicate + dropped by reason + queued. Pure. */

/* Why a gateway drops, and what that means. */
export const REASONS = {
    refused: 'the sender may not say that, or it can’t be kept', too_old: 'older than the archive keeps it, or than what is remembered of its sender', too_new: 'further ahead of now than the archive takes it', no_schema: 'its schema was never announced',
};

const n = v => Number(v ?? 0);

/* One account: {taken, passed, duplicate, dropped, queued, lost, off: how much is not accounted for} */
export function accountOf(row)
{
    const dropped = Object.keys(REASONS).reduce((sum, reason) => sum + n(row[reason]), 0);
    return {taken: n(row.taken), passed: n(row.passed), duplicate: n(row.duplicate), dropped, queued: n(row.queued), lost: n(row.lost),
            off: n(row.taken) - n(row.passed) - n(row.duplicate) - dropped - n(row.queued)};
}

/* All accounts: the sums, those of each reason, of the senders' own counts, and how many accounts are off. */
export function sumsOf(rows)
{
    const sums = {taken: 0, passed: 0, duplicate: 0, dropped: 0, queued: 0, lost: 0, wrong: 0, open: 0, reasons: {}, senders: {}};
    for (const row of rows) {
        const account = accountOf(row);
        for (const name of ['taken', 'passed', 'duplicate', 'dropped', 'queued', 'lost'])
            sums[name] += account[name];
        sums.wrong += account.off !== 0 ? 1 : 0;
        sums.open += row.state === 'open' ? 1 : 0;
        for (const reason of Object.keys(REASONS))
            sums.reasons[reason] = (sums.reasons[reason] ?? 0) + n(row[reason]);
        for (const [name, value] of Object.entries(row)) {
            if (name.startsWith('sender_') && !['sender_taken', 'sender_passed', 'sender_queued', 'sender_dropped'].includes(name) && n(value))
                sums.senders[name.slice(7)] = (sums.senders[name.slice(7)] ?? 0) + n(value);
        }
    }
    return sums;
}
