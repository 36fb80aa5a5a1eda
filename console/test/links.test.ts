import assert from "node:assert/strict";
import { test } from "node:test";
import { safeLink } from "../src/markdown/links.ts";
import { backoffMs, Cursors } from "../../clients/typescript/src/cursors.ts";
import { duration, money, wordCount } from "../src/words/format.ts";

test("only addresses of the web and of mail are followed", () => {
  for (const href of ["https://a.org/x", "http://a.org", "mailto:a@b.org"]) assert.ok(safeLink(href), href);
  const hostile = ["javascript:alert(1)", " JaVaScRiPt:alert(1)", "data:text/html,x", "vbscript:x", "file:///etc/passwd", "//x", "/v1/keys",
    "https://user:pass@a.org", "blob:https://a.org/1", "\u0001javascript:alert(1)", "java\nscript:alert(1)"];
  for (const href of hostile) assert.equal(safeLink(href), undefined, href);
});

const frame = (cursor: number) => ({ type: "text_delta", timestamp: 1, data: {}, context: { sessionId: "s" }, cursor: String(cursor) });

test("an event is taken once, and a new connection continues after it", () => {
  const cursors = new Cursors();
  cursors.open("s");
  assert.equal(cursors.accept(frame(3)), false, "its history is being read");
  assert.deepEqual(cursors.subscriptions(), []);
  cursors.follow("s", 4);
  assert.deepEqual([4, 5, 5, 6, 3].map((cursor) => cursors.accept(frame(cursor))), [false, true, false, true, false]);
  assert.deepEqual(cursors.subscriptions(), [{ type: "subscribe", sessionId: "s", afterCursor: "6", deltas: true }]);
  cursors.open("s");
  cursors.follow("s", 20);
  assert.equal(cursors.accept(frame(20)), false);
});

test("a session that was left is heard as a part of its container", () => {
  const cursors = new Cursors();
  assert.deepEqual(cursors.list("c"), { type: "subscribe", containerId: "c", deltas: false });
  assert.equal(cursors.list("c"), undefined);
  cursors.open("s");
  assert.deepEqual(cursors.leave("s"), { type: "unsubscribe", sessionId: "s" });
  cursors.follow("s", 4);
  assert.equal(cursors.accept(frame(1)), true);
  assert.deepEqual(cursors.subscriptions(), [{ type: "subscribe", containerId: "c", deltas: false }]);
});

test("attempts to connect are spread and bounded", () => {
  assert.equal(backoffMs(0, 0.5), 500);
  assert.ok(backoffMs(3, 0) < backoffMs(3, 1));
  assert.ok(backoffMs(50, 1) <= 19_500);
});

test("money shows what it is, however little", () => {
  assert.equal(money(0), "$0");
  assert.equal(money(3_812_000), "$0.003812");
  assert.equal(money(1), "$0.000000001");
  assert.equal(money(371_790_000_000), "$371.79");
  assert.equal(money(-2_500_000_000), "−$2.50");
  assert.equal(duration(842), "842 ms");
  assert.equal(duration(61_000), "1 min 1 s");
  assert.equal(duration(59_960), "1 min 0 s");
  assert.equal(duration(119_700), "2 min 0 s");
});

test("the words of an answer are counted, and the characters of one that is written without spaces", () => {
  assert.equal(wordCount("Don't **stop**, piece-2!"), 3);
  assert.equal(wordCount("每个游标只出现一次。"), 9);
  assert.equal(wordCount("用 AgentVM 2 次"), 4);
  assert.equal(wordCount(" — "), 0);
});
