// Signs that stand beside a word. They are never alone, so a screen reader is not told of them.

const PATHS = {
  allowed: "M3.5 8.5l3 3 6-7",
  asked: "M6 6a2 2 0 1 1 2.6 1.9c-.4.2-.6.5-.6 1V9.500M8 12v.1",
  refused: "M4.500 4.500l7 7M11.500 4.500l-7 7",
  changed: "M8 3v6M8 12v.1",
  locked: "M4.500 7.500h7v5h-7zM6 7.500V5.500a2 2 0 0 1 4 0v2",
  here: "M2.500 8L8 3l5.500 5M4.500 7v5.500h7V7",
  connection: "M5 11l6-6M6.500 5H11v4.500",
  model: "M8 3l1.300 3.700L13 8l-3.700 1.300L8 13l-1.300-3.700L3 8l3.700-1.300z",
  tool: "M10.500 3a3 3 0 0 0-2.800 4L3 11.700 4.300 13 9 8.300a3 3 0 0 0 4-2.800l-1.800.800-1.500-1.500z",
  stop: "M4.500 4.500h7v7h-7z",
  error: "M8 3L2.500 12.500h11zM8 7v2.500M8 11v.1",
  other: "M8 8v.1M4 8v.1M12 8v.1",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name }: { name: IconName }) {
  return (
    <svg className="sign" viewBox="0 0 16 16" aria-hidden="true">
      <path d={PATHS[name]} />
    </svg>
  );
}
