import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    environment: "node",
    // Waits have deadlines that a loaded machine meets too.
    expect: { poll: { timeout: 10_000 } },
    testTimeout: 30_000,
    include: ["src/**/*.test.{ts,tsx}", "bridge/**/*.test.ts"],
  },
});
