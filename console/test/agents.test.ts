import assert from "node:assert/strict";
import { test } from "node:test";
import { type Agent, offered, readable } from "../src/state/agents.ts";

const shipped = (name: string): Agent => ({ name, uri: `resource://agents/system/${name}` });
const ALL = [{ name: "default" }, shipped("assistant"), shipped("assistant-zh"), shipped("only-zh"), { name: "sales", uri: "resource://agents/sales" }];

test("own agents come first, and of two languages the one in use", () => {
  assert.deepEqual(offered(ALL, "en").map(({ name }) => name), ["sales", "assistant", "only-zh"]);
  assert.deepEqual(offered(ALL, "zh").map(({ name }) => name), ["sales", "assistant-zh", "only-zh"]);
});

test("six are offered at most", () => {
  assert.equal(offered(Array.from({ length: 9 }, (_, index) => ({ name: `a${index}` })), "en").length, 6);
});

test("the default agent has no name, and a shipped one has its name in either language", () => {
  assert.equal(readable("default", {}), undefined);
  assert.equal(readable("assistant-zh", { assistant: "助手" }), "助手");
  assert.equal(readable("sales", {}), "sales");
});
