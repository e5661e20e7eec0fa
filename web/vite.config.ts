import { defineConfig } from 'vitest/config';

// Everything is relative, so that the server may serve the interface below any path prefix.
// The browsers named here have `light-dark()`, constructable style sheets and `AbortSignal.any`.
export default defineConfig({
  base: './',
  build: {
    target: ['chrome123', 'firefox128', 'safari17.5'],
    cssTarget: ['chrome123', 'firefox128', 'safari17.5'],
    sourcemap: false,
    // The CSP allows `data:` for images only; everything else has to be a file.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    chunkSizeWarningLimit: 700,
  },
  test: { include: ['test/unit/**/*.test.ts'], environment: 'node', pool: 'threads', css: true },
});
