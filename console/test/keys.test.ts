import assert from "node:assert/strict";
import { test } from "node:test";
import { areaReader } from "../src/ui/keys.ts";

const pressed = (key: string, timeStamp: number, others = {}) => ({ key, timeStamp, ctrlKey: false, metaKey: false, shiftKey: false, altKey: false, isComposing: false, ...others });

test("g and a letter soon after it name an area", () => {
  const read = areaReader();
  assert.equal(read(pressed("g", 0), false, true), undefined);
  assert.equal(read(pressed("s", 500), false, true), "/settings");
  assert.equal(read(pressed("s", 600), false, true), undefined);
  read(pressed("g", 1_000), false, true);
  assert.equal(read(pressed("a", 9_000), false, true), undefined);
  read(pressed("g", 10_000), false, true);
  assert.equal(read(pressed("x", 10_100), false, true), undefined);
});

test("letters are letters while somebody writes, with Ctrl, and when the keys are off", () => {
  for (const [isWriting, isOn, others] of [[true, true, {}], [false, false, {}], [false, true, { ctrlKey: true }]] as const) {
    const read = areaReader();
    read(pressed("g", 0, others), isWriting, isOn);
    assert.equal(read(pressed("a", 10, others), isWriting, isOn), undefined);
  }
});
