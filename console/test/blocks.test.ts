import assert from "node:assert/strict";
import { test } from "node:test";
import { Growing, lex } from "../src/markdown/blocks.ts";

const PIECES = ["# a\n", "text ", "**b**\n\n", "- one\n", "- two\n\n", "| a | b |\n", "|---|---|\n", "| 1 | 2 |\n\n", "```js\n", "x()\n",
  "```\n\n", "> q\n", "1. n\n", "    code\n\n", "<b>x</b>", "\n\n", "---\n", "[l](http://x)", "\\*", "`c`", "* * *\n", "=====\n", "  \n"];

function random(seed: number): () => number {
  let state = seed;
  return () => (state = (state * 48271) % 2147483647) / 2147483647;
}

test("a text that is cut at random places is read as a whole one", () => {
  const next = random(7);
  for (let round = 0; round < 1000; round += 1) {
    const text = Array.from({ length: 12 }, () => PIECES[Math.floor(next() * PIECES.length)]).join("");
    const reader = new Growing();
    for (let end = 0; end < text.length; end += 1 + Math.floor(next() * 9)) reader.read(text.slice(0, end));
    assert.deepEqual(reader.read(text).map((token) => token.raw), lex(text).map((token) => token.raw), JSON.stringify(text));
  }
});

test("a long answer is not lexed again with every piece", () => {
  const reader = new Growing();
  let text = "";
  for (let paragraph = 0; paragraph < 200; paragraph += 1) {
    for (let word = 0; word < 10; word += 1) reader.read((text += "words "));
    reader.read((text += "\n\n"));
  }
  assert.ok(reader.lexed < 60 * text.length, `${reader.lexed} characters for ${text.length}`);
});

test("another text starts afresh", () => {
  const reader = new Growing();
  reader.read("a\n\nb\n\nc\n\nd");
  assert.deepEqual(reader.read("x").map((token) => token.raw), ["x"]);
});
