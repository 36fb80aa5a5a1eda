const UNSEEN = /[\p{Cc}\p{Cf}\p{Co}\p{Zl}\p{Zp}]/gu;

/** A text whose characters that nobody sees, or that turn it around, are escaped: it must not show another call than the one that is approved. */
export const visible = (text: string): string =>
  text.replace(UNSEEN, (letter) => (letter === "\n" || letter === "\t" ? letter : `\\u{${letter.codePointAt(0)!.toString(16)}}`));
