/** A bucket that fills at `perSecond` up to `most`. Time is passed in, in milliseconds. */
export class Bucket {
  private level: number;
  private last: number;

  constructor(
    private readonly perSecond: number,
    private readonly most: number,
    now: number,
  ) {
    this.level = most;
    this.last = now;
  }

  has(n: number, now: number): boolean {
    this.level = Math.min(this.most, this.level + ((now - this.last) / 1000) * this.perSecond);
    this.last = now;
    return this.level >= n;
  }

  /** Takes `n`, which `has` has just found. */
  take(n: number): void {
    this.level -= n;
  }

  /** Milliseconds until `n` will be there. */
  wait(n: number): number {
    return Math.max(0, ((n - this.level) / this.perSecond) * 1000);
  }
}

export interface PaceLimits {
  /** Messages per second in the long run, and at once. The bridge acknowledges in steps and paces storage writes itself. */
  perSecond: number;
  burst: number;
  /** Characters per second in the long run, and at once: a body of 32 MiB is 43 Mi characters of base64. */
  charactersPerSecond: number;
  characterBurst: number;
  /** Messages, and characters in them, that may wait while the page is paused. More, and it is stopped. */
  backlog: number;
  backlogCharacters: number;
}

export const PACE: PaceLimits = {
  perSecond: 2_000,
  burst: 1_500,
  charactersPerSecond: 64 * 1024 * 1024,
  characterBurst: 192 * 1024 * 1024,
  backlog: 2_500,
  backlogCharacters: 64 * 1024 * 1024,
};

/**
 * Lets messages through at a pace. Those over it wait in a bounded line (the page is paused: nothing it says is acted
 * on sooner); when the line is full the page is flooding and `onFlood` is told once.
 */
export class Pace<T> {
  private readonly messages: Bucket;
  private readonly characters: Bucket;
  private waiting = 0;
  private line: { message: T; size: number }[] = [];
  private timer: ReturnType<typeof setTimeout> | null = null;
  private stopped = false;

  constructor(
    private readonly deliver: (message: T) => void,
    private readonly onFlood: () => void,
    private readonly limits: PaceLimits = PACE,
    private readonly now: () => number = () => performance.now(),
  ) {
    this.messages = new Bucket(limits.perSecond, limits.burst, now());
    this.characters = new Bucket(limits.charactersPerSecond, limits.characterBurst, now());
  }

  get paused(): boolean {
    return this.line.length > 0;
  }

  push(message: T, size: number): void {
    if (this.stopped) return;
    if (this.line.length === 0 && this.pass(size)) {
      this.deliver(message);
    } else if (this.line.length >= this.limits.backlog || this.waiting + size > this.limits.backlogCharacters) {
      this.stop();
      this.onFlood();
    } else {
      this.line.push({ message, size });
      this.waiting += size;
      this.later();
    }
  }

  stop(): void {
    this.stopped = true;
    this.line = [];
    if (this.timer !== null) clearTimeout(this.timer);
    this.timer = null;
  }

  private pass(size: number): boolean {
    const now = this.now();
    if (!this.characters.has(size, now) || !this.messages.has(1, now)) return false;
    this.characters.take(size);
    this.messages.take(1);
    return true;
  }

  private later(): void {
    const first = this.line[0];
    if (this.timer !== null || !first) return;
    const wait = Math.max(this.messages.wait(1), this.characters.wait(first.size), 20);
    this.timer = setTimeout(() => {
      this.timer = null;
      let taken = 0;
      for (const { message, size } of this.line) {
        if (!this.pass(size)) break;
        taken += 1;
        this.waiting -= size;
        this.deliver(message);
        if (this.stopped) return;
      }
      this.line.splice(0, taken);
      this.later();
    }, wait);
  }
}
