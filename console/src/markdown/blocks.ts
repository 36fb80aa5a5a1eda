/**
 * Markdown that grows, read in blocks. Only the end of a text can still change its meaning, so finished blocks are lexed
 * once; the last ones are lexed again with each piece.
 */

import { Marked, type Token } from "marked";
import { mathsBlock, mathsInline } from "./maths_tokens.ts";

const reader = new Marked({ gfm: true, breaks: false, pedantic: false, extensions: [mathsBlock, mathsInline] });
/** Blocks at the end that a further piece of text can change: a paragraph may become a table, a list may go on. */
const OPEN_BLOCKS = 2;

export class Growing {
  #settled: Token[] = [];
  #settledLength = 0;
  #text = "";
  /** Characters that were lexed, of this text and of all; tests bound them. */
  lexed = 0;
  static total = 0;

  /** The blocks of the text. The text is the one of before with something added, or another one. */
  read(text: string): Token[] {
    if (!text.startsWith(this.#text)) {
      this.#settled = [];
      this.#settledLength = 0;
    }
    this.#text = text;
    const tail = text.slice(this.#settledLength);
    this.lexed += tail.length;
    Growing.total += tail.length;
    const tokens = lex(tail);
    const firm = tokens.slice(0, firmCount(tokens));
    // A link definition may be used by any block.
    if (firm.length > 0 && !tokens.some((token) => token.type === "def")) {
      this.#settled = [...this.#settled, ...firm];
      this.#settledLength += firm.reduce((sum, token) => sum + token.raw.length, 0);
      return [...this.#settled, ...tokens.slice(firm.length)];
    }
    return [...this.#settled, ...tokens];
  }
}

/** The number of blocks that no further text can change. Empty lines do not end a list, so they do not count. */
function firmCount(tokens: Token[]): number {
  let open = OPEN_BLOCKS;
  for (let index = tokens.length - 1; index >= 0; index -= 1) {
    if (tokens[index]?.type !== "space") open -= 1;
    if (open < 0) return index + 1;
  }
  return 0;
}

export function lex(text: string): Token[] {
  return reader.lexer(text);
}
