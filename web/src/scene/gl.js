/* gl.js - draws batches (records.js) with WebGL2: one context, a draw call a layer, or a few where what is in view is not in one piece.
 *
 * Records of a layer lie in one texture, which each batch has whole rows of; a vertex finds its record by its own number. So what is on the GPU stays there
 * until its batch goes, and a frame sends only the slots: two texels for each batch that say where its times and heights are on the
 * canvas. (Instances would be the usual way; software renderers draw each as a call of its own, ten times slower.) A time is 32 bits: the shader takes
 * it apart, subtracts the slot's beginning exactly, and only the rest is single precision.
 *
 * When the context is lost everything is made again when it is back. What is lost three times is given up: onLost, and the page draws flat. */
import {isSoftware} from '../gpu.js';
import {THICK_MAX_SOFTWARE} from './flat.js';
import {LAYERS, WORDS, SLOTS, COLOURS, placeOf, isInView} from './records.js';

const WIDTH = 512;       /* records a row */
const THICK_MAX = 60000; /* above, lines are single pixels */
const LOSSES_MAX = 3;

const COMMON = `#version 300 es
precision highp float; precision highp int; precision highp usampler2D; precision highp sampler2D;
uniform usampler2D u_records; uniform sampler2D u_slots; uniform sampler2D u_colours;
uniform vec2 u_size; uniform float u_dpr;
flat out vec4 v_colour;
vec4 g_time, g_place; uvec4 g_record; uint g_style;
bool load(int number) {
    g_record = texelFetch(u_records, ivec2(number & ${WIDTH - 1}, number / ${WIDTH}), 0);
    int slot = int(g_record.w & 1023u);
    g_time = texelFetch(u_slots, ivec2(0, slot), 0);
    g_place = texelFetch(u_slots, ivec2(1, slot), 0);
    g_style = g_record.w >> 25;
    vec3 colour = texelFetch(u_colours, ivec2(int(g_record.w >> 10 & 511u), 0), 0).rgb;
    float alpha = float(g_record.w >> 19 & 63u) / 63.0;
    v_colour = vec4(colour * alpha, alpha);
    return slot != 0 && g_place.w != 0.0;
}
float x_of(uint t) {
    return (float(t >> 16) - g_time.x) * 65536.0 * g_time.z + (float(t & 65535u) - g_time.y) * g_time.z + g_time.w;
}
float y_of(uint part) { return g_place.x + float(part) / 65535.0 * g_place.y; }
vec2 end_of(int end) {
    return end == 0 ? vec2(x_of(g_record.x), y_of(g_record.z & 65535u)) : vec2(x_of(g_record.y), y_of(g_record.z >> 16));
}
vec4 at(vec2 px) { return vec4(px.x / u_size.x * 2.0 - 1.0, 1.0 - px.y / u_size.y * 2.0, 0.0, 1.0); }
const vec4 NOWHERE = vec4(2.0, 2.0, 2.0, 1.0);
const ivec2 CORNERS[6] = ivec2[6](ivec2(0, 0), ivec2(1, 0), ivec2(0, 1), ivec2(0, 1), ivec2(1, 0), ivec2(1, 1));
`;

const FRAGMENT = `#version 300 es
precision highp float;
flat in vec4 v_colour; out vec4 o_colour;
`;

const SHADERS = {
    thin: {per: 2, vertex: `
void main() {
    gl_Position = load(gl_VertexID >> 1) ? at(end_of(gl_VertexID & 1)) : NOWHERE;
}`, fragment: 'void main() { o_colour = v_colour; }'},
    thick: {per: 6, vertex: `
out float v_side; flat out float v_half;
void main() {
    if (!load(gl_VertexID / 6)) { gl_Position = NOWHERE; return; }
    ivec2 corner = CORNERS[gl_VertexID % 6];
    vec2 a = end_of(0), b = end_of(1);
    vec2 along = b - a;
    float far = length(along);
    vec2 normal = far > 0.0 ? vec2(-along.y, along.x) / far : vec2(1.0, 0.0);
    v_half = max(0.5, float(g_style) * 0.25) * u_dpr;
    float reach = v_half + 0.5;
    v_side = (float(corner.y) * 2.0 - 1.0) * reach;
    gl_Position = at((corner.x == 0 ? a : b) + normal * v_side / u_dpr);
}`, fragment: `
in float v_side; flat in float v_half;
void main() { o_colour = v_colour * clamp(v_half + 0.5 - abs(v_side), 0.0, 1.0); }`},
    quad: {per: 6, vertex: `
void main() {
    if (!load(gl_VertexID / 6)) { gl_Position = NOWHERE; return; }
    ivec2 corner = CORNERS[gl_VertexID % 6];
    vec2 p = end_of(corner.x);
    p.x += float(corner.y) * max(g_place.z, 1.0);
    if (corner.x == 1 && abs(y_of(g_record.z & 65535u) - p.y) < 1.0) p.y += 1.0;
    gl_Position = at(p);
}`, fragment: 'void main() { o_colour = v_colour; }'},
    point: {per: 1, vertex: `
flat out int v_shape; flat out float v_px;
void main() {
    if (!load(gl_VertexID)) { gl_Position = NOWHERE; return; }
    v_shape = int(g_style & 7u);
    v_px = float(g_style >> 3) * u_dpr;
    gl_PointSize = v_px + 2.0;
    gl_Position = at(end_of(0));
}`, fragment: `
flat in int v_shape; flat in float v_px;
float shape(vec2 p) { /* how far within, in half sizes; p is −1 … 1 */
    vec2 q = abs(p);
    if (v_shape == 1) return 0.22 - abs(length(p) - 0.75);
    if (v_shape == 2) return 1.0 - (q.x + q.y);
    if (v_shape == 3) return min((p.y + 1.0) * 0.5 - q.x, 0.9 - p.y);
    if (v_shape == 4) return min(0.27 - abs(q.x - q.y) * 0.7071, 0.95 - max(q.x, q.y));
    if (v_shape == 5) return min(0.2 - q.x, 1.0 - q.y);
    return 1.0 - length(p);
}
void main() {
    vec2 p = (gl_PointCoord * 2.0 - 1.0) * (v_px + 2.0) / v_px;
    float within = clamp(shape(p) * v_px * 0.5 + 0.5, 0.0, 1.0);
    if (within <= 0.0) discard;
    o_colour = v_colour * within;
}`},
};

function compile(gl, {vertex, fragment})
{
    const program = gl.createProgram();
    for (const [type, text] of [[gl.VERTEX_SHADER, COMMON + vertex], [gl.FRAGMENT_SHADER, FRAGMENT + fragment]]) {
        const shader = gl.createShader(type);
        gl.shaderSource(shader, text);
        gl.compileShader(shader);
        gl.attachShader(program, shader);
    }
    gl.linkProgram(program);
    if (!gl.getProgramParameter(program, gl.LINK_STATUS) && !gl.isContextLost())
        throw new Error('shader: ' + gl.getAttachedShaders(program).map(s => gl.getShaderInfoLog(s)).join(' '));
    const uniforms = Object.fromEntries(['u_records', 'u_slots', 'u_colours', 'u_size', 'u_dpr'].map(n => [n, gl.getUniformLocation(program, n)]));
    return {program, uniforms};
}

function texture(gl, unit)
{
    const t = gl.createTexture();
    gl.activeTexture(gl.TEXTURE0 + unit);
    gl.bindTexture(gl.TEXTURE_2D, t);
    for (const side of [gl.TEXTURE_MIN_FILTER, gl.TEXTURE_MAG_FILTER])
        gl.texParameteri(gl.TEXTURE_2D, side, gl.NEAREST);
    return t;
}

/* The records of one layer: rows of a texture, given out to batches. What is left of the last row is zero: slot 0. Rows that are free keep what they
 * had: nobody draws them. */
class Layer {
    constructor(gl, max)
    {
        Object.assign(this, {gl, max, texture: null, height: 0, high: 0, used: 0, free: [], regions: new Map()});
    }

    /* The rows of these batches, in as few pieces as they lie in, and how many records: {runs: [{row, rows}], n}. */
    runsOf(batches)
    {
        const regions = batches.flatMap(b => this.regions.get(b) ?? []).sort((a, b) => a.row - b.row);
        const runs = [];
        let n = 0;
        for (const {row, rows, records} of regions) {
            const last = runs.at(-1);
            if (last && last.row + last.rows === row)
                last.rows += rows;
            else
                runs.push({row, rows});
            n += records.n;
        }
        return {runs, n};
    }

    upload(row, rows, records)
    {
        const gl = this.gl;
        let words = records.words;
        if (records.n !== rows * WIDTH) {
            words = new Uint32Array(rows * WIDTH * WORDS);
            words.set(records.words.subarray(0, records.n * WORDS));
        }
        gl.activeTexture(gl.TEXTURE0);
        gl.bindTexture(gl.TEXTURE_2D, this.texture);
        gl.texSubImage2D(gl.TEXTURE_2D, 0, 0, row, WIDTH, rows, gl.RGBA_INTEGER, gl.UNSIGNED_INT, words);
    }

    add(batch, records)
    {
        const rows = Math.ceil(records.n / WIDTH);
        if (!rows)
            return;
        const gap = this.free.findIndex(f => f.rows >= rows);
        let row = this.high;
        if (gap >= 0) {
            const f = this.free[gap];
            row = f.row;
            f.row += rows;
            f.rows -= rows;
            if (!f.rows)
                this.free.splice(gap, 1);
        } else {
            if (this.high + rows > this.height)
                this.resize(this.high + rows);
            if (this.high + rows > this.height)
                return; /* larger than a texture can be: 4 million records */
            this.high += rows;
        }
        this.used += rows;
        this.regions.set(batch, {row, rows, records});
        this.upload(row, rows, records);
    }

    remove(batch)
    {
        const region = this.regions.get(batch);
        if (!region)
            return;
        this.regions.delete(batch);
        this.used -= region.rows;
        this.release(region);
        if (this.high > 16 && this.used * 2 < this.high)
            this.resize(this.used);
    }

    /* Free rows that touch are one piece, and those at the end are none: what comes next lies in one piece. */
    release({row, rows})
    {
        const free = [];
        for (const f of [...this.free, {row, rows}].sort((a, b) => a.row - b.row)) {
            const last = free.at(-1);
            if (last && last.row + last.rows === f.row)
                last.rows += f.rows;
            else
                free.push(f);
        }
        if (free.at(-1).row + free.at(-1).rows === this.high)
            this.high = free.pop().row;
        this.free = free;
    }

    /* A texture that has room for so many rows, and everything in it anew, without gaps. */
    resize(rows)
    {
        const gl = this.gl;
        let height = 16;
        while (height < rows)
            height *= 2;
        height = Math.min(height, this.max);
        gl.deleteTexture(this.texture);
        this.texture = texture(gl, 0);
        gl.texStorage2D(gl.TEXTURE_2D, 1, gl.RGBA32UI, WIDTH, height);
        this.height = height;
        this.high = 0;
        this.free = [];
        for (const region of this.regions.values()) {
            region.row = this.high;
            this.high += region.rows;
            this.upload(region.row, region.rows, region.records);
        }
    }
}

/* Draws on the canvas; null where there is no WebGL2. onLost: the context went for good. onRestored: draw again. */
export function createGl(canvas, {onLost = () => {}, onRestored = () => {}} = {})
{
    const gl = canvas.getContext('webgl2', {alpha: true, antialias: false, premultipliedAlpha: true});
    if (!gl)
        return null;
    const isPlayed = isSoftware(gl);
    let programs, layers, slotTexture, colourTexture, colours = null, slots = new Map(), freeSlots, losses = 0, isLost = false, isClosed = false;
    const slotWords = new Float32Array(SLOTS * 8);
    const stats = {calls: 0, losses: 0};

    const start = () => {
        programs = Object.fromEntries(Object.entries(SHADERS).map(([name, s]) => [name, {...compile(gl, s), per: s.per}]));
        const max = Math.min(8192, gl.getParameter(gl.MAX_TEXTURE_SIZE));
        layers = Object.fromEntries(LAYERS.map(name => [name, new Layer(gl, max)]));
        slotTexture = texture(gl, 1);
        gl.texStorage2D(gl.TEXTURE_2D, 1, gl.RGBA32F, 2, SLOTS);
        colourTexture = texture(gl, 2);
        gl.texStorage2D(gl.TEXTURE_2D, 1, gl.RGBA8, COLOURS, 1);
        gl.bindVertexArray(gl.createVertexArray());
        gl.enable(gl.BLEND);
        gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
        slots = new Map();
        freeSlots = Array.from({length: SLOTS - 1}, (_, i) => SLOTS - 1 - i);
        colours = null;
    };

    const setColours = table => {
        colours = table;
        const bytes = new Uint8Array(COLOURS * 4);
        table.forEach((c, i) => {
            for (let k = 0; k < 3; k++)
                bytes[i * 4 + k] = parseInt(c.slice(1 + 2 * k, 3 + 2 * k), 16);
            bytes[i * 4 + 3] = 255;
        });
        gl.activeTexture(gl.TEXTURE2);
        gl.bindTexture(gl.TEXTURE_2D, colourTexture);
        gl.texSubImage2D(gl.TEXTURE_2D, 0, 0, 0, COLOURS, 1, gl.RGBA, gl.UNSIGNED_BYTE, bytes);
    };

    const drop = batch => {
        freeSlots.push(slots.get(batch));
        slots.delete(batch);
        LAYERS.forEach(name => layers[name].remove(batch));
    };

    const sync = batches => {
        const now = new Set(batches);
        for (const batch of [...slots.keys()]) {
            if (!now.has(batch))
                drop(batch);
        }
        for (const batch of batches) {
            if (slots.has(batch) || !freeSlots.length)
                continue;
            const slot = freeSlots.pop();
            slots.set(batch, slot);
            for (const name of LAYERS) {
                batch[name].setSlot(slot);
                layers[name].add(batch, batch[name]);
            }
        }
    };

    /* Returns the batches that are in view. */
    const setSlots = view => {
        const seen = [...slots.keys()].filter(batch => isInView(batch, view));
        slotWords.fill(0);
        for (const batch of seen) {
            const p = placeOf(batch, view), at = slots.get(batch) * 8;
            slotWords.set([Math.floor(p.t0 / 65536), p.t0 % 65536, p.perUnit, p.x0, p.top, p.height, p.wide, 1], at);
        }
        gl.activeTexture(gl.TEXTURE1);
        gl.bindTexture(gl.TEXTURE_2D, slotTexture);
        gl.texSubImage2D(gl.TEXTURE_2D, 0, 0, 0, 2, SLOTS, gl.RGBA, gl.FLOAT, slotWords);
        return seen;
    };

    const drawRuns = (layer, runs, {program, uniforms, per}, mode, view) => {
        if (!runs.length)
            return;
        gl.useProgram(program);
        gl.activeTexture(gl.TEXTURE0);
        gl.bindTexture(gl.TEXTURE_2D, layer.texture);
        gl.uniform1i(uniforms.u_records, 0);
        gl.uniform1i(uniforms.u_slots, 1);
        gl.uniform1i(uniforms.u_colours, 2);
        gl.uniform2f(uniforms.u_size, view.width, view.height);
        gl.uniform1f(uniforms.u_dpr, view.dpr);
        for (const {row, rows} of runs)
            gl.drawArrays(mode, row * WIDTH * per, rows * WIDTH * per);
        stats.calls += runs.length;
    };

    const draw = (batches, view, table) => {
        if (isLost || isClosed)
            return false;
        if (table !== colours)
            setColours(table);
        sync(batches);
        const seen = setSlots(view), of = name => layers[name].runsOf(seen);
        stats.calls = 0;
        gl.viewport(0, 0, canvas.width, canvas.height);
        gl.clearColor(0, 0, 0, 0);
        gl.clear(gl.COLOR_BUFFER_BIT);
        const lines = of('lines'), isThick = lines.n <= (isPlayed ? THICK_MAX_SOFTWARE : THICK_MAX);
        drawRuns(layers.quads, of('quads').runs, programs.quad, gl.TRIANGLES, view);
        drawRuns(layers.lines, lines.runs, isThick ? programs.thick : programs.thin, isThick ? gl.TRIANGLES : gl.LINES, view);
        drawRuns(layers.top, of('top').runs, programs.thick, gl.TRIANGLES, view);
        drawRuns(layers.points, of('points').runs, programs.point, gl.POINTS, view);
        return true;
    };

    const lost = e => {
        e.preventDefault();
        isLost = true;
        stats.losses = ++losses;
        if (losses >= LOSSES_MAX)
            onLost();
    };
    const restored = () => {
        if (isClosed)
            return;
        isLost = false;
        start();
        onRestored();
    };
    canvas.addEventListener('webglcontextlost', lost);
    canvas.addEventListener('webglcontextrestored', restored);
    try {
        start();
    } catch (e) {
        if (!gl.isContextLost())
            throw e;
        isLost = true;
    }
    return {
        name: 'webgl', isSoftware: isPlayed, stats, draw,
        finish: () => { gl.readPixels(0, 0, 1, 1, gl.RGBA, gl.UNSIGNED_BYTE, new Uint8Array(4)); }, /* gl.finish() does not wait in browsers */
        close: () => {
            isClosed = true;
            canvas.removeEventListener('webglcontextlost', lost);
            canvas.removeEventListener('webglcontextrestored', restored);
            if (!isLost) {
                LAYERS.forEach(name => gl.deleteTexture(layers[name].texture));
                gl.getExtension('WEBGL_lose_context')?.loseContext(); /* browsers have few contexts */
            }
        },
    };
}
