import type { JSX } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import { IconButton } from "../ui/button.tsx";
import { words } from "../words/index.ts";

interface Props {
  draftKey: string;
  busy: boolean;
  /** Resolves to whether the message was taken over; one that was not is shown again. */
  onSend: (text: string) => Promise<boolean>;
  onStop: () => void;
  /** The up key in an empty field. */
  onEditLast: () => void;
}

/** Whether a key sends what is written. While an input method composes, Enter chooses a word; on a phone it breaks the line. */
export function sends(event: KeyboardEvent): boolean {
  if (event.isComposing || event.keyCode === 229) return false;
  return event.key === "Enter" && !event.shiftKey && !matchMedia("(pointer: coarse)").matches;
}

/** Where a message is written. It keeps its text over a reload, and renders nothing outside itself. */
export function Composer({ draftKey, busy, onSend, onStop, onEditLast }: Props): JSX.Element {
  const field = useRef<HTMLTextAreaElement>(null);
  const stored = `avm.draft.${draftKey}`;

  // Before the field is painted: what is typed at once must not be replaced by the stored draft.
  useLayoutEffect(() => {
    restore();
    field.current?.focus();
  }, [stored]);

  function restore(): void {
    if (field.current === null) return;
    field.current.value = sessionStorage.getItem(stored) ?? "";
    grow();
  }

  function grow(): void {
    const area = field.current;
    if (area === null) return;
    area.rows = Math.min(10, Math.max(1, area.value.split("\n").length));
  }

  function send(): void {
    const area = field.current;
    const text = area?.value.trim();
    if (area === null || !text) return;
    area.value = "";
    sessionStorage.removeItem(stored);
    grow();
    void onSend(text).then((taken) => {
      if (taken || field.current === null || field.current.value !== "") return;
      sessionStorage.setItem(stored, text);
      restore();
    });
  }

  function onKeyDown(event: KeyboardEvent): void {
    if (event.isComposing) return;
    if (event.key === "Escape" && busy) onStop();
    if (event.key === "ArrowUp" && !event.altKey && field.current?.value === "") {
      event.preventDefault();
      onEditLast();
    }
    if (!sends(event)) return;
    event.preventDefault();
    send();
  }

  return (
    <form
      class="composer"
      onSubmit={(event) => {
        event.preventDefault();
        send();
      }}
    >
      <textarea
        ref={field}
        rows={1}
        dir="auto"
        aria-label={words.value.message}
        placeholder={words.value.message}
        onKeyDown={onKeyDown}
        onInput={(event) => {
          sessionStorage.setItem(stored, event.currentTarget.value);
          grow();
        }}
      />
      {busy && <IconButton icon="stop" label={words.value.stop} onClick={onStop} />}
      <IconButton icon="send" label={words.value.send} onClick={send} primary />
    </form>
  );
}
