import assert from "node:assert/strict";
import { test } from "node:test";
import { KEYS } from "../src/ui/keys.ts";
import { inLanguage } from "../src/words/format.ts";
import { en } from "../src/words/en.ts";
import { zh } from "../src/words/zh.ts";

test("both languages have the same words, and none is empty", () => {
  assert.deepEqual(Object.keys(zh).toSorted(), Object.keys(en).toSorted());
  for (const [key, word] of [...Object.entries(en), ...Object.entries(zh)]) assert.notEqual(word, "", key);
  assert.deepEqual(Object.keys(zh.agentNames), Object.keys(en.agentNames));
});

test("every key of the list has a sentence", () => {
  for (const [, word] of KEYS) assert.ok(en[word] !== "" && zh[word] !== "");
});

test("a text in two languages is shown in the reader's", () => {
  const both = "Waits 1.5 s; then asks. Twice. 等待回答。最多两次。";
  assert.equal(inLanguage(both, "en"), "Waits 1.5 s; then asks. Twice.");
  assert.equal(inLanguage(both, "zh"), "等待回答。最多两次。");
  assert.equal(inLanguage("通用助手（中文）。A helper.", "zh"), "通用助手（中文）。");
  assert.equal(inLanguage("Only one.", "zh"), "Only one.");
});
