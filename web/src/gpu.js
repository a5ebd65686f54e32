/* gpu.js - is there a graphics processor? Without one a browser has no WebGL, or plays it (SwiftShader, llvmpipe), several times slower than what
 * scene/flat.js and a canvas in main memory do. Asked once: contexts are few. */

let isPlayed = null;

export const isSoftware = gl => {
    const info = gl.getExtension('WEBGL_debug_renderer_info');
    return /swiftshader|llvmpipe|software|basic render/i.test(info ? gl.getParameter(info.UNMASKED_RENDERER_WEBGL) : '');
};

export function hasNoGpu()
{
    if (isPlayed === null) {
        const gl = document.createElement('canvas').getContext('webgl2');
        isPlayed = !gl || isSoftware(gl);
        gl?.getExtension('WEBGL_lose_context')?.loseContext();
    }
    return isPlayed;
}
