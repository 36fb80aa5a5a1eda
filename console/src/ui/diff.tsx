import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import { diffLines } from "../state/diff.ts";

const SIGNS = { same: " ", gone: "−", new: "+" };

/** Two texts beside each other by lines; changed words are marked, and what was added or taken has its sign. */
export function Diff({ label, before, after }: { label: string; before: string; after: string }): JSX.Element {
  const lines = useMemo(() => diffLines(before, after), [before, after]);
  return (
    // A line may be wider than the page: the region scrolls, also by keys.
    // oxlint-disable-next-line no-noninteractive-tabindex
    <div class="diff" role="region" aria-label={label} tabIndex={0}>
      <table>
        <tbody>
          {lines.map((line, index) => (
            <tr key={index} class={`diff-${line.kind}`}>
              <td class="diff-number">{line.before}</td>
              <td class="diff-number">{line.after}</td>
              <td class="diff-sign">{SIGNS[line.kind]}</td>
              <td class="diff-text" dir="auto">
                {line.pieces.map((piece, place) => (piece.kind === "same" || line.pieces.length === 1 ? piece.text : <mark key={place}>{piece.text}</mark>))}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
