/* dev.mjs - serves a built viewer and passes /api on to a gateway, with the owner's token:
 *
 *     node web/dev.mjs --gateway http://127.0.0.1:14831 --token-file RUN/http.token --dir web/dist --port 8000
 *
 * For working on the viewer beside a gateway that has another one in it. Loopback only; it lets everybody on this host in. */
import {createServer, request} from 'node:http';
import {readFileSync} from 'node:fs';
import {extname, join, normalize} from 'node:path';

function argument(name, fallback)
{
    const i = process.argv.indexOf(name);
    return i < 0 ? fallback : process.argv[i + 1];
}

const gateway = new URL(argument('--gateway', 'http://127.0.0.1:14831'));
const token = argument('--token-file') ? readFileSync(argument('--token-file'), 'utf8').trim() : null;
const dir = argument('--dir', 'web/dist');
const TYPES = {'.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css'};
const CSP = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; frame-ancestors 'none'; "
          + "base-uri 'none'; form-action 'self'; require-trusted-types-for 'script'; trusted-types 'none'";

function pass(req, res)
{
    const headers = {...req.headers, host: gateway.host};
    delete headers.origin;
    delete headers.referer;
    if (token)
        headers.authorization = 'Bearer ' + token;
    const up = request({host: gateway.hostname, port: gateway.port, path: req.url, method: req.method, headers}, answer => {
        res.writeHead(answer.statusCode, answer.headers);
        answer.pipe(res);
    });
    up.on('error', () => res.headersSent ? res.destroy() : res.writeHead(502).end());
    res.on('close', () => up.destroy());
    req.pipe(up);
}

function file(req, res)
{
    const path = normalize(new URL(req.url, 'http://x').pathname);
    const name = path === '/' ? 'index.html' : path;
    try {
        const content = readFileSync(join(dir, name));
        res.writeHead(200, {'Content-Type': TYPES[extname(name)] ?? 'application/octet-stream', 'Content-Security-Policy': CSP, 'Cache-Control': 'no-cache'});
        res.end(content);
    } catch {
        res.writeHead(404).end('not there\n');
    }
}

const server = createServer((req, res) => /^\/(api|metrics|livez|readyz)/.test(req.url) ? pass(req, res) : file(req, res));
server.listen(Number(argument('--port', 8000)), '127.0.0.1', () => console.log(`http://127.0.0.1:${server.address().port}/`));
