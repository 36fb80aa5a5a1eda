import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import { test } from "node:test";
import { identity } from "../src/link/who.ts";
import { findPage, mayOpen, navigation, routes } from "../src/routes.ts";

test("no address is declared twice, and each is found again", () => {
  assert.equal(new Set(routes.map(({ path }) => path.replaceAll(/:\w+/g, ":"))).size, routes.length);
  for (const route of routes) assert.equal(findPage(route.path.replaceAll(/:\w+/g, "x%20y"))?.route, route);
});

test("a user without permissions sees only the pages that need none", () => {
  identity.value = { tenantId: "t", permissions: [] };
  for (const route of navigation()) assert.equal(route.needs, undefined, route.path);
  assert.equal(routes.filter((route) => route.needs !== undefined && mayOpen(route)).length, 0);
  identity.value = { tenantId: "t", permissions: routes.flatMap((route) => route.needs ?? []) };
  assert.equal(routes.every(mayOpen), true);
  identity.value = undefined;
});

test("the words of every wing are the same in both languages", async () => {
  const wings = readdirSync(new URL("../src/words", import.meta.url), { withFileTypes: true }).filter((entry) => entry.isDirectory());
  assert.ok(wings.length > 0);
  for (const { name } of wings) {
    const { en } = await import(`../src/words/${name}/en.ts`);
    const { zh } = await import(`../src/words/${name}/zh.ts`);
    assert.deepEqual(Object.keys(zh).toSorted(), Object.keys(en).toSorted(), name);
    for (const [key, word] of [...Object.entries(en), ...Object.entries(zh)]) assert.notEqual(word, "", key);
  }
});
