import { describe, expect, it } from "vitest";
import { EventStreamReader, readEventStream } from "./events";

const bytes = (text: string) => new TextEncoder().encode(text);

async function readInPieces(pieces: Uint8Array[]): Promise<string[]> {
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      for (const piece of pieces) controller.enqueue(piece);
      controller.close();
    },
  });
  const out: string[] = [];
  for await (const data of readEventStream(body)) out.push(data);
  return out;
}

describe("the engine's event stream", () => {
  it("reads the same events wherever the bytes are cut", async () => {
    const stream = bytes(
      ': ping\r\n\r\nid: 1\r\ndata:{"x":"日本🦋"}\r\n\r\ndata: a\ndata: b\n\ndata: c\r\rdata: cut off',
    );
    for (let cut = 0; cut <= stream.length; cut++) {
      const events = await readInPieces([stream.slice(0, cut), stream.slice(cut)]);
      expect(events, `cut at ${cut}`).toEqual(['{"x":"日本🦋"}', "a\nb", "c"]);
    }
  });

  it("does not keep an endless event", () => {
    const reader = new EventStreamReader();
    const megabyte = "x".repeat(1024 * 1024);
    expect(() => {
      for (let i = 0; i < 8; i++) reader.push(megabyte);
    }).toThrow(RangeError);
  });
});
