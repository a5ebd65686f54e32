/* unit.mjs - runs the tests of the viewer's pure modules: node tests/web/unit.mjs [NODE_MODULES] [NAME…]
 *
 * Each tests/web/unit/NAME_test.mjs is bundled, so that the packages may be anywhere (the build has them out of the source tree), and given
 * to node --test. Without the packages: skipped (77). */
import {spawnSync} from 'node:child_process';
import {existsSync, mkdtempSync, readdirSync, rmSync} from 'node:fs';
import {createRequire} from 'node:module';
import {tmpdir} from 'node:os';
import {dirname, join, resolve} from 'node:path';
import {fileURLToPath} from 'node:url';

const here = dirname(fileURLToPath(import.meta.url));
const modules = resolve(process.argv[2] ?? join(here, '../../web/node_modules'));
if (!existsSync(join(modules, 'esbuild'))) {
    console.log(`skipped: ${modules} has no packages (npm ci in web/, or a build with the viewer, puts them there)`);
    process.exit(77);
}
const {build} = createRequire(join(modules, 'package.json'))('esbuild');
const names = process.argv.slice(3);
const tests = readdirSync(join(here, 'unit')).filter(f => f.endsWith('_test.mjs') && (!names.length || names.includes(f.replace('_test.mjs', ''))));
const out = mkdtempSync(join(tmpdir(), 'gridline-web-unit-'));
try {
    await build({entryPoints: tests.map(f => join(here, 'unit', f)), outdir: out, outExtension: {'.js': '.mjs'}, bundle: true, format: 'esm', platform: 'node', nodePaths: [modules],
                 mainFields: ['module', 'main'], external: ['node:*'], loader: {'.css': 'empty'}, logLevel: 'warning'});
    const done = spawnSync(process.execPath, ['--test', ...tests.map(f => join(out, f))], {stdio: 'inherit', env: {...process.env, TZ: 'Europe/Berlin'}});
    process.exitCode = done.status ?? 1;
} finally {
    rmSync(out, {recursive: true, force: true});
}
