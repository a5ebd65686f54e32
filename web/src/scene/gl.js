/* gl.js - draws batches (records.js) with WebGL2: one context, one draw call a layer.
 *
 * Records of a layer lie in one texture, which each batch has whole rows of; a vertex finds its record by its own number. So what is on the GPU stays there
 * until its batch goes, and a frame sends only the slots: two texels for each batch that say where its times and heights are on the
 * canvas. (Instances would be the usual way; software renderers draw each as a call of its own, ten times slower.) A time is 32 bits: the shader takes
 * it apart, subtracts the slot's beginning exactly, and only the rest is single precision.
 *
 * When the context is lost everything is made again when it is back. What is lost three times is given up: onLost, and the page draws flat. */
import {LAYERS, WORDS, SLOTS, COLOURS, placeOf, isInView} from './records.js';

const WIDTH = 512;       /* records a row */
const THICK_MAX = 60000; /* above, lines are single pixels */
const THICK_MAX_SOFTWARE = 2500;
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

/* The records of one layer: rows of a texture, given out to batches. Rows that are free again are zero: slot 0. */
class Layer {
    constructor(gl, max)
    {
        Object.assign(this, {gl, max, texture: null, height: 0, high: 0, used: 0, free: [], regions: new Map()});
    }

    upload(row, rows, records)
    {
        const gl = this.gl;
        const words = records && records.n === rows * WIDTH ? records.words : new Uint32Array(rows * WIDTH * WORDS);
        if (records && words !== records.words)
            words.set(records.words.subarray(0, records.n * WORDS));
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
        this.upload(region.row, region.rows, null);
        this.free.push({row: region.row, rows: region.rows});
        if (this.high > 16 && this.used * 2 < this.high)
            this.resize(this.used);
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
    const info = gl.getExtension('WEBGL_debug_renderer_info');
    const isSoftware = /swiftshader|llvmpipe|software/i.test(info ? gl.getParameter(info.UNMASKED_RENDERER_WEBGL) : '');
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

    const setSlots = view => {
        slotWords.fill(0);
        for (const [batch, slot] of slots) {
            if (!isInView(batch, view))
                continue;
            const p = placeOf(batch, view), at = slot * 8;
            slotWords.set([Math.floor(p.t0 / 65536), p.t0 % 65536, p.perUnit, p.x0, p.top, p.height, p.wide, 1], at);
        }
        gl.activeTexture(gl.TEXTURE1);
        gl.bindTexture(gl.TEXTURE_2D, slotTexture);
        gl.texSubImage2D(gl.TEXTURE_2D, 0, 0, 0, 2, SLOTS, gl.RGBA, gl.FLOAT, slotWords);
    };

    const drawLayer = (layer, {program, uniforms, per}, mode, view) => {
        if (!layer.used)
            return;
        gl.useProgram(program);
        gl.activeTexture(gl.TEXTURE0);
        gl.bindTexture(gl.TEXTURE_2D, layer.texture);
        gl.uniform1i(uniforms.u_records, 0);
        gl.uniform1i(uniforms.u_slots, 1);
        gl.uniform1i(uniforms.u_colours, 2);
        gl.uniform2f(uniforms.u_size, view.width, view.height);
        gl.uniform1f(uniforms.u_dpr, view.dpr);
        gl.drawArrays(mode, 0, layer.high * WIDTH * per);
        stats.calls++;
    };

    const draw = (batches, view, table) => {
        if (isLost || isClosed)
            return false;
        if (table !== colours)
            setColours(table);
        sync(batches);
        setSlots(view);
        stats.calls = 0;
        gl.viewport(0, 0, canvas.width, canvas.height);
        gl.clearColor(0, 0, 0, 0);
        gl.clear(gl.COLOR_BUFFER_BIT);
        drawLayer(layers.quads, programs.quad, gl.TRIANGLES, view);
        const isThick = layers.lines.used * WIDTH <= (isSoftware ? THICK_MAX_SOFTWARE : THICK_MAX);
        if (isThick)
            drawLayer(layers.lines, programs.thick, gl.TRIANGLES, view);
        else
            drawLayer(layers.lines, programs.thin, gl.LINES, view);
        drawLayer(layers.top, programs.thick, gl.TRIANGLES, view);
        drawLayer(layers.points, programs.point, gl.POINTS, view);
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
        name: 'webgl', isSoftware, stats, draw,
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
