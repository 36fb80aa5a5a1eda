import type { JSX } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { OpenConversation } from "../../state/conversation.ts";
import { Button } from "../../ui/button.tsx";
import { builderWords } from "../../words/builder/index.ts";
import { OpenComposer } from "../chat.tsx";
import { Log } from "../log.tsx";

interface Props {
  sessionId: string | undefined;
  containerId: string;
  name: string;
  /** Begins closed: the field of a conversation takes the focus. */
  isClosed?: boolean;
  go: (path: string) => void;
}

/** A conversation beside the form, with the agent that the form builds. */
export function TryPanel({ sessionId, containerId, name, isClosed = false, go }: Props): JSX.Element {
  const t = builderWords.value;
  const [isOpen, setOpen] = useState(!isClosed);
  return (
    <section class={sessionId !== undefined && isOpen ? "try" : "try try-closed"} aria-label={t.tryIt}>
      <header>
        <h2>{t.tryIt}</h2>
        {sessionId !== undefined && (isOpen ? <a href={`/c/${sessionId}`}>{t.openChat}</a> : <Button onClick={() => setOpen(true)}>{t.tryBegin}</Button>)}
      </header>
      {sessionId === undefined ? <p class="hint">{t.tryHint}</p> : isOpen && <Talk key={sessionId} sessionId={sessionId} containerId={containerId} name={name} go={go} />}
    </section>
  );
}

function Talk({ sessionId, containerId, name, go }: Props & { sessionId: string }): JSX.Element {
  const open = useMemo(() => new OpenConversation(sessionId), [sessionId]);
  useEffect(() => {
    open.start();
    return () => open.stop();
  }, [open]);
  return (
    <>
      <Log open={open} named="" name={name} go={go} />
      <OpenComposer open={open} containerId={containerId} />
    </>
  );
}
