import assert from "node:assert/strict";
import { test } from "node:test";
import type { SessionRow } from "../src/link/frames.ts";
import { type Line, linesOf, stepped } from "../src/state/palette.ts";
import { commandOf } from "../src/ui/keys.ts";

const row = (sessionId: string, title: string | null): SessionRow => ({ sessionId, title, imageId: "i", containerId: "c", updatedAt: 1 });
const commands: Line[] = [{ id: "new", label: "New conversation", kind: "command" }];
const pressed = { key: "", ctrlKey: false, metaKey: false, shiftKey: false, altKey: false, isComposing: false };

test("every word that is typed must be in a line", () => {
  const ids = (text: string) => linesOf(text, [row("a", "Kubernetes plan"), row("b", "上海三日行程")], commands, "New conversation").map(({ id }) => id);
  assert.deepEqual(ids(""), ["a", "b", "new"]);
  assert.deepEqual(ids("PLAN kube"), ["a"]);
  assert.deepEqual(ids("三日"), ["b"]);
  assert.deepEqual(ids("nothing"), []);
});

test("many conversations leave room for the commands", () => {
  const rows = Array.from({ length: 50 }, (_, index) => row(String(index), null));
  const lines = linesOf("new", rows, commands, "New conversation");
  assert.equal(lines.length, 12);
  assert.equal(lines.at(-1)?.id, "new");
});

test("the place goes round the ends", () => {
  assert.equal(stepped(0, -1, 3), 2);
  assert.equal(stepped(2, 1, 3), 0);
  assert.equal(stepped(0, 1, 0), 0);
});

test("keys mean commands, and a single character none while somebody writes", () => {
  assert.equal(commandOf({ ...pressed, key: "k", ctrlKey: true }, true, true), "palette");
  assert.equal(commandOf({ ...pressed, key: "K", metaKey: true }, true, true), "palette");
  assert.equal(commandOf({ ...pressed, key: "O", ctrlKey: true, shiftKey: true }, true, true), "newChat");
  assert.equal(commandOf({ ...pressed, key: "ArrowDown", altKey: true }, true, true), "next");
  assert.equal(commandOf({ ...pressed, key: "?" }, false, true), "keys");
  assert.equal(commandOf({ ...pressed, key: "?" }, true, true), undefined);
  assert.equal(commandOf({ ...pressed, key: "?" }, false, false), undefined);
  assert.equal(commandOf({ ...pressed, key: "k", ctrlKey: true, isComposing: true }, true, true), undefined);
});
