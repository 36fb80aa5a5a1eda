import assert from "node:assert/strict";
import { test } from "node:test";
import type { EventFrame, StoredMessage } from "../src/link/frames.ts";
import { type Conversation, edited, EMPTY, fold, fromMessages, itemOf, lastQuestion, rowsOf, withDraft, withOlder, withRewinds } from "../src/state/fold.ts";

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
  event("turn_request", { turnId: "t1", messageId: "m1", clientKey: "k1", timestamp: 100 }),
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
  event("turn_response", { turnId: "t1", outcome: "completed", timestamp: 110, duration: 9, usage, price: 5 }),
];

test("events and the stored messages give the same conversation", () => {
  assert.deepEqual(play(TURN).items, fromMessages([user, call, result, answer]).items);
});

test("a handoff says who answers from there on", () => {
  const over = { ...result, toolResult: { ...result.toolResult!, agent: "resource://agents/billing@1.0.0" } };
  const [, tool] = fromMessages([user, call, over]).items;
  assert.equal(tool?.kind === "tool" && tool.handedTo, "resource://agents/billing@1.0.0");
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
  assert.deepEqual(ids([user, asked, asking, result]), ["m1", "m5", "m2"]);
  assert.deepEqual(ids([user, asking, asked, result]), ["m1", "m5", "m2"]);
});

test("a call that another turn has named alike is a call of its own, with its wait and its result", () => {
  const again = { ...call, id: "m6", turnId: "t2" };
  const asked = { waitId: "w2", toolId: "c1", kind: "approval", fingerprint: "f2", decisions: ["approve"], why: "" };
  const inTurn = (type: string, data: unknown): EventFrame => ({ ...event(type, data), context: { sessionId: "s", turnId: "t2" } });
  const calls = (now: Conversation) => now.items.flatMap((item) => (item.kind === "tool" ? [item.state] : []));
  const now = play([inTurn("tool_call_message", again), inTurn("tool_waiting", asked)], play(TURN));
  assert.deepEqual(calls(now), ["done", "waiting"]);
  const done = play([inTurn("tool_answered", { toolId: "c1" }), inTurn("tool_result_message", { ...result, id: "m7", turnId: "t2" })], now);
  assert.deepEqual(calls(done), ["done", "done"]);
  assert.deepEqual(calls(fromMessages([user, call, result, answer, again])), ["done", "running"]);
});

test("a call of a sub-agent is shown with its session as long as it waits", () => {
  const asked = { waitId: "w", toolId: "c1", toolName: "pay", input: {}, kind: "approval", fingerprint: "f", decisions: ["approve"], why: "", sessionId: "sub_1" };
  const now = play([event("user_message", user), event("tool_call_message", call), event("tool_waiting", asked)]);
  const shown = now.items.at(-1);
  assert.equal(shown?.kind === "tool" && shown.agentSession, "sub_1");
  assert.equal(now.items.length, 3);
  assert.equal(play([event("tool_answered", { toolId: "c1", sessionId: "sub_1" })], now).items.length, 2);
});

test("a turn takes the time that the store will tell", () => {
  assert.equal(play(TURN).ends["t1"]?.durationMs, 10);
  assert.equal(play(TURN.slice(1)).ends["t1"]?.durationMs, 9);
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

const REWOUND = event("session_rewound", { sessionId: "s", rewindId: "r1", rewoundAt: 5, messageIds: ["m1", "m2", "m3", "m4"] });

test("rewound messages leave with their calls, and are counted where they were", () => {
  const now = play([...TURN, REWOUND]);
  assert.deepEqual(now.items, []);
  assert.deepEqual(now.rewinds, [{ rewindId: "r1", rewoundAt: 5, messages: 4 }]);
  assert.deepEqual(play([REWOUND], now).rewinds, now.rewinds);
});

test("a rewind stands between what came before and after it, read or heard", () => {
  const early: StoredMessage = { ...user, id: "m0", timestamp: 1 };
  const late: StoredMessage = { ...user, id: "m9", timestamp: 5 };
  const rewind = { rewindId: "r1", rewoundAt: 5, messages: 4 };
  const ids = (now: Conversation, hasOlder = false) => rowsOf(now, hasOlder).map((row) => ("rewindId" in row ? row.rewindId : row.id));
  const read = withRewinds(fromMessages([early, late]), [rewind]);
  assert.deepEqual(ids(read), ["m0", "r1", "m9"]);
  assert.deepEqual(ids(play([REWOUND, event("user_message", late)], fromMessages([early]))), ids(read));
  assert.deepEqual(ids(withDraft(withRewinds(fromMessages([early]), [rewind]), "k", "Hi", [], 2)), ["m0", "r1", "k"]);
  assert.deepEqual(ids(withRewinds(fromMessages([late]), [rewind]), true), ["m9"]);
});

test("a message of a call is shown by the call", () => {
  const now = play(TURN);
  assert.equal(itemOf(now, "m3")?.id, "m2");
  assert.equal(itemOf(now, "m4")?.id, "m4");
  assert.equal(itemOf(now, "m8"), undefined);
});

test("the question to edit is the last one that the server has, and its files stay", () => {
  const now = withDraft(play(TURN), "k2", "More", [], 9);
  assert.equal(lastQuestion(now)?.id, "m1");
  const file = { type: "file" as const, data: "x", mediaType: "text/plain" };
  const question = fromMessages([{ ...user, content: [file, { type: "text", text: "Hi" }] }]).items[0];
  assert.ok(question?.kind === "user");
  assert.deepEqual(edited(question, "Ho"), [file, { type: "text", text: "Ho" }]);
  assert.equal(edited({ ...question, files: [] }, "Ho"), "Ho");
});

test("a message that waits for the end of a turn stands after the answer of the turn, live and stored", () => {
  const about = (turnId: string) => ({ sessionId: "s", turnId });
  const answer = (id: string, turnId: string): StoredMessage => ({ subtype: "assistant", id, timestamp: 3, turnId, content: id });
  const question = (id: string, turnId: string): StoredMessage => ({ subtype: "user", id, timestamp: 2, turnId, content: id });
  const said = [question("q1", "t1"), question("q2", "t2"), answer("a1", "t1"), answer("a1 again", "t1"), answer("a2", "t2")];
  const ids = (now: Conversation) => now.items.map(({ id }) => id);
  const order = ["q1", "a1", "a1 again", "q2", "a2"];
  assert.deepEqual(ids(fromMessages(said)), order);
  assert.deepEqual(ids(withOlder(fromMessages(said.slice(2)), said.slice(0, 2))), order);
  const events = [
    { ...event("user_message", said[0]), context: about("t1") },
    { ...event("message_start", { messageId: "a1" }), context: about("t1") },
    { ...event("user_message", said[1]), context: about("t2") },
    { ...event("assistant_message", said[2]), context: about("t1") },
    { ...event("message_start", { messageId: "a1 again" }), context: about("t1") },
    { ...event("assistant_message", said[3]), context: about("t1") },
    { ...event("assistant_message", said[4]), context: about("t2") },
  ];
  assert.deepEqual(ids(play(events, EMPTY)), order);
});
