import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { Citation } from "../link/frames.ts";
import { request } from "../link/http.ts";
import { withQuery } from "../state/data.ts";
import { attempt } from "../ui/toast.tsx";
import { words } from "../words/index.ts";

/** The passages that an answer names. Each opens exactly its range. */
export function Citations({ citations }: { citations: readonly Citation[] }): JSX.Element {
  return (
    <details class="branches">
      <summary>{words.value.citations(citations.length)}</summary>
      <ol class="citations">{citations.map((one) => <Passage key={one.n} citation={one} />)}</ol>
    </details>
  );
}

function Passage({ citation }: { citation: Citation }): JSX.Element {
  const [text, setText] = useState<string>();
  const [isOpen, setOpen] = useState(false);

  function toggle(): void {
    setOpen(!isOpen);
    if (isOpen || text !== undefined) return;
    attempt(request<{ text: string }>("GET", withQuery("/v1/passages", { cite: citation.cite })).then((found) => setText(found.text)));
  }
  return (
    <li value={citation.n}>
      <button type="button" class="btn-quiet" aria-expanded={isOpen} title={citation.cite} dir="auto" onClick={toggle}>{sourceOf(citation.cite)}</button>
      {isOpen && text !== undefined && <blockquote dir="auto">{text}</blockquote>}
    </li>
  );
}

/** The document of a citation, and its page: `resource://knowledge/shop@1.0.0#returns.pdf:p3:120-480`. */
export function sourceOf(cite: string): string {
  const found = /#(.+?)(?::p(\d+))?:\d+-\d+$/.exec(cite);
  if (found === null) return cite;
  return found[2] === undefined ? (found[1] ?? cite) : words.value.citedPage(found[1] ?? "", Number(found[2]));
}
