import type { PageMessage } from "./messages";

export type StorageWrite = Extract<PageMessage, { t: "storage" }>;

/** Writes that may wait, and characters in them: a page that fills its whole quota key by key fits. */
const MOST_WAITING = 20_000;
const MOST_CHARACTERS = 8 * 1024 * 1024;

/**
 * Passes a page's storage writes on in order, one at a time. It belongs to the frame, not to one page load, so that
 * what a page wrote just before it reloaded still arrives. A later write of a key that still waits replaces it.
 */
export class StorageWriter {
  private readonly line: StorageWrite[] = [];
  private characters = 0;
  private running: Promise<void> | null = null;

  constructor(
    private readonly post: (write: StorageWrite) => Promise<void>,
    private readonly onError: (write: StorageWrite, message: string) => void,
  ) {}

  write(write: StorageWrite): void {
    const last = this.line.at(-1);
    if (last && last.which === write.which && last.key === write.key && last.op !== "clear" && write.op !== "clear") {
      this.characters += write.value.length - last.value.length;
      this.line[this.line.length - 1] = write;
    } else {
      const size = write.key.length + write.value.length;
      if (this.line.length >= MOST_WAITING || this.characters + size > MOST_CHARACTERS) {
        this.onError(write, "too many storage writes are waiting; this one was not kept");
        return;
      }
      this.line.push(write);
      this.characters += size;
    }
    this.running ??= this.run();
  }

  /** Resolves when nothing waits any more. */
  async flush(): Promise<void> {
    await this.running;
  }

  private async run(): Promise<void> {
    // A turn of the event loop, so that a burst of writes of one key becomes one.
    await Promise.resolve();
    for (let write = this.line.shift(); write; write = this.line.shift()) {
      this.characters -= write.key.length + write.value.length;
      try {
        await this.post(write);
      } catch (error) {
        this.onError(write, error instanceof Error ? error.message : String(error));
      }
    }
    this.running = null;
  }
}
