import { defineConfig } from "vitest/config";

export default defineConfig({
  // The app's address differs from door to door.
  base: "./",
  build: {
    outDir: "dist",
    emptyOutDir: true,
    target: "es2022",
    assetsInlineLimit: 0,
    modulePreload: false,
  },
  test: {
    environment: "node",
    include: ["test/**/*.test.ts"],
  },
});
