/* pages.js - the pages there are, in the order of the rail. Each is a file of its own, which is loaded when somebody goes there. */

export const pages = [
    {id: 'overview', title: 'Overview', key: '1', load: () => import('./pages/overview.js')},
    {id: 'host', title: 'Host', key: '2', load: () => import('./pages/host.js')},
    {id: 'timeline', title: 'Timeline', key: '3', load: () => import('./pages/timeline.js')},
    {id: 'map', title: 'Map', key: '4', load: () => import('./pages/map.js')},
    {id: 'sensors', title: 'Sensors', key: '5', load: () => import('./pages/sensors.js')},
    {id: 'faults', title: 'Faults', key: '6', load: () => import('./pages/faults.js')},
    {id: 'sql', title: 'SQL', key: '7', load: () => import('./pages/sql.js')},
    {id: 'system', title: 'System', key: '8', load: () => import('./pages/system.js')},
];

export const pageOf = id => pages.find(p => p.id === id) ?? pages[0];

/* The page's component, when it is there: id → Page. */
export const loaded = new Map();

export async function loadPage({id, load})
{
    if (!loaded.has(id))
        loaded.set(id, (await load()).page.Page);
    return loaded.get(id);
}
