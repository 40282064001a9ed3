import { defineConfig } from "vite";

// The page bridge: one classic script without dependencies, `ui/dist-bridge/bridge.js`. Run from `ui/`.
export default defineConfig({
  publicDir: false,
  build: {
    outDir: "dist-bridge",
    emptyOutDir: true,
    target: "es2022",
    minify: true,
    sourcemap: false,
    lib: {
      entry: "bridge/src/main.ts",
      formats: ["iife"],
      name: "chrysalisBridge",
      fileName: () => "bridge.js",
    },
  },
});
