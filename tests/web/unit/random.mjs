/* random.mjs - numbers by chance that are the same in every run (mulberry32). */
export function randomOf(seed)
{
    let a = seed >>> 0;
    return () => {
        a = (a + 0x6d2b79f5) >>> 0;
        let t = a;
        t = Math.imul(t ^ (t >>> 15), t | 1);
        t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
        return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
    };
}

export const wholeOf = (random, below) => Math.floor(random() * below);
export const oneOf = (random, list) => list[wholeOf(random, list.length)];
