import assert from "node:assert/strict";
import { test } from "node:test";
import { partsOf, skillOf, skillText } from "../src/state/skill.ts";

function inFolder(path: string, content: BlobPart): File {
  const file = new File([content], path.split("/").at(-1)!);
  Object.defineProperty(file, "webkitRelativePath", { value: path });
  return file;
}

test("a folder becomes its SKILL.md and the files beside it", async () => {
  const content = await skillOf([
    inFolder("skills/pdf/scripts/fill.py", "print(1)"),
    inFolder("skills/pdf/SKILL.md", "---\nname: pdf\n---\nDo it."),
    inFolder("skills/pdf/.git/config", "hidden"),
    inFolder("skills/pdf/__pycache__/fill.pyc", "hidden"),
    inFolder("skills/pdf/form.bin", Uint8Array.of(0xff, 0xfe)),
    inFolder("skills/other.md", "above"),
  ]);
  assert.deepEqual(content, { text: "---\nname: pdf\n---\nDo it.", files: { "form.bin": { data: "//4=" }, "scripts/fill.py": "print(1)" } });
  assert.equal(await skillOf([inFolder("a/readme.md", "no")]), undefined);
  assert.deepEqual(await skillOf([new File(["text"], "SKILL.md")]), { text: "text" });
});

test("what is written in a form becomes a SKILL.md that is read again", () => {
  const text = skillText("refunds", 'How to "refund": step by step', "# First\n\nLook.");
  assert.deepEqual(partsOf(text), { name: "refunds", body: "\n# First\n\nLook.\n" });
  assert.match(text, /^description: "How to \\"refund\\": step by step"$/m);
  assert.deepEqual(partsOf("no front matter"), { name: "", body: "no front matter" });
});
