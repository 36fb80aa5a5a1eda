import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { linkState, onOpen } from "../link/socket.ts";
import { agents, loadAgents, loadName, names, offered, readable } from "../state/agents.ts";
import { OpenConversation } from "../state/conversation.ts";
import { type Conversation, lastQuestion } from "../state/fold.ts";
import { begin, sessions } from "../state/sessions.ts";
import { attempt, toast } from "../ui/toast.tsx";
import { language, words } from "../words/index.ts";
import { Composer } from "./composer.tsx";
import { Heading } from "./heading.tsx";
import { Log } from "./log.tsx";

interface Props {
  sessionId?: string;
  /** The message that the address names, or nothing. */
  named: string;
  go: (path: string) => void;
}

/** A conversation, or the beginning of one. */
export function Chat({ sessionId, named, go }: Props): JSX.Element {
  return sessionId === undefined ? <NewChat go={go} /> : <OpenChat key={sessionId} sessionId={sessionId} named={named} go={go} />;
}

function NewChat({ go }: Pick<Props, "go">): JSX.Element {
  const chosen = useSignal<string | undefined>(undefined);
  useEffect(() => onOpen(() => void loadAgents()), []);

  async function start(text: string): Promise<boolean> {
    try {
      const sessionId = await begin(chosen.value);
      const opened = new OpenConversation(sessionId);
      await opened.send(text);
      go(`/c/${sessionId}`);
      return true;
    } catch (error) {
      toast(error instanceof Error ? error.message : String(error));
      return false;
    }
  }
  function choose(agent: string): void {
    chosen.value = chosen.value === agent ? undefined : agent;
    document.querySelector<HTMLElement>(".composer textarea")?.focus();
  }
  return (
    <main class="main">
      <div class="welcome">
        <h1>{words.value.emptyChat}</h1>
        <ul class="agents" aria-label={words.value.agents}>
          {offered(agents.value, language.value).map(({ name, uri, description }) => (
            <li key={uri ?? name}>
              <button type="button" class="agent" aria-pressed={chosen.value === (uri ?? name)} onClick={() => choose(uri ?? name)}>
                <strong>{readable(name, words.value.agentNames)}</strong>
                <span dir="auto">{description}</span>
              </button>
            </li>
          ))}
        </ul>
      </div>
      <Composer draftKey="new" busy={false} onSend={start} onStop={() => {}} onEditLast={() => {}} />
    </main>
  );
}

function OpenChat({ sessionId, named, go }: Props & { sessionId: string }): JSX.Element {
  const open = useMemo(() => new OpenConversation(sessionId), [sessionId]);
  useEffect(() => {
    open.start();
    return () => open.stop();
  }, [open]);
  const row = sessions.value?.find((session) => session.sessionId === sessionId) ?? open.about.value;
  const imageId = row?.imageId;
  useEffect(() => {
    if (imageId !== undefined && linkState.value === "open") attempt(loadName(imageId));
  }, [imageId, linkState.value]);
  const name = readable(names.value[imageId ?? ""] ?? "default", words.value.agentNames) ?? words.value.agent;
  const now = open.now.value;
  const busy = now.running.length > 0 && !now.parked;
  return (
    <main class="main">
      <Heading row={row} sessionId={sessionId} go={go} />
      <Log open={open} named={named} name={name} go={go} />
      <Announcement now={now} />
      <Composer
        draftKey={sessionId}
        busy={busy}
        onSend={(text) => open.send(text).then(() => true)}
        onStop={() => attempt(open.stopTurn())}
        onEditLast={() => (open.editing.value = lastQuestion(open.now.value)?.id)}
      />
    </main>
  );
}

/** Says when an answer begins and ends, and not every word of it. */
function Announcement({ now }: { now: Conversation }): JSX.Element {
  const spoken = useRef({ busy: false, text: "" });
  const busy = now.running.length > 0;
  if (busy !== spoken.current.busy) {
    const last = now.items.findLast((item) => item.kind === "answer");
    const count = last?.kind === "answer" ? last.text.split(/\s+/).filter(Boolean).length : 0;
    spoken.current = { busy, text: busy ? words.value.answering : words.value.answerFinished(count) };
  }
  return <p class="unseen" role="status">{spoken.current.text}</p>;
}
