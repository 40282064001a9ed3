import { Blob, utf8 } from "./natives";

export interface Multipart {
  type: string;
  body: Blob;
}

/**
 * A form as `multipart/form-data`. Done here since WebKit cannot read files of a form back out of a Request in a page
 * of this kind ("Unable to read form data blob").
 */
export function multipart(form: FormData): Multipart {
  const random = [...crypto.getRandomValues(new Uint32Array(4))].map((part) => part.toString(36)).join("");
  const boundary = `----ChrysalisForm${random}`;
  const parts: BlobPart[] = [];
  for (const [name, value] of form) {
    let head = `--${boundary}\r\nContent-Disposition: form-data; name="${quoted(lines(name))}"`;
    if (typeof value === "string") parts.push(utf8(`${head}\r\n\r\n${lines(value)}\r\n`));
    else {
      head += `; filename="${quoted(value.name)}"\r\nContent-Type: ${value.type || "application/octet-stream"}`;
      parts.push(utf8(`${head}\r\n\r\n`), value, utf8("\r\n"));
    }
  }
  parts.push(utf8(`--${boundary}--\r\n`));
  return { type: `multipart/form-data; boundary=${boundary}`, body: new Blob(parts) };
}

/** Line ends as forms have them. */
function lines(text: string): string {
  return text.replace(/\r\n?|\n/g, "\r\n");
}

function quoted(text: string): string {
  return text.replaceAll("\r", "%0D").replaceAll("\n", "%0A").replaceAll('"', "%22");
}
