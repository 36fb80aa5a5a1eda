import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { useData } from "../state/data.ts";
import { useRefresh } from "../state/refresh.ts";
import type { Timeline } from "../state/timeline.ts";
import "../style/activity.css";
import { IconButton } from "../ui/button.tsx";
import { Copyable } from "../ui/parts.tsx";
import { Shown } from "../ui/shown.tsx";
import { activityWords } from "../words/activity/index.ts";
import { duration, money } from "../words/format.ts";
import { language, words } from "../words/index.ts";
import { Bars, Stages } from "./activity/timeline.tsx";

const REFRESH_MS = 3_000;

/** One turn beside its conversation: what it cost, and where its time went. The address names it, so it can be passed on. */
export default function TurnPanel({ turnId, onClose }: { turnId: string; onClose: () => void }): JSX.Element {
  const turn = useData<Timeline>(`/v1/turns/${encodeURIComponent(turnId)}`);
  const heading = useRef<HTMLHeadingElement>(null);
  useRefresh(() => turn.data !== undefined && turn.data.outcome === undefined && turn.reload(), REFRESH_MS);
  useEffect(() => heading.current?.focus(), [turnId]);

  function close(): void {
    onClose();
    document.querySelector<HTMLElement>(`a[href$="?turn=${CSS.escape(turnId)}"]`)?.focus();
  }
  return (
    <aside
      class="panel"
      aria-label={words.value.pages.turn}
      onKeyDown={(event) => {
        if (event.key !== "Escape") return;
        event.stopPropagation();
        close();
      }}
    >
      <header class="page-head">
        <h2 ref={heading} tabIndex={-1}>{words.value.pages.turn}</h2>
        <IconButton icon="close" label={words.value.close} onClick={close} />
      </header>
      <Copyable text={turnId} />
      <Shown of={turn}>
        {(line) => (
          <>
            <Amounts turn={line} />
            <h3>{words.value.whereTimeWent}</h3>
            <Stages turn={line} />
            <Bars turn={line} />
            <a class="btn" href={`/activity/turns/${line.turnId}`}>{words.value.replay}</a>
          </>
        )}
      </Shown>
    </aside>
  );
}

function Amounts({ turn }: { turn: Timeline }): JSX.Element {
  const text = activityWords.value;
  const count = (tokens: number) => tokens.toLocaleString(language.value);
  const rows: [string, string][] = [
    [text.price, money(turn.price)],
    [text.duration, duration(turn.duration)],
    [words.value.tokensIn, count(turn.usage.inputTokens)],
    [words.value.tokensCached, count(turn.usage.cacheReadTokens ?? 0)],
    [words.value.tokensOut, count(turn.usage.outputTokens)],
  ];
  return <dl class="panel-amounts">{rows.map(([name, amount]) => <div key={name}><dt>{name}</dt><dd>{amount}</dd></div>)}</dl>;
}
