import { describe, expect, it } from "vitest";
import { pageMayUse } from "./access";

// Written by hand from the contract (section 5.3), not from the table.
const may: [string, string][] = [
  ["GET", "/v1/models"],
  ["HEAD", "/v1/models"],
  ["GET", "/v1/settings/connections"],
  ["GET", "/v1/assets"],
  ["PUT", "/v1/assets"],
  ["GET", "/v1/assets/abc"],
  ["GET", "/v1/events"],
  ["GET", "/v1/apps/chat/conversations"],
  ["DELETE", "/v1/apps/chat/conversations/1"],
  ["POST", "/v1/apps/chat/__storage"],
  ["GET", "/v1/apps/chat/export/backup"],
  ["GET", "/v1/apps/chat/treehouse"],
];
const mayNot: [string, string][] = [
  ["GET", "/v1/me"],
  ["GET", "/v1/apps"],
  ["GET", "/v1/apps/"],
  ["DELETE", "/v1/apps/chat"],
  ["GET", "/v1/apps/other/conversations"],
  ["GET", "/v1/apps/%6fther/conversations"],
  ["GET", "/v1/apps/chat/plugins"],
  ["GET", "/v1/apps/chat/%70lugins"],
  ["POST", "/v1/apps/chat/plugins/x/enable"],
  ["POST", "/v1/apps/chat/frame"],
  ["GET", "/v1/apps/chat//plugins"],
  ["GET", "/v1/apps/chat%2f..%2fother/x"],
  ["POST", "/v1/models"],
  ["PUT", "/v1/settings"],
  ["POST", "/v1/settings/connections"],
  ["GET", "/v1/activity"],
  ["POST", "/v1/auth/login"],
  ["GET", "/V1/models"],
  ["GET", "/v1/%"],
  ["GET", "/v1/assets/"],
];

describe("the shell's table", () => {
  it.each(may)("lets a page %s %s", (method, path) => {
    expect(pageMayUse("chat", method, path)).toBe(true);
  });
  it.each(mayNot)("does not let a page %s %s", (method, path) => {
    expect(pageMayUse("chat", method, path)).toBe(false);
  });
});
