/* browser.mjs - runs the browser tests: node tests/web/browser.mjs BUILD [NAME…]
 *
 * Each tests/web/NAME_test.mjs is a program of its own for node --test, one after the other. Skipped (77), saying so, where the build has no viewer or there
 * is no Chromium. GRIDLINE_WEB_SHOTS is where pictures go (BUILD/web-shots). */
import {spawnSync} from 'node:child_process';
import {existsSync, readdirSync} from 'node:fs';
import {dirname, join, resolve} from 'node:path';
import {fileURLToPath} from 'node:url';

const here = dirname(fileURLToPath(import.meta.url));
const build = resolve(process.argv[2] ?? join(here, '../../build'));
const chromium = process.env.GRIDLINE_CHROMIUM ?? '/usr/bin/chromium';
const missing = !existsSync(join(build, 'web/node_modules/playwright-core')) ? `${build}/web has no packages: this build has no viewer`
    : !existsSync(chromium) ? `there is no ${chromium} (script/bootstrap installs it)` : '';
if (missing) {
    console.log('skipped: ' + missing);
    process.exit(77);
}
const names = process.argv.slice(3);
const tests = readdirSync(here).filter(f => f.endsWith('_test.mjs') && (!names.length || names.includes(f.replace('_test.mjs', ''))));
let worst = 0;
for (const test of tests) {
    const env = {...process.env, GRIDLINE_BUILD_DIR: build, GRIDLINE_WEB_SHOTS: process.env.GRIDLINE_WEB_SHOTS ?? join(build, 'web-shots'), TZ: 'UTC'};
    const done = spawnSync(process.execPath, ['--test', '--test-reporter=spec', join(here, test)], {stdio: 'inherit', env});
    worst = Math.max(worst, done.status ?? 1);
}
process.exitCode = worst;
