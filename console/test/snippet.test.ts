import assert from "node:assert/strict";
import { test } from "node:test";
import { pieces } from "../src/state/snippet.ts";

const shown = (html: string, isWritten = false) => pieces(html, isWritten).map(({ text, isMarked }) => (isMarked ? `[${text}]` : text)).join("");

test("marks are split off and entities are characters", () => {
  assert.equal(shown("a &lt;b&gt; <mark>cursor</mark> &amp;amp; c"), "a <b> [cursor] &amp; c");
});

test("signs of Markdown go, and operators stay", () => {
  assert.equal(shown("会话的**每个事件**都有 `<mark>游标</mark>`，2**3 and a ** b"), "会话的每个事件都有 [游标]，2**3 and a ** b");
});

test("what a person wrote stays as it is", () => {
  assert.equal(shown("**bold** `<mark>code</mark>`", true), "**bold** `[code]`");
});
