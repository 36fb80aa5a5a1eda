import assert from "node:assert/strict";
import { test } from "node:test";
import { documentOf, sizeOf, withDocuments } from "../src/state/knowledge.ts";

test("a text is kept as a text, and other files as their bytes", async () => {
  assert.deepEqual(await documentOf(new File(["退货\n"], "Our #1 rules.md")), { id: "Our-1-rules.md", text: "退货\n", mime: "text/markdown" });
  const bytes = Uint8Array.from({ length: 100_000 }, (_, index) => index % 256);
  const { file } = await documentOf(new File([bytes], "plan.pdf"));
  assert.deepEqual(Buffer.from(file!.data!, "base64"), Buffer.from(bytes));
  const odd = await documentOf(new File([Uint8Array.of(0xcd, 0xcb)], "gb.txt"));
  assert.equal(odd.text, undefined);
  assert.equal(odd.file!.data, "zcs=");
});

test("a document of the same name takes the place of the former", () => {
  const documents = withDocuments([{ id: "a", text: "1" }, { id: "b", text: "1" }], [{ id: "a", text: "22" }]);
  assert.deepEqual(documents.map(({ id, text }) => [id, text]), [["b", "1"], ["a", "22"]]);
  assert.deepEqual([...documents, { id: "c", file: { blob: "sha256:", size: 7 } }].map(sizeOf), [1, 2, 7]);
});
