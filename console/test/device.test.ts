import assert from "node:assert/strict";
import { test } from "node:test";
import { deviceName } from "../src/words/device.ts";

test("a device has the name of its browser and its system, or what it said", () => {
  const chrome = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/156.0.0.0 Safari/537.36";
  assert.equal(deviceName(chrome), "Chrome · Linux");
  assert.equal(deviceName("Mozilla/5.0 (iPhone; CPU iPhone OS 19_0 like Mac OS X) AppleWebKit/605.1.15 Version/19.0 Mobile/15E148 Safari/604.1"), "Safari · iPhone");
  assert.equal(deviceName("curl/8.5"), "curl/8.5");
  assert.equal(deviceName(""), "");
});
