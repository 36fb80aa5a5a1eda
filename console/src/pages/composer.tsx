import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import type { EventFrame } from "../link/frames.ts";
import { ApiError } from "../link/http.ts";
import { onNotice, onOpen } from "../link/socket.ts";
import { type Attached, isPicture, upload } from "../link/upload.ts";
import { device, type Draft, draftsOf, dropDraft, saveDraft } from "../state/drafts.ts";
import { preferences } from "../state/preferences.ts";
import { IconButton } from "../ui/button.tsx";
import { sentence } from "../ui/problem.tsx";
import { toast } from "../ui/toast.tsx";
import { words } from "../words/index.ts";

interface Props {
  /** The conversation in which is written; undefined for one that is yet to begin. */
  sessionId?: string;
  containerId: string;
  busy: boolean;
  placeholder?: string | undefined;
  /** Resolves to whether the message was taken over; one that was not is shown again. */
  onSend: (text: string, files: Attached[]) => Promise<boolean>;
  onStop: () => void;
  /** The up key in an empty field. */
  onEditLast: () => void;
}

/** Whether a key sends what is written. While an input method composes, Enter chooses a word; on a phone it breaks the line. */
export function sends(event: KeyboardEvent): boolean {
  if (event.isComposing || event.keyCode === 229) return false;
  if (event.key !== "Enter" || event.shiftKey) return false;
  if (preferences.peek().sendKey === "modifier") return event.ctrlKey || event.metaKey;
  return !matchMedia("(pointer: coarse)").matches;
}

const LINES_MAX = 10;

const storedName = (sessionId: string | undefined) => `avm.draft.${sessionId ?? "new"}`;

/** Puts a text into the field of a conversation: a refused message that is written anew. */
export function writeAgain(sessionId: string, text: string): void {
  sessionStorage.setItem(storedName(sessionId), text);
  window.dispatchEvent(new Event("avm.write"));
}

/** Where a message is written. It keeps its text over a reload, and renders nothing outside itself. */
export function Composer({ sessionId, containerId, busy, placeholder, onSend, onStop, onEditLast }: Props): JSX.Element {
  const field = useRef<HTMLTextAreaElement>(null);
  const files = useFiles(containerId);
  const stored = storedName(sessionId);
  const offer = useOtherDraft(sessionId);

  // Before the field is painted: what is typed at once must not be replaced by the stored draft.
  useLayoutEffect(() => {
    restore();
    // On a phone the keyboard would cover half of the conversation.
    if (!matchMedia("(pointer: coarse)").matches) field.current?.focus();
    window.addEventListener("avm.write", restore);
    window.addEventListener("resize", grow);
    return () => {
      window.removeEventListener("avm.write", restore);
      window.removeEventListener("resize", grow);
    };
  }, [stored]);

  function restore(): void {
    if (field.current === null) return;
    field.current.value = sessionStorage.getItem(stored) ?? "";
    grow();
  }

  /** As high as what is written in it: lines that the width breaks count, too. */
  function grow(): void {
    const area = field.current;
    if (area === null) return;
    area.rows = 1;
    while (area.rows < LINES_MAX && area.scrollHeight > area.clientHeight) area.rows += 1;
  }

  function write(text: string): void {
    if (text === "") sessionStorage.removeItem(stored);
    else sessionStorage.setItem(stored, text);
    if (sessionId !== undefined) saveDraft(sessionId, text);
    grow();
  }

  function send(): void {
    const area = field.current;
    const text = area?.value.trim() ?? "";
    const attached = files.all.value;
    if (area === null || (text === "" && attached.length === 0)) return;
    area.value = "";
    write("");
    files.clear();
    void onSend(text, attached).then((taken) => {
      if (taken || field.current === null || field.current.value !== "") return;
      sessionStorage.setItem(stored, text);
      for (const file of attached) files.put(file);
      restore();
    });
  }

  function use(draft: Draft): void {
    if (field.current === null) return;
    field.current.value = draft.text;
    write(draft.text);
    field.current.focus();
    offer.value = undefined;
    void dropDraft(draft).catch(() => undefined);
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
    <div class="composer-holder">
      {offer.value && (
        <p class="other-draft">
          <span dir="auto">{words.value.onDevice(offer.value.device?.startsWith("phone") ?? false)}{words.value.colon}{offer.value.text}</span>
          <button type="button" class="btn-quiet" onClick={() => use(offer.value!)}>{words.value.use}</button>
        </p>
      )}
      <form
        class={`composer${files.isOver.value ? " composer-over" : ""}${files.all.value.length > 0 ? " composer-filled" : ""}`}
        onSubmit={(event) => {
          event.preventDefault();
          send();
        }}
      >
        <FileChips files={files} />
        <textarea
          ref={field}
          rows={1}
          dir="auto"
          aria-label={words.value.message}
          placeholder={files.isOver.value ? words.value.dropHere : (placeholder ?? words.value.message)}
          onKeyDown={onKeyDown}
          onInput={(event) => write(event.currentTarget.value)}
          onPaste={(event) => {
            if ((event.clipboardData?.files.length ?? 0) === 0) return;
            event.preventDefault();
            files.add(event.clipboardData?.files);
          }}
        />
        <label class="btn-icon composer-attach" title={words.value.attach}>
          <input
            type="file"
            multiple
            aria-label={words.value.attach}
            onChange={(event) => {
              files.add(event.currentTarget.files);
              event.currentTarget.value = "";
            }}
          />
          <svg class="icon" viewBox="0 0 20 20" aria-hidden="true"><path d="m14 9-5 5a3 3 0 0 1-4-4l6-6a2 2 0 0 1 3 3l-6 6a1 1 0 0 1-1-1l5-5" /></svg>
        </label>
        {busy && <IconButton icon="stop" label={words.value.stop} onClick={onStop} />}
        <IconButton icon="send" label={words.value.send} onClick={send} primary />
      </form>
    </div>
  );
}

interface Pending extends Attached {
  id: string;
  part: number;
  /** It is sent with its message. */
  waits?: boolean;
}

function FileChips({ files }: { files: ReturnType<typeof useFiles> }): JSX.Element | null {
  if (files.all.value.length === 0) return null;
  return (
    <ul class="files" aria-label={words.value.attached}>
      {files.all.value.map((file) => (
        <li key={file.id} class="file">
          <span dir="auto">{file.name}</span>
          {file.reference === undefined && !file.waits && <progress max={1} value={file.part} aria-label={words.value.sending(Math.round(file.part * 100))} />}
          <IconButton icon="close" label={words.value.removeFile(file.name)} onClick={() => files.drop(file.id)} />
        </li>
      ))}
    </ul>
  );
}

/** The files of the message that is being written. Each is uploaded at once; one that the server refuses is told and goes. */
function useFiles(containerId: string) {
  const all = useSignal<Pending[]>([]);
  const isOver = useSignal(false);

  function change(id: string, more: Partial<Pending>): void {
    all.value = all.value.map((file) => (file.id === id ? { ...file, ...more } : file));
  }
  const drop = (id: string) => (all.value = all.value.filter((file) => file.id !== id));
  function put(attached: Attached): void {
    const pending = { ...attached, id: crypto.randomUUID(), part: 0 };
    all.value = [...all.value, pending];
    if (attached.reference !== undefined) return;
    upload(attached, containerId, (part) => change(pending.id, { part })).then(
      (reference) => change(pending.id, { reference, file: undefined, part: 1 }),
      (error: unknown) => {
        const problem = error as ApiError;
        // Without a connection, or before the user's container is there, it is sent with its message.
        if (problem.code === "channel_closed" || problem.code === "container_not_found") {
          change(pending.id, { waits: true });
          return;
        }
        drop(pending.id);
        toast(words.value.attachFailed(attached.name, sentence(problem.code, problem.message)));
      },
    );
  }
  function add(list: FileList | null | undefined): void {
    for (const file of list ?? [])
      put({ name: file.name || (isPicture(file.type) ? "picture" : "file"), mediaType: file.type || "application/octet-stream", size: file.size, file });
  }

  useEffect(() => {
    const hasFiles = (event: DragEvent) => event.dataTransfer?.types.includes("Files") ?? false;
    const over = (event: DragEvent) => {
      if (!hasFiles(event)) return;
      event.preventDefault();
      isOver.value = true;
    };
    const leave = (event: DragEvent) => {
      if (event.relatedTarget === null) isOver.value = false;
    };
    const drop_ = (event: DragEvent) => {
      if (!hasFiles(event)) return;
      event.preventDefault();
      isOver.value = false;
      add(event.dataTransfer?.files);
    };
    document.addEventListener("dragover", over);
    document.addEventListener("dragleave", leave);
    document.addEventListener("drop", drop_);
    return () => {
      document.removeEventListener("dragover", over);
      document.removeEventListener("dragleave", leave);
      document.removeEventListener("drop", drop_);
    };
  }, [containerId]);
  return { all, isOver, add, put, drop, clear: () => (all.value = []) };
}

/** The newest draft of another device, while nothing is written here. The own draft of an earlier visit comes back by itself. */
function useOtherDraft(sessionId: string | undefined) {
  const offer = useSignal<Draft | undefined>(undefined);
  useEffect(() => {
    if (sessionId === undefined) return;
    let current = true;
    const look = () =>
      void draftsOf(sessionId)
        .then((drafts) => {
          if (!current) return;
          const newest = drafts.toSorted((a, b) => b.updatedAt - a.updatedAt);
          const own = newest.find((draft) => draft.device === device());
          if (own !== undefined && sessionStorage.getItem(storedName(sessionId)) === null) writeAgain(sessionId, own.text);
          offer.value = newest.find((draft) => draft.device !== device());
        })
        .catch(() => undefined);
    const endings = [
      onOpen(look),
      onNotice((frame: EventFrame) => {
        if (frame.type === "session_draft_updated" && frame.data.sessionId === sessionId && frame.data.device !== device()) look();
      }),
    ];
    return () => {
      current = false;
      endings.forEach((end) => end());
    };
  }, [sessionId]);
  return offer;
}
