/** Maths in Markdown: `$$…$$` and `\[…\]` as blocks, `$…$` and `\(…\)` within a line. A sum of money is none. */

import type { TokenizerAndRendererExtension } from "marked";

const BLOCK = /^ {0,3}(?:\$\$([^$]+)\$\$|\\\[([\s\S]+?)\\\]) *(?:\n|$)/;
const INLINE = /^(?:\$(?![\s\d$])([^$\n]*[^$\s\\])\$(?!\d)|\$(\d[^$\n]*[\\^_=+*/{}][^$\n]*[^$\s\\])\$(?!\d)|\\\(([^\n]+?)\\\))/;

export const mathsBlock: TokenizerAndRendererExtension = {
  name: "maths",
  level: "block",
  start: (text) => /(?:^|\n) {0,3}(?:\$\$|\\\[)/.exec(text)?.index,
  tokenizer(text) {
    const found = BLOCK.exec(text);
    return found === null ? undefined : { type: "maths", raw: found[0], text: (found[1] ?? found[2] ?? "").trim() };
  },
  renderer: () => "",
};

export const mathsInline: TokenizerAndRendererExtension = {
  name: "maths",
  level: "inline",
  start: (text) => /\$|\\\(/.exec(text)?.index,
  tokenizer(text) {
    const found = INLINE.exec(text);
    return found === null ? undefined : { type: "maths", raw: found[0], text: (found[1] ?? found[2] ?? found[3] ?? "").trim() };
  },
  renderer: () => "",
};
