/** Skills: a `SKILL.md` with the files beside it, as a folder and as the content of a resource. */

import { base64, textOf } from "./bytes.ts";

export interface SkillContent {
  text: string;
  files?: Record<string, string | { data?: string; blob?: string; size?: number }>;
}

export const SKILL_FILE = "SKILL.md";

/** A part of a path that is no part of a skill, such as `.git`. */
const isHidden = (path: string) => path.split("/").some((part) => part.startsWith(".") || part === "__pycache__");

/** The path of a chosen file: within the folder that was chosen, or just its name. */
const pathOf = (file: File) => file.webkitRelativePath || file.name;

/** The content of a folder, or undefined if there is no SKILL.md in it. Files above and beside its folder are left out. */
export async function skillOf(files: readonly File[]): Promise<SkillContent | undefined> {
  const found = files.map((file) => ({ file, path: pathOf(file) })).toSorted((a, b) => a.path.length - b.path.length);
  const main = found.find(({ path }) => path === SKILL_FILE || path.endsWith(`/${SKILL_FILE}`));
  if (main === undefined) return undefined;
  const folder = main.path.slice(0, -SKILL_FILE.length);
  const beside = found.filter((one) => one !== main && one.path.startsWith(folder) && !isHidden(one.path.slice(folder.length)));
  const read = async ({ file, path }: (typeof found)[number]) => {
    const data = new Uint8Array(await file.arrayBuffer());
    return [path.slice(folder.length), textOf(data) ?? { data: base64(data) }] as const;
  };
  const content: SkillContent = { text: await main.file.text() };
  return beside.length === 0 ? content : { ...content, files: Object.fromEntries(await Promise.all(beside.map(read))) };
}

/** The front matter and what follows it. The server checks it; here only its name is wanted, and the text without it. */
export function partsOf(text: string): { name: string; body: string } {
  const [, head = "", body = text] = /^---\r?\n([\s\S]*?)\r?\n---\r?\n?([\s\S]*)$/.exec(text) ?? [];
  const name = /^name:\s*(.*?)\s*$/m.exec(head)?.[1] ?? "";
  return { name: name.replaceAll(/^["']|["']$/g, ""), body };
}

/** A SKILL.md of what was written in a form. */
export const skillText = (name: string, description: string, body: string) => `---\nname: ${name}\ndescription: ${JSON.stringify(description)}\n---\n\n${body}\n`;
