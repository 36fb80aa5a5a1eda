/** Small parts of pages. */

import type { ComponentChildren, JSX } from "preact";
import { words } from "../words/index.ts";
import { IconButton } from "./button.tsx";
import { toast } from "./toast.tsx";

/** Figures with their names, in one line where there is room. */
export function Figures({ of }: { of: readonly (readonly [name: string, figure: ComponentChildren])[] }): JSX.Element {
  return (
    <dl class="figures">
      {of.map(([name, figure]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{figure}</dd>
        </div>
      ))}
    </dl>
  );
}

/** A text to be copied, with the button that does it; of a long one the beginning may be shown. */
export function Copyable({ text, label, shown = text }: { text: string; label?: string; shown?: string }): JSX.Element {
  return (
    <span class="copyable">
      <code dir="ltr" title={shown === text ? undefined : text}>{shown}</code>
      <IconButton icon="copy" label={label ?? words.value.copy} onClick={() => void navigator.clipboard.writeText(text).then(() => toast(words.value.copied))} />
    </span>
  );
}

/** A JSON value, its parts folded. Texts are shown as they are. */
export function JsonTree({ value, name, isOpen = false }: { value: unknown; name?: string; isOpen?: boolean }): JSX.Element {
  if (value === null || typeof value !== "object") {
    return (
      <div class="json-leaf">
        {name !== undefined && <span class="json-name">{name}</span>} <code dir="auto">{typeof value === "string" ? value : JSON.stringify(value)}</code>
      </div>
    );
  }
  const entries = Object.entries(value);
  return (
    <details class="json" open={isOpen}>
      <summary>{name ?? (Array.isArray(value) ? "[ ]" : "{ }")} <span class="hint">{entries.length}</span></summary>
      {entries.map(([key, part]) => <JsonTree key={key} name={key} value={part} />)}
    </details>
  );
}

/** A section of a page. */
export function Section({ title, tools, children }: { title: string; tools?: ComponentChildren; children: ComponentChildren }): JSX.Element {
  return (
    <section class="section" aria-label={title}>
      <header class="page-head">
        <h2>{title}</h2>
        {tools}
      </header>
      {children}
    </section>
  );
}

/** A sentence of the server, in which code stands between backticks. */
export function Prose({ text }: { text: string }): JSX.Element {
  return <>{text.split("`").map((part, index) => (index % 2 === 1 ? <code key={index}>{part}</code> : part))}</>;
}
