import assert from "node:assert/strict";
import { test } from "node:test";
import { visible } from "../src/state/visible.ts";

test("characters that nobody sees are escaped, and all others stay", () => {
  assert.equal(visible("a\u202egpj.exe\u200b\u0007\u{e0041}"), String.raw`a\u{202e}gpj.exe\u{200b}\u{7}\u{e0041}`);
  const seen = "{\n\t\"路\": \"è 😀\"\n}";
  assert.equal(visible(seen), seen);
});
