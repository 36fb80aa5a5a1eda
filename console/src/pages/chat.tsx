import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useMemo, useRef } from "preact/hooks";
import type { ModelView } from "../link/client.ts";
import { ApiError } from "../link/http.ts";
import { ask, linkState, onOpen } from "../link/socket.ts";
import { agents, loadAgents, loadName, names, offered, readable } from "../state/agents.ts";
import { OpenConversation } from "../state/conversation.ts";
import { useData, withQuery } from "../state/data.ts";
import { lastQuestion, openQuestion } from "../state/fold.ts";
import { answerIn } from "../state/question.ts";
import { isOpenTo } from "../routes.ts";
import type { Attached } from "../link/upload.ts";
import { begin, home, sessions } from "../state/sessions.ts";
import { Button } from "../ui/button.tsx";
import { said } from "../ui/problem.tsx";
import { attempt, toast } from "../ui/toast.tsx";
import { wordCount } from "../words/format.ts";
import { language, words } from "../words/index.ts";
import { Composer } from "./composer.tsx";
import { Heading } from "./heading.tsx";
import { Log } from "./log.tsx";

/** The page that says how other models are used. */
const PROVIDERS = "/settings/providers";

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

  async function start(text: string, files: Attached[]): Promise<boolean> {
    try {
      const sessionId = await begin(chosen.value);
      const opened = new OpenConversation(sessionId);
      await opened.send(text, files, home());
      go(`/c/${sessionId}`);
      return true;
    } catch (error) {
      const isAway = error instanceof ApiError && error.code === "channel_closed";
      toast(isAway ? words.value.newChatWaits : said(error));
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
      <DemoNotice />
      <Composer containerId={home()} busy={false} onSend={start} onStop={() => {}} onEditLast={() => {}} />
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
  const isMissing = open.problem.value?.code === "session_not_found";
  const isQuarantined = open.about.value?.quarantine !== undefined;
  const name = readable(names.value[imageId ?? ""] ?? "default", words.value.agentNames) ?? words.value.agent;
  return (
    <main class="main">
      <Heading row={row} open={open} go={go} />
      {isQuarantined && <Quarantine open={open} />}
      <Log open={open} named={named} name={name} go={go} />
      <Announcement open={open} />
      {!isMissing && <OpenDemoNotice open={open} />}
      {!isMissing && <OpenComposer open={open} containerId={row?.containerId ?? home()} />}
    </main>
  );
}

function OpenDemoNotice({ open }: { open: OpenConversation }): JSX.Element {
  return <DemoNotice answered={Object.values(open.now.value.ends).at(-1)?.model} />;
}

/** The reason why a conversation takes no messages, and the way out. */
function Quarantine({ open }: { open: OpenConversation }): JSX.Element {
  return (
    <div class="banner banner-action" role="alert">
      <p>
        <strong>{words.value.quarantined}.</strong> {words.value.problems["session_quarantined"]} <code dir="auto">{open.about.value?.quarantine}</code>
      </p>
      <Button onClick={() => attempt(open.release())}>{words.value.release}</Button>
    </div>
  );
}

/** The composer follows the state of the turn, so that a new state draws nothing else. */
export function OpenComposer({ open, containerId }: { open: OpenConversation; containerId: string }): JSX.Element {
  const { running, parked } = open.now.value;
  const question = openQuestion(open.now.value);
  /** A message that fits an open question is its answer; any other ends the turn that asks. */
  async function say(text: string, files: Attached[]): Promise<boolean> {
    const result = question?.questions === undefined || files.length > 0 ? undefined : answerIn(question.questions, text);
    if (question === undefined || result === undefined) return open.send(text, files, containerId).then(() => true);
    try {
      await ask("tool_answer", { waitId: question.waitId, fingerprint: question.fingerprint, decision: "answer", result });
      return true;
    } catch (error) {
      toast(said(error));
      return false;
    }
  }
  return (
      <Composer
        sessionId={open.sessionId}
        containerId={containerId}
        busy={running.length > 0 && !parked}
        placeholder={question === undefined ? undefined : words.value.answerHere}
        onSend={say}
        onStop={() => attempt(open.stopTurn())}
        onEditLast={() => (open.editing.value = lastQuestion(open.now.value)?.id)}
      />
  );
}

/** Says that the demo model answers, before it does and while its answer is the newest. */
function DemoNotice({ answered }: { answered?: string }): JSX.Element | null {
  const model = useData<{ items: ModelView[] }>(withQuery("/v1/catalog/models", { limit: 1 })).data?.items[0];
  if (model?.demo !== true || (answered !== undefined && !model.name.endsWith(`/${answered}`))) return null;
  return (
    <p class="demo-notice" role="note">
      {words.value.demoModel} {isOpenTo(PROVIDERS) && <a href={PROVIDERS}>{words.value.demoOther}</a>}
    </p>
  );
}

/** Says when an answer begins and ends, and not every word of it. */
function Announcement({ open }: { open: OpenConversation }): JSX.Element {
  const now = open.now.value;
  const spoken = useRef<{ busy: boolean; text: string; turnId?: string }>({ busy: false, text: "" });
  const busy = now.running.length > 0;
  if (busy !== spoken.current.busy) {
    const isStopped = now.ends[spoken.current.turnId ?? ""]?.outcome === "interrupted";
    const last = now.items.findLast((item) => item.kind === "answer");
    const count = last?.kind === "answer" ? wordCount(last.text) : 0;
    const ended = isStopped ? words.value.stopped : words.value.answerFinished(count);
    spoken.current = { busy, text: busy ? words.value.answering : ended, turnId: now.running.at(-1) };
  }
  return <p class="unseen" role="status">{spoken.current.text}</p>;
}
