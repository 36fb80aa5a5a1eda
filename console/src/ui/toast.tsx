/** A short notice at the edge, with one action. */

import { signal } from "@preact/signals";
import type { JSX } from "preact";
import { said } from "./problem.tsx";

interface Notice {
  text: string;
  action?: { label: string; run: () => void };
}

const SHOWN_MS = 7_000;
/** A notice that can be acted on stays until a slow reader has found its button. */
const WITH_ACTION_MS = 20_000;
const notice = signal<Notice | undefined>(undefined);
let timer: ReturnType<typeof setTimeout> | undefined;

export function toast(text: string, action?: Notice["action"]): void {
  clearTimeout(timer);
  notice.value = { text, action };
  timer = setTimeout(() => (notice.value = undefined), action === undefined ? SHOWN_MS : WITH_ACTION_MS);
}

export function Toast(): JSX.Element {
  const shown = notice.value;
  return (
    <div class="toast" role="status" hidden={shown === undefined}>
      {shown?.text}
      {shown?.action && (
        <button
          type="button"
          class="btn-quiet"
          onClick={() => {
            shown.action?.run();
            notice.value = undefined;
          }}
        >
          {shown.action.label}
        </button>
      )}
    </div>
  );
}

/** Says why something failed, if it does. */
export function attempt(work: Promise<unknown>): void {
  work.catch((error: unknown) => toast(said(error)));
}
