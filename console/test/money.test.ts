import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { largest } from "../src/ui/series.ts";
import { distance, exactMoney, languageOf, money, short } from "../src/words/format.ts";
import { sourceOf } from "../src/words/people/cost_sources_zh.ts";

test("money has as many digits as tell it from nothing, and the exact amount has all", () => {
  assert.deepEqual([1, 12, 123_456, 3_812_000, 10_000_000, 500_000_000].map(money), ["$0.000000001", "$0.000000012", "$0.0001235", "$0.003812", "$0.01", "$0.50"]);
  assert.deepEqual([1_000_000_000, 1_234_567_891_000_000, -1].map(money), ["$1.00", "$1,234,567.89", "−$0.000000001"]);
  assert.deepEqual([0, 1, 1_500_000_000, -1_234_567_891_000_001].map(exactMoney), ["$0.00", "$0.000000001", "$1.50", "−$1,234,567.891000001"]);
});

test("counts and distances are short in both languages", () => {
  assert.deepEqual([short(22_100_000, "en"), short(22_100_000, "zh")], ["22.1M", "2210万"]);
  assert.equal(distance(0, "en", 120_000), "2 min. ago");
  assert.equal(distance(6 * 3_600_000, "zh", 0), "6小时后");
  assert.deepEqual([distance(0, "en", 20_000), distance(0, "zh", 20_000), distance(20_000, "zh", 0)], ["now", "现在", "20秒后"]);
});

test("small series are one", () => {
  const series = [1, 2, 3, 4, 5, 6, 7].map((value) => ({ name: String(value), values: [value, 0] }));
  assert.deepEqual(largest(series, "others").map(({ name, values }) => [name, values[0]]), [["7", 7], ["6", 6], ["5", 5], ["4", 4], ["others", 6]]);
});

test("the letters of a text tell its language, where only one has them", () => {
  const texts = ["Where is the cursor?", "游标在哪里？", "用 kubectl 查看 pods", "The word 游标 means cursor", "カーソルはどこ？", "커서는 어디에?", "Où est le curseur ?", "أين المؤشر؟", "", "42"];
  assert.deepEqual(texts.map(languageOf), ["en", "zh-CN", "zh-CN", "en", "ja", "ko", "", "", "", ""]);
});

test("every source of the shipped prices and coefficients is said in Chinese, and another is not guessed", () => {
  const shipped = (name: string) => readFileSync(new URL(`../../src/agentvm/cost/${name}`, import.meta.url), "utf-8");
  const sources = [...`${shipped("prices.yaml")}${shipped("coefficients.json")}`.matchAll(/^ *"?source"?: "?(.+?)"?$/gmu)].map(([, source]) => source!);
  assert.ok(sources.length > 40);
  assert.deepEqual(sources.filter((source) => sourceOf(source) === undefined), []);
  assert.equal(sourceOf("SQLite in Durable Objects, $0.20 a GB after 5, November 2026"), "Durable Objects 中的 SQLite，超出 5 GB 后每 GB $0.20，2026 年 11 月");
  assert.equal(sourceOf("our contract, November 2026"), undefined);
});
