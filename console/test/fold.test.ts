import assert from "node:assert/strict";
import { test } from "node:test";
import type { EventFrame, StoredMessage } from "../src/link/frames.ts";
import { type Conversation, EMPTY, fold, fromMessages, withDraft } from "../src/state/fold.ts";

const context = { sessionId: "s", turnId: "t1" };
let cursor = 0;
const event = (type: string, data: unknown): EventFrame => ({ type, timestamp: 1, data, context, cursor: String((cursor += 1)) });
const play = (events: EventFrame[], now: Conversation = EMPTY) => events.reduce(fold, now);

const user: StoredMessage = { subtype: "user", id: "m1", timestamp: 1, turnId: "t1", content: "Hi" };
const call: StoredMessage = {
  subtype: "tool-call", id: "m2", timestamp: 1, turnId: "t1", toolCall: { id: "c1", name: "pay", input: { to: "Bo" } },
};
const result: StoredMessage = {
  subtype: "tool-result", id: "m3", timestamp: 1, turnId: "t1", toolCallId: "c1",
  toolResult: { id: "c1", name: "pay", output: { type: "json", value: { paid: true } } },
};
const answer: StoredMessage = {
  subtype: "assistant", id: "m4", timestamp: 1, turnId: "t1", content: [{ type: "text", text: "Done, Bo." }],
};
const usage = { inputTokens: 1, outputTokens: 2 };

const TURN = [
  event("turn_request", { turnId: "t1", messageId: "m1", clientKey: "k1" }),
  event("user_message", user),
  event("tool_call_message", call),
  event("tool_waiting", { waitId: "w", toolId: "c1", kind: "approval", fingerprint: "f", decisions: ["approve"], why: "rule 1" }),
  event("turn_parked", { turnId: "t1" }),
  event("tool_answered", { toolId: "c1" }),
  event("tool_result_message", result),
  event("message_start", { messageId: "m4" }),
  event("text_delta", { text: "Done, " }),
  event("text_delta", { text: "Bo." }),
  event("message_stop", {}),
  event("assistant_message", answer),
  event("turn_response", { turnId: "t1", outcome: "completed", duration: 9, usage, price: 5 }),
];

test("events and the stored messages give the same conversation", () => {
  assert.deepEqual(play(TURN).items, fromMessages([user, call, result, answer]).items);
});

test("any beginning that is read from the store and continued by events equals the whole", () => {
  const whole = play(TURN).items;
  const stored = [user, call, result, answer];
  for (let read = 0; read <= stored.length; read += 1) {
    assert.deepEqual(play(TURN, fromMessages(stored.slice(0, read))).items, whole, `after ${read} messages`);
  }
});

test("an answer stands before the calls that it asks for, in whichever order they come", () => {
  const asked = { ...call, parentId: "m5" };
  const asking: StoredMessage = { ...answer, id: "m5" };
  const ids = (messages: StoredMessage[]) => fromMessages(messages).items.map((item) => item.id);
  assert.deepEqual(ids([user, asked, asking, result]), ["m1", "m5", "c1"]);
  assert.deepEqual(ids([user, asking, asked, result]), ["m1", "m5", "c1"]);
});

test("a call that waits shows its question until it is answered", () => {
  const waiting = play(TURN.slice(0, 5)).items.at(-1);
  assert.equal(waiting?.kind === "tool" && waiting.wait?.fingerprint, "f");
  const answered = play(TURN.slice(0, 6)).items.at(-1);
  assert.equal(answered?.kind === "tool" && answered.wait, undefined);
});

test("the bubble of a sent message becomes the stored one", () => {
  const now = play(TURN.slice(0, 2), withDraft(EMPTY, "k1", "Hi", [], 1));
  assert.equal(now.items.length, 1);
  assert.equal(now.items[0]?.id, "m1");
});

test("a turn that is told again after a restart is shown once", () => {
  const before = play(TURN.slice(0, 9));
  const after = play([event("turn_resumed", { turnId: "t1" }), event("message_start", { messageId: "m9", text: "Done, " })], before);
  assert.equal(after.items.filter((item) => item.kind === "answer").length, 1);
  assert.deepEqual(after.running, ["t1"]);
});

test("rewound messages leave with the calls of their turn", () => {
  const now = play([...TURN, event("session_rewound", { sessionId: "s", messageIds: ["m1", "m2", "m3", "m4"] })]);
  assert.deepEqual(now.items, []);
});
