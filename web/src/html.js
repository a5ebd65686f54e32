/* html.js - templates and hooks, in one place: htm bound to preact, signals that components follow by reading them.
 *
 * What goes into a template is a text node or an attribute that preact sets; nothing here or elsewhere makes markup of text. */
import {h, render, Fragment} from 'preact';
import htm from 'htm';

export const html = htm.bind(h);
export {h, render, Fragment};
export {useState, useEffect, useLayoutEffect, useRef, useMemo, useCallback, useId, useErrorBoundary} from 'preact/hooks';
export {signal, computed, effect, batch, untracked, useSignal, useComputed, useSignalEffect} from '@preact/signals';

/* Class names: cx('a', is && 'b') */
export const cx = (...names) => names.filter(Boolean).join(' ');
