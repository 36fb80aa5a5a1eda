/** The text around the words of a search. The server marks them in escaped text, of which nothing is parsed as HTML. */

export interface Piece {
  text: string;
  isMarked: boolean;
}

const ENTITIES: Record<string, string> = { "&lt;": "<", "&gt;": ">", "&amp;": "&", "&quot;": '"', "&#x27;": "'", "&#39;": "'" };
const plain = (text: string) => text.replace(/&(?:lt|gt|amp|quot|#x27|#39);/g, (entity) => ENTITIES[entity] ?? entity);

/** The pieces between the marks, and those within. The signs of Markdown go, unless it is text as somebody has written it. */
export function pieces(html: string, isWritten: boolean): Piece[] {
  return html.split(/<\/?mark>/).map((part, index) => {
    const text = plain(part);
    const isMarked = index % 2 === 1;
    return { text: isWritten || isMarked ? text : withoutSigns(text), isMarked };
  });
}

/** Between two letters, or two spaces, asterisks are no emphasis: 2**3. */
function withoutSigns(text: string): string {
  return text.replace(/\*\*|`+/g, (sign, at: number) => {
    const [before, after] = [text[at - 1] ?? "", text[at + sign.length] ?? ""];
    const isOperator = (/^\w$/.test(before) && /^\w$/.test(after)) || (before === " " && after === " ");
    return sign === "**" && isOperator ? sign : "";
  });
}
