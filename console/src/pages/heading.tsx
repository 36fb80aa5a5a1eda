import { useSignal, useSignalEffect } from "@preact/signals";
import type { JSX } from "preact";
import { useRef } from "preact/hooks";
import type { SessionRow } from "../link/frames.ts";
import { may } from "../routes.ts";
import type { OpenConversation } from "../state/conversation.ts";
import { archive, pin, remove, rename, restore } from "../state/sessions.ts";
import { attempt, toast } from "../ui/toast.tsx";
import { Icon, type IconName } from "../ui/icons.tsx";
import { latePart } from "../ui/late.tsx";
import { useTitle } from "../ui/title.ts";
import { words } from "../words/index.ts";

const Branches = latePart(() => import("./branches.tsx"));
const ShareLinks = latePart(() => import("./share_links.tsx"));
const ForkWith = latePart(() => import("./fork_with.tsx"));

const MENU = "conversation-menu";

/** The title of a conversation, and what can be done with all of it. */
export function Heading({ row, open, go }: { row?: SessionRow; open: OpenConversation; go: (path: string) => void }): JSX.Element {
  const { sessionId } = open;
  const dialog = useSignal<"branches" | "forkWith" | "share" | undefined>(undefined);
  const editing = useSignal(false);
  const field = useRef<HTMLInputElement>(null);
  const isMissing = open.problem.value?.code === "session_not_found";
  const title = isMissing ? words.value.notThereTitle : (row?.title ?? row?.preview ?? words.value.untitled);
  useTitle(title);
  useSignalEffect(() => {
    if (editing.value) requestAnimationFrame(() => field.current?.focus());
  });

  function save(event: SubmitEvent): void {
    event.preventDefault();
    editing.value = false;
    attempt(rename(sessionId, field.current?.value ?? ""));
  }
  async function leave(change: Promise<unknown>, said: string, undo: () => Promise<unknown>): Promise<void> {
    await change;
    toast(said, { label: words.value.undo, run: () => attempt(undo().then(() => go(`/c/${sessionId}`))) });
    go("/");
  }
  const isPinned = row?.pinnedAt !== undefined;
  const isArchived = row?.archivedAt !== undefined;
  return (
    <header class="heading">
      <a class="btn-icon only-narrow" href="/" aria-label={words.value.showList}><Icon name="left" /></a>
      {editing.value ? (
        <form onSubmit={save}>
          <input
            ref={field}
            defaultValue={title}
            aria-label={words.value.title}
            maxLength={200}
            onKeyDown={(event) => {
              if (event.key === "Escape") editing.value = false;
            }}
          />
        </form>
      ) : (
        <h1 dir="auto" tabIndex={-1}>{title}</h1>
      )}
      {row?.forkedFrom && (
        <a class="btn-icon" href={`/c/${row.forkedFrom.sessionId}#${row.forkedFrom.messageId}`} aria-label={words.value.forkedFrom} title={words.value.forkedFrom}>
          <Icon name="fork" />
        </a>
      )}
      <button type="button" class="btn-icon" hidden={isMissing} popovertarget={MENU} aria-label={words.value.more} title={words.value.more}>
        <Icon name="more" />
      </button>
      <div id={MENU} class="menu" popover="auto">
        <MenuItem icon="pin" label={isPinned ? words.value.unpin : words.value.pin} run={() => attempt(pin(sessionId, !isPinned))} />
        <MenuItem icon="pen" label={words.value.rename} run={() => (editing.value = true)} />
        <MenuItem icon="branches" label={words.value.branches} run={() => (dialog.value = "branches")} />
        <MenuItem icon="fork" label={words.value.forkWith} run={() => (dialog.value = "forkWith")} />
        <MenuItem icon="link" label={words.value.share} run={() => (dialog.value = "share")} />
        <MenuItem icon="list" label={words.value.summarize} run={() => attempt(open.summarize())} />
        <a class="menu-item" href={`/search?session=${sessionId}`}><Icon name="search" /> {words.value.searchIn}</a>
        <a class="menu-item" href={`/files/${sessionId}`}><Icon name="folder" /> {words.value.pages.files}</a>
        {row?.imageId !== undefined && may("images:read") && <a class="menu-item" href={`/agents/${row.imageId}`}><Icon name="agents" /> {words.value.pages.agent}</a>}
        {may("sessions:export") && (
          <>
            <a class="menu-item" href={`/v1/export?session=${sessionId}&format=markdown`} download><Icon name="save" /> {words.value.exportChat}</a>
            <a class="menu-item" href={`/v1/export?session=${sessionId}`} download><Icon name="save" /> {words.value.exportArchive}</a>
          </>
        )}
        {isArchived ? (
          <MenuItem icon="archive" label={words.value.bringBack} run={() => attempt(archive(sessionId, false))} />
        ) : (
          <MenuItem
            icon="archive"
            label={words.value.archive}
            run={() => attempt(leave(archive(sessionId, true), words.value.archivedNow, () => archive(sessionId, false)))}
          />
        )}
        <MenuItem icon="bin" label={words.value.delete} run={() => attempt(leave(remove(sessionId), words.value.deleted, () => restore(sessionId)))} />
      </div>
      {dialog.value === "branches" && <Branches open={open} onClose={() => (dialog.value = undefined)} />}
      {dialog.value === "share" && <ShareLinks sessionId={sessionId} onClose={() => (dialog.value = undefined)} />}
      {dialog.value === "forkWith" && row !== undefined && <ForkWith open={open} row={row} go={go} onClose={() => (dialog.value = undefined)} />}
    </header>
  );
}

function MenuItem({ icon, label, run }: { icon: IconName; label: string; run: () => void }): JSX.Element {
  return (
    <button type="button" class="menu-item" popovertarget={MENU} popovertargetaction="hide" onClick={run}>
      <Icon name={icon} />
      {label}
    </button>
  );
}
