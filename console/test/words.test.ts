import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
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

test("a fault of a value is said in Chinese, and keeps the server's words where it is not known", () => {
  const source = readFileSync(new URL("../../tests/errors/test_validation.py", import.meta.url), "utf-8");
  const said = [...source.matchAll(/^ {8}\('.*', "(.+)"\),$/gmu), ...source.matchAll(/^ {8}\("", "(.+)"\),$/gmu)].map(([, sentence]) => sentence!);
  assert.ok(said.length > 12);
  for (const sentence of said) assert.match(zh.fault(sentence) ?? sentence, /\p{Script=Han}/u);
  assert.equal(zh.fault("The content of agents does not fit: inner must be an object or null, not a whole number"), "inner 必须是对象或 null，不能是整数。");
  assert.equal(zh.fault("The body is invalid: name is missing"), "缺少 name。");
  assert.equal(zh.fault("there is no field limt; did you mean limit?"), "没有字段 limt，是不是想写 limit。");
  assert.equal(zh.fault("few must be an array of at most 2 items"), "few 必须是数组，至多 2 项。");
  assert.equal(zh.fault("limit must be a whole number, at least 1"), "limit 必须是整数，不小于 1。");
  assert.equal(zh.fault("it must be true or false or null, not an array"), "内容必须是 true/false 或 null，不能是数组。");
  assert.equal(zh.fault("The input does not fit: n: 9 is greater than or equal to the maximum of 5"), "n：9 大于或等于 5。");
  assert.equal(zh.fault('parameters.required is not a valid JSON Schema: "a" is not of type "array"'), 'parameters.required 不是有效的 JSON Schema："a" 的类型不是 "array"。');
  assert.equal(zh.fault('inputSchema must be the schema of an object: write "type": "object"'), 'inputSchema 必须是对象的 schema：请写 "type": "object"。');
  assert.equal(zh.fault("tools must be sorted, not shuffled"), undefined);
  assert.equal(en.fault("name is missing"), undefined);
});
