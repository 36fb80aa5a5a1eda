import assert from "node:assert/strict";
import { test } from "node:test";
import type { Question } from "../src/link/client.ts";
import { answerIn, contentOf, fieldsOf } from "../src/state/question.ts";

const form = (properties: Record<string, unknown>, required: string[] = []): Question => ({
  mode: "form", message: "Which?", schema: { type: "object", properties, required },
});
function entered(question: Question, values: [string, string][]): Record<string, unknown> {
  const data = new FormData();
  for (const [name, value] of values) data.append(`q.${name}`, value);
  return contentOf("q", fieldsOf(question), data);
}

test("options are one of them, several of them, or something else", () => {
  const chosen = { type: "string", enum: ["red", "blue"] };
  const written = { type: "string", minLength: 1 };
  assert.deepEqual(entered(form({ a: chosen }), [["a", "blue"]]), { a: "blue" });
  const many = { type: "array", items: { anyOf: [chosen, written] } };
  const [field] = fieldsOf(form({ a: many }));
  assert.deepEqual([field?.kind, field?.hasOther, field?.options.map(([value]) => value)], ["several", true, ["red", "blue"]]);
  assert.deepEqual(entered(form({ a: many }), [["a", "red"], ["a", "blue"], ["a.other", "grey"]]), { a: ["red", "blue", "grey"] });
  assert.deepEqual(entered(form({ a: { anyOf: [chosen, written] } }), [["a", "red"], ["a.other", "grey"]]), { a: "grey" });
});

test("options may have names, and a field its title, its explanation and what stands in it at first", () => {
  const named = { oneOf: [{ const: "s", title: "Small" }, { const: "l", title: "Large" }], default: "l", title: "Size", description: "Of the shirt" };
  const [size, plain] = fieldsOf(form({ size: named, plain: { enum: ["a"], enumNames: ["First"] } }, ["size"]));
  assert.deepEqual([size?.title, size?.about, size?.options, size?.initial, size?.isRequired], ["Size", "Of the shirt", [["s", "Small"], ["l", "Large"]], ["l"], true]);
  assert.deepEqual([plain?.title, plain?.options], ["plain", [["a", "First"]]]);
});

test("numbers, ticks and texts have their types, and what is empty is left out", () => {
  const question = form({ count: { type: "integer" }, sure: { type: "boolean" }, mail: { type: "string", format: "email" }, note: { type: "string" } });
  assert.deepEqual(fieldsOf(question).map(({ type, step }) => [type, step]), [["number", "1"], ["text", undefined], ["email", undefined], ["text", undefined]]);
  assert.deepEqual(entered(question, [["count", "3"], ["mail", "a@b.c"], ["note", " "]]), { count: 3, sure: false, mail: "a@b.c" });
});

test("a message answers the one question that it fits", () => {
  const chosen = { type: "string", enum: ["Red", "blue"] };
  const said = (question: Question, text: string) => answerIn({ q: question }, text);
  assert.deepEqual(said(form({ a: { type: "string" } }), " a word "), { q: { a: "a word" } });
  assert.deepEqual([said(form({ a: chosen }), "red"), said(form({ a: chosen }), "green")], [{ q: { a: "Red" } }, undefined]);
  assert.deepEqual(said(form({ a: { anyOf: [chosen, { type: "string" }] } }), "green"), { q: { a: "green" } });
  assert.deepEqual(said(form({ a: { type: "array", items: chosen } }), "blue"), { q: { a: ["blue"] } });
  assert.equal(said(form({ a: { type: "string" }, b: { type: "string" } }), "word"), undefined);
  assert.equal(answerIn({ q: form({ a: chosen }), r: form({ a: chosen }) }, "blue"), undefined);
});

test("a page that has to be visited has no fields, and is answered with nothing", () => {
  const question: Question = { mode: "url", message: "Sign in", url: "https://example.org" };
  assert.deepEqual([fieldsOf(question), entered(question, [])], [[], {}]);
});
