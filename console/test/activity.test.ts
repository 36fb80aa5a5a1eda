import assert from "node:assert/strict";
import { test } from "node:test";
import type { EventFrame } from "../src/link/frames.ts";
import { EMPTY, fold } from "../src/state/fold.ts";
import { Replay } from "../src/state/replay.ts";
import { kindOf, typed, valueOf } from "../src/state/settings.ts";
import { LineReader, type LogEntry, ROWS_MAX, withEntries } from "../src/state/tail.ts";
import { linePath, nearest, niceCeiling } from "../src/ui/scale.ts";

const START = 1_000;
const frame = (ms: number, type: string, data: unknown): EventFrame => ({ type, timestamp: START + ms, data, context: { turnId: "t" } });

function events(deltas: number): EventFrame[] {
  return [
    frame(0, "turn_request", { turnId: "t", timestamp: START }),
    frame(5, "message_start", { messageId: "m" }),
    ...Array.from({ length: deltas }, (_, index) => frame(10 + index, "text_delta", { text: `${index} ` })),
  ];
}

test("a replay shows at each moment what was streamed by then, whichever way it is moved", () => {
  const all = events(1_700);
  const replay = new Replay(all, START);
  assert.equal(replay.durationMs, 10 + 1_699);
  for (const ms of [1_709, 0, 4, 5, 9, 10, 11, 1_000, 999, 1_500, 498, 499, 500]) {
    const expected = all.filter(({ timestamp }) => timestamp - START <= ms).reduce(fold, EMPTY);
    assert.deepEqual(replay.at(ms), expected, String(ms));
  }
  assert.equal(replay.countAt(-1), 0);
  assert.equal(replay.neighbour(10, 1), 11);
  assert.equal(replay.neighbour(10, -1), 5);
  assert.equal(new Replay([], START).at(50), EMPTY);
});

test("lines that arrive in pieces are put together", () => {
  const lines = new LineReader();
  assert.deepEqual(lines.read('{"a"'), []);
  assert.deepEqual(lines.read(':1}\n\n{"b":'), ['{"a":1}']);
  assert.deepEqual(lines.read("2}\n"), ['{"b":2}']);
});

test("an entry is listed once, the newest first, and the list is bounded", () => {
  const entry = (number: number) => ({ number }) as LogEntry;
  const rows = withEntries([entry(5), entry(4)], [entry(4), entry(5), entry(6), entry(7)]);
  assert.deepEqual(rows.map(({ number }) => number), [7, 6, 5, 4]);
  const many = withEntries(rows, Array.from({ length: 3_000 }, (_, index) => entry(10 + index)));
  assert.equal(many.length, ROWS_MAX);
  assert.equal(many[0]?.number, 3_009);
});

test("a typed text becomes the value that the setting expects", () => {
  const choice = kindOf({ type: "one of: on, off, auto" });
  assert.deepEqual(choice, { kind: "choice", options: ["on", "off", "auto"] });
  assert.equal(valueOf("8", kindOf({ type: "a whole number from 1 to 9" })), 8);
  assert.equal(valueOf("eight", kindOf({ type: "a number" })), "eight");
  assert.equal(valueOf("1.05", kindOf({ type: "an amount like 1.05, not negative" })), "1.05");
  const list = kindOf({ type: "a list of texts" });
  assert.deepEqual(valueOf(typed(["a", "b"], list), list), ["a", "b"]);
  assert.throws(() => valueOf("a, b", list), SyntaxError);
  assert.equal(typed(undefined, list), "");
});

test("a plot has round bounds and gaps where nothing was measured", () => {
  assert.deepEqual([0, 0.03, 1, 1.2, 3, 7, 10, 4_100].map(niceCeiling), [1, 0.05, 1, 2, 5, 10, 10, 5_000]);
  assert.equal(linePath([1, 2, null, 3, undefined, 4, 5], (x) => x, (y) => y), "M0.0 1.0L1.0 2.0M3.0 3.0h4M5.0 4.0L6.0 5.0");
  assert.equal(nearest([10, 20, 30], 24), 1);
});

test("a Chinese page says what a setting expects, and keeps what it does not know", async () => {
  const { zh } = await import("../src/words/settings/zh.ts");
  assert.equal(zh.expected("a whole number from 1 to 9"), "应为：1 到 9 的整数");
  assert.equal(zh.expected("one of: on, off"), "应为：on, off 之一");
  assert.equal(zh.expected("something new"), "应为：something new");
});
