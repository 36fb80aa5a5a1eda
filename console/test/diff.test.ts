import assert from "node:assert/strict";
import { test } from "node:test";
import { diffLines } from "../src/state/diff.ts";

const sides = (before: string, after: string) => {
  const lines = diffLines(before, after);
  const text = (without: string) => lines.filter((line) => line.kind !== without).map((line) => line.pieces.map((piece) => piece.text).join("")).join("\n");
  return [text("new"), text("gone")];
};

test("the lines of a difference give back both texts", () => {
  let seed = 7;
  const random = (below: number) => (seed = (seed * 48_271) % 2_147_483_647) % below;
  for (let round = 0; round < 500; round++) {
    const text = () => Array.from({ length: random(12) }, () => "abc de".slice(random(4), 1 + random(6))).join("\n");
    const [before, after] = [text(), text()];
    assert.deepEqual(sides(before, after), [before, after]);
  }
});

test("only what differs is marked, with the numbers of both sides", () => {
  const lines = diffLines("a\nYou are a sales assistant.\nz", "a\nYou are a patient sales assistant.\nmore\nz");
  assert.deepEqual(lines.map(({ kind, before, after }) => [kind, before, after]), [
    ["same", 1, 1], ["gone", 2, undefined], ["new", undefined, 2], ["new", undefined, 3], ["same", 3, 4],
  ]);
  assert.deepEqual(lines[2]!.pieces.filter((piece) => piece.kind === "new").map((piece) => piece.text.trim()), ["patient"]);
});

test("Chinese is compared sign by sign, and very different texts at once", () => {
  const [gone, fresh] = diffLines("你是销售助理", "你是耐心的销售助理");
  assert.deepEqual(fresh!.pieces.filter((piece) => piece.kind === "new"), [{ kind: "new", text: "耐心的" }]);
  assert.equal(gone!.pieces.some((piece) => piece.kind === "gone"), false);
  const long = (mark: string) => Array.from({ length: 3_000 }, (_, index) => `${mark}${index}`).join("\n");
  assert.equal(diffLines(long("a"), long("b")).length, 6_000);
});
