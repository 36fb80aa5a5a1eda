import type { ComponentChildren, JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { words } from "../words/index.ts";
import type { Coloured } from "./highlight.ts";

/** Milliseconds without a change after which a text is coloured. */
const REST_MS = 180;
const COLOURED_MAX = 100_000;
const COPIED_MS = 1_500;

/** Code with its language and a button that copies it. The colours come later, and only when nothing is being written. */
export function Code({ text, language }: { text: string; language: string }): JSX.Element {
  const [copied, setCopied] = useState(false);
  const [coloured, setColoured] = useState<{ text: string; tree: Coloured[] } | undefined>(undefined);
  const copy = () =>
    navigator.clipboard.writeText(text).then(() => {
      setCopied(true);
      setTimeout(() => setCopied(false), COPIED_MS);
    });
  useEffect(() => {
    if (language === "" || text.length > COLOURED_MAX) return;
    let current = true;
    const timer = setTimeout(() => {
      import("./highlight.ts")
        .then(({ colour }) => {
          const tree = current ? colour(text, language) : undefined;
          if (tree !== undefined) setColoured({ text, tree });
        })
        .catch(() => undefined);
    }, REST_MS);
    return () => {
      current = false;
      clearTimeout(timer);
    };
  }, [text, language]);
  return (
    <figure class="code">
      <figcaption>
        <span>{language.slice(0, 30)}</span>
        <button type="button" class="btn-quiet" onClick={() => void copy()}>
          {copied ? words.value.copied : words.value.copy}
        </button>
      </figcaption>
      <pre dir="ltr" tabIndex={0}>
        <code>{coloured?.text === text ? coloured.tree.map(piece) : text}</code>
      </pre>
    </figure>
  );
}

function piece(node: Coloured, index: number): ComponentChildren {
  return typeof node === "string" ? node : <span key={index} class={node.kind}>{node.parts.map(piece)}</span>;
}
