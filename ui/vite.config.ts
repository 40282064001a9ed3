import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

// The launcher. `ui/bridge` has its own configuration and its own output folder.
export default defineConfig({
  plugins: [react()],
  build: {
    outDir: "dist",
    emptyOutDir: true,
    target: "es2022",
    // The policy allows no inline script, and small files as data: addresses would only grow the script.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    sourcemap: false,
  },
});
