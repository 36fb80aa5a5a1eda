import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";

interface Props {
  control: { id: string; "aria-describedby": string | undefined; "aria-invalid": boolean | undefined };
  value: string;
  onInput: (text: string) => void;
  /** The line at fault, from 1. */
  marked?: number;
  /** Moves the cursor to the marked line whenever this changes. */
  jump?: number;
}

/** A text with numbered lines. The browser's own field: its search, spelling and input methods work. */
export function CodeField({ control, value, onInput, marked, jump }: Props): JSX.Element {
  const area = useRef<HTMLTextAreaElement>(null);
  const numbers = useRef<HTMLDivElement>(null);
  const lines = value.split("\n");
  useEffect(() => {
    if (jump === undefined || marked === undefined || area.current === null) return;
    const start = lines.slice(0, marked - 1).join("\n").length + (marked > 1 ? 1 : 0);
    area.current.focus();
    area.current.setSelectionRange(start, start + (lines[marked - 1]?.length ?? 0));
  }, [jump]);
  return (
    <div class="code-field">
      <div class="code-numbers" ref={numbers} aria-hidden="true">
        {lines.map((_, index) => <span key={index} class={index + 1 === marked ? "code-marked" : undefined}>{index + 1}</span>)}
      </div>
      <textarea
        {...control}
        ref={area}
        wrap="off"
        spellcheck={false}
        autocapitalize="off"
        rows={Math.min(30, Math.max(8, lines.length + 1))}
        value={value}
        onInput={(event) => onInput(event.currentTarget.value)}
        onScroll={(event) => {
          if (numbers.current !== null) numbers.current.scrollTop = event.currentTarget.scrollTop;
        }}
      />
    </div>
  );
}
