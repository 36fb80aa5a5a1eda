import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { SessionRow } from "../link/frames.ts";
import type { OpenConversation } from "../state/conversation.ts";
import { type Branch, readTree } from "../state/branches.ts";
import { Button } from "../ui/button.tsx";
import { Modal } from "../ui/modal.tsx";
import { attempt } from "../ui/toast.tsx";
import { when } from "../words/format.ts";
import { language, words } from "../words/index.ts";

/** The tree of conversations that were forked from each other. Each line leads to the message at which it branches off. */
export default function Branches({ open, onClose }: { open: OpenConversation; onClose: () => void }): JSX.Element {
  const [tree, setTree] = useState<Branch | undefined>(undefined);
  useEffect(() => attempt(readTree(open.sessionId).then(setTree)), [open]);
  return (
    <Modal label={words.value.branches} onClose={onClose}>
      {(close) => (
        <>
          <h2>{words.value.branches}</h2>
          {tree !== undefined && tree.children.length === 0 && <p class="empty">{words.value.branchesNothing}</p>}
          {tree !== undefined && tree.children.length > 0 && (
            <ul class="tree"><Node branch={tree} present={open.sessionId} close={close} /></ul>
          )}
          <Button onClick={close}>{words.value.close}</Button>
        </>
      )}
    </Modal>
  );
}

function Node({ branch, present, close }: { branch: Branch; present: string; close: () => void }): JSX.Element {
  const { row, children } = branch;
  return (
    <li>
      <a href={addressOf(row, present)} aria-current={row.sessionId === present ? "page" : undefined} onClick={close}>
        <span dir="auto">{row.title ?? row.preview ?? words.value.untitled}</span> <time>{when(row.updatedAt, language.value, Date.now())}</time>
      </a>
      {children.length > 0 && (
        <ul>
          {children.map((child) => (
            <Node key={child.row.sessionId} branch={child} present={present} close={close} />
          ))}
        </ul>
      )}
    </li>
  );
}

/** A branch has the message that it came from as well, so the place is the same in both. */
function addressOf(row: SessionRow, present: string): string {
  const place = row.sessionId === present || row.forkedFrom === undefined ? "" : `#${row.forkedFrom.messageId}`;
  return `/c/${row.sessionId}${place}`;
}
