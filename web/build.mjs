/* build.mjs - bundles the viewer: node web/build.mjs --out DIR [--node-modules DIR] [--dev]
 *
 * Makes index.html, app-HASH.css, app-HASH.js and a file for each page (which is loaded when somebody goes there) in DIR, and prints
 * how large they are. Names have the hash of the content, so that a browser may keep them for ever; older ones in DIR are
 * removed. --node-modules: where `npm ci` has put the packages of the lock file. */
import {createHash} from 'node:crypto';
import {readFile} from 'node:fs/promises';
import {mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync} from 'node:fs';
import {createRequire} from 'node:module';
import {basename, dirname, join, resolve} from 'node:path';
import {fileURLToPath} from 'node:url';
import {gzipSync} from 'node:zlib';

const here = dirname(fileURLToPath(import.meta.url));
const BUDGET = 90 * 1024; /* of JS and CSS that a page needs, gzipped */

function argument(name, fallback)
{
    const i = process.argv.indexOf(name);
    return i < 0 ? fallback : process.argv[i + 1];
}

const out = resolve(argument('--out', join(here, 'dist')));
const modules = resolve(argument('--node-modules', join(here, 'node_modules')));
const {build} = createRequire(join(modules, 'package.json'))('esbuild');

/* Templates keep the indentation of the source; it means nothing to them, and is much of the bundle.
 *
 * esbuild makes a file of its own for each set of pages that share a module, which would be a dozen small ones. So the first file and all pages
 * import what is common, and that is one file. uPlot, and what needs it, stays apart: half of the pages do without. */
const APART = ['chart.js', 'spark.js', 'tree.js'];
const isShared = f => f.endsWith('.js') && f !== 'main.js' && !APART.includes(f);
const shared = ['', 'ui/', 'frame/'].flatMap(dir => readdirSync(join(here, 'src', dir)).filter(isShared).map(f => dir + f));
const isEntry = path => path.endsWith('/src/main.js') || /\/pages\/(overview|host|timeline|map|sensors|faults|sql|system)\.js$/.test(path);

const sources = {name: 'sources', setup(b) {
    b.onLoad({filter: /\/src\/.*\.js$/}, async ({path}) => {
        const text = (await readFile(path, 'utf8')).replace(/\n[ \t]+/g, '\n');
        return {contents: isEntry(path) ? text + '\nimport "gridline:common";' : text, loader: 'js'};
    });
    b.onResolve({filter: /^gridline:common$/}, () => ({path: 'common', namespace: 'gridline', sideEffects: true}));
    b.onLoad({filter: /.*/, namespace: 'gridline'}, () =>
        ({contents: shared.map(f => `import "./${f}";`).join('\n'), resolveDir: join(here, 'src'), loader: 'js'}));
}};

const common = {bundle: true, target: ['chrome117', 'firefox119', 'safari17.4'], outdir: out, write: false, minify: !process.argv.includes('--dev'),
                nodePaths: [modules], legalComments: 'none', logLevel: 'warning', charset: 'utf8'};

const scripts = await build({...common, entryPoints: [{in: join(here, 'src/main.js'), out: 'app'}], format: 'esm', splitting: true, entryNames: '[name]-[hash]',
                             chunkNames: '[name]-[hash]', loader: {'.css': 'empty'}, plugins: [sources], metafile: true});

/* All styles are one file: a page's would come too late otherwise. */
const pages = readdirSync(join(here, 'src/pages')).filter(f => f.endsWith('.css')).sort();
const css = ['./style.css', ...pages.map(f => './pages/' + f)].map(f => `@import "${f}";`).join('\n');
const styles = await build({...common, stdin: {contents: css, resolveDir: join(here, 'src'), loader: 'css'}});

const hashed = bytes => createHash('sha256').update(bytes).digest('hex').slice(0, 10);
const files = {};
for (const file of scripts.outputFiles)
    files[basename(file.path)] = Buffer.from(file.contents);
const style = Buffer.from(styles.outputFiles[0].contents);
const styleName = `app-${hashed(style)}.css`;
files[styleName] = style;
const outputs = Object.entries(scripts.metafile.outputs).map(([path, o]) => ({name: basename(path), ...o}));
const entry = outputs.find(o => o.entryPoint?.endsWith('src/main.js')).name;
files['index.html'] = Buffer.from(readFileSync(join(here, 'src/index.html'), 'utf8').replace('app.js', entry).replace('app.css', styleName));

mkdirSync(out, {recursive: true});
for (const old of readdirSync(out)) {
    if (/-[0-9A-Za-z]{8,10}\.(js|css)$/.test(old) && !files[old])
        rmSync(join(out, old));
}
const zipped = {};
for (const [name, content] of Object.entries(files)) {
    writeFileSync(join(out, name), content);
    zipped[name] = gzipSync(content, {level: 9}).length;
}

/* What a file needs to be loaded with it. */
function needs(name, all = new Set())
{
    if (all.has(name))
        return all;
    all.add(name);
    for (const i of outputs.find(o => o.name === name).imports) {
        if (i.kind === 'import-statement')
            needs(basename(i.path), all);
    }
    return all;
}
const sizeOf = names => [...names].reduce((sum, name) => sum + zipped[name], zipped[styleName]);
const start = needs(entry);
console.log(`viewer: ${Object.keys(files).length} files; gzipped ${sizeOf(Object.keys(files)) - zipped[styleName] - zipped['index.html']} bytes in all, ${sizeOf(start)} to begin with`);
for (const o of outputs.filter(o => o.entryPoint?.includes('/pages/')).sort((a, b) => a.entryPoint.localeCompare(b.entryPoint))) {
    const with_ = new Set(start);
    needs(o.name, with_);
    const size = sizeOf(with_);
    console.log(`viewer: ${basename(o.entryPoint, '.js')}: ${with_.size + 2} files, ${size} bytes (${(100 * size / BUDGET).toFixed(0)} % of ${BUDGET})${size > BUDGET ? ': LARGER THAN ITS BUDGET' : ''}`);
}
