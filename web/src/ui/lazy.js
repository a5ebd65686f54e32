/* lazy.js - what can't be seen is not there: it asks for nothing and draws nothing until it is scrolled near. */
import {html, useRef, useState, useEffect} from '../html.js';

const NEAR = '150px';

/* Give it the height of its children by its class: they come and go. */
export function Lazy({children, class: more})
{
    const ref = useRef(null);
    const [isSeen, setSeen] = useState(false);
    useEffect(() => {
        const observer = new IntersectionObserver(entries => setSeen(entries.at(-1).isIntersecting), {rootMargin: NEAR});
        observer.observe(ref.current);
        return () => observer.disconnect();
    }, []);
    return html`<div ref=${ref} class=${more}>${isSeen && children}</div>`;
}
