/* debug.js - what parts of the viewer tell tests about themselves: name → function. See window.__gridline.debug(). */
export const debugParts = {};

/* Tells as long as the component that calls it in an effect lives: useEffect(() => tell('scene', () => …), []) */
export function tell(name, part)
{
    debugParts[name] = part;
    return () => {
        if (debugParts[name] === part)
            delete debugParts[name];
    };
}

/* Whether the address asked for the hooks of benches; looked at before the hash is made to say what is seen. */
export const isBench = typeof location !== 'undefined' && /[?&]bench=1/.test(location.search + location.hash);
