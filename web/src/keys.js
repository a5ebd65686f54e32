/* keys.js - the keyboard: one table, which the help shows, too.
 *
 * A key is {key, code, shift, ctrl, label, group, run(event)}: `code` (KeyW) is a place on the keyboard, whatever is printed on it;
 * `key` ('?') is a character; `opens`: it opens a dialog. Keys do nothing while somebody types. Pages add their own while they are open; the newest goes first. */
import {signal} from '@preact/signals-core';
import {useEffect} from 'preact/hooks';

export const keys = signal([]);

/* Adds keys; returns what takes them away. */
export function addKeys(list)
{
    keys.value = [...keys.peek(), ...list];
    return () => { keys.value = keys.peek().filter(k => !list.includes(k)); };
}

/* As a hook. `deps`: what the run functions use. */
export function useKeys(list, deps = [])
{
    useEffect(() => addKeys(list), deps);
}

const isTyping = target => target instanceof Element
    && (target.closest('input, textarea, select, [contenteditable="true"], [data-keys="own"]') !== null);

/* Pure: does the key mean the event? */
export function matches(k, e)
{
    if ((k.ctrl ?? false) !== (e.ctrlKey || e.metaKey) || e.altKey)
        return false;
    if (k.code)
        return k.code === e.code && (k.shift === 'any' || (k.shift ?? false) === e.shiftKey);
    return k.key === e.key && (k.shift === undefined || k.shift === 'any' || k.shift === e.shiftKey);
}

/* Between a key that opens a dialog and the dialog's first frame: what is typed meanwhile is meant for it. */
const EXPECT_MS = 3000;
let expected = {until: 0, text: ''};

/* What was typed for the dialog that is there now. */
export function takeTyped()
{
    const {text} = expected;
    expected = {until: 0, text: ''};
    return text;
}

export function onKey(event)
{
    if (event.defaultPrevented || event.isComposing)
        return;
    if (performance.now() < expected.until && event.key.length === 1 && !event.ctrlKey && !event.metaKey) {
        expected.text += event.key;
        event.preventDefault();
        return;
    }
    if (document.querySelector('dialog[open]') && event.key !== 'Escape')
        return;
    const isText = isTyping(event.target);
    const list = keys.peek();
    for (let i = list.length - 1; i >= 0; i--) {
        const k = list[i];
        if ((isText && !k.always) || !matches(k, event) || k.run(event) === false)
            continue;
        if (k.opens)
            expected = {until: performance.now() + EXPECT_MS, text: ''};
        event.preventDefault();
        return;
    }
}

/* What is printed for a key: ['Shift', 'E'] */
export function printed(k)
{
    const name = k.show ?? (k.code ? k.code.replace(/^Key|^Digit/, '').replace('Arrow', '') : k.key);
    const out = [];
    if (k.ctrl)
        out.push('Ctrl');
    if (k.shift === true)
        out.push('Shift');
    return [...out, name === ' ' ? 'Space' : name];
}
