import assert from "node:assert/strict";
import { test } from "node:test";
import { lineOfPath, readPlaces } from "../src/state/places.ts";

test("each field has the line where its name stands", () => {
  const value = { text: "a \"b\" {", tools: ["x", { name: 1 }], empty: {}, none: [] };
  const { lines, fault } = readPlaces(JSON.stringify(value, null, 2));
  assert.equal(fault, undefined);
  assert.deepEqual(["text", "tools", "tools.0", "tools.1.name", "empty", "none"].map((path) => lines.get(path)), [2, 3, 4, 6, 9, 10]);
  assert.equal(lineOfPath(lines, "tools.1.name.deeper"), 6);
  assert.equal(lineOfPath(lines, "nobody"), 1);
});

test("what JSON refuses has a line, and what it takes has none", () => {
  for (const [text, line] of [["{\n\"a\": }", 2], ["{\"a\": 1,\n}", 2], ["[1\n2]", 2], ["", 1], ["{\"a\":\n'x'}", 2], ["{} x", 1]] as const) {
    assert.throws(() => JSON.parse(text));
    assert.equal(readPlaces(text).fault?.line, line, text);
  }
  for (const text of ["1", "\"x\"", "[]", " {\"a\": [true, null, -1.5e3]} "]) assert.equal(readPlaces(text).fault, undefined);
});
