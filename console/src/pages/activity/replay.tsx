/** The replay of a turn: a slider over its time, and what was shown at the moment of the slider. */

import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { EventFrame } from "../../link/frames.ts";
import { type ApiError, request } from "../../link/http.ts";
import { Markdown } from "../../markdown/view.tsx";
import type { PageProps } from "../../routes.ts";
import { apiError, withQuery } from "../../state/data.ts";
import type { Item } from "../../state/fold.ts";
import { Replay } from "../../state/replay.ts";
import type { Timeline } from "../../state/timeline.ts";
import { Button, IconButton } from "../../ui/button.tsx";
import { JsonTree } from "../../ui/parts.tsx";
import { Bones, Failure } from "../../ui/shown.tsx";
import { activityWords } from "../../words/activity/index.ts";
import { duration } from "../../words/format.ts";
import { language, words } from "../../words/index.ts";

const EVENTS_MAX = 50_000;
const SPEEDS = [1, 4, Infinity];

interface Read {
  events: EventFrame[];
  isWhole: boolean;
}

/** All events of a turn, page by page. */
async function readEvents(path: string): Promise<Read> {
  const events: EventFrame[] = [];
  let cursor: string | undefined;
  do {
    const page = await request<{ items: EventFrame[]; nextCursor?: string }>("GET", withQuery(path, { cursor, limit: 1_000 }));
    events.push(...page.items);
    cursor = page.nextCursor;
  } while (cursor !== undefined && events.length < EVENTS_MAX);
  return { events, isWhole: cursor === undefined };
}

export function ReplayView({ turn, path, at, go }: { turn: Timeline; path: string; at: string | undefined; go: PageProps["go"] }): JSX.Element {
  const [read, setRead] = useState<Read | undefined>(undefined);
  const [error, setError] = useState<ApiError | undefined>(undefined);
  useEffect(() => {
    let isCurrent = true;
    readEvents(path).then((events) => isCurrent && setRead(events), (thrown: unknown) => isCurrent && setError(apiError(thrown)));
    return () => void (isCurrent = false);
  }, [path]);
  if (error?.status === 404) return <p class="empty replay-gone">{activityWords.value.eventsGone}</p>;
  if (error !== undefined) return <Failure error={error} />;
  return read === undefined ? <Bones /> : <Player turn={turn} read={read} at={at} go={go} />;
}

function Player({ turn, read, at, go }: { turn: Timeline; read: Read; at: string | undefined; go: PageProps["go"] }): JSX.Element {
  const text = activityWords.value;
  const replay = useMemo(() => new Replay(read.events, turn.acceptedAt), [read]);
  const named = at === undefined || !Number.isFinite(Number(at)) ? replay.durationMs : Math.min(replay.durationMs, Math.max(0, Number(at)));
  const [moment, setMoment] = useState(named);
  const [isPlaying, play] = useState(false);
  const [speed, setSpeed] = useState(1);
  // With the drawing, not after it: an effect that waits for the screen would take back a key pressed in between.
  useLayoutEffect(() => setMoment(named), [named]);
  usePlaying(isPlaying, speed, replay.durationMs, setMoment, (end) => {
    play(false);
    rest(end);
  });

  /** The address names the moment once the slider rests. */
  function rest(ms: number): void {
    go(withQuery(location.pathname + location.search, { at: Math.round(ms) }), true);
  }
  function move(ms: number): void {
    play(false);
    setMoment(ms);
  }
  function toggle(): void {
    if (isPlaying) rest(moment);
    else if (moment >= replay.durationMs) setMoment(0);
    play(!isPlaying);
  }
  const step = (by: -1 | 1) => {
    const next = replay.neighbour(moment, by);
    move(next);
    rest(next);
  };
  return (
    <div class="replay">
      <p class="hint">{text.replayHint}{!read.isWhole && ` ${text.eventsTooMany(EVENTS_MAX.toLocaleString(language.value))}`}</p>
      <div class="player">
        <IconButton icon={isPlaying ? "stop" : "play"} label={isPlaying ? text.pause : text.play} onClick={toggle} />
        <IconButton icon="before" label={text.stepBack} onClick={() => step(-1)} />
        <IconButton icon="after" label={text.stepOn} onClick={() => step(1)} />
        <input
          type="range"
          min={0}
          max={replay.durationMs}
          step={1}
          value={moment}
          aria-label={text.replayAt}
          aria-valuetext={text.atMoment(duration(Math.round(moment)), duration(replay.durationMs))}
          onInput={(event) => move(Number(event.currentTarget.value))}
          onChange={(event) => rest(Number(event.currentTarget.value))}
        />
        <output>{duration(Math.round(moment))}</output>
        <span class="speeds" role="group" aria-label={text.speed}>
          {SPEEDS.map((value) => (
            <button key={value} type="button" class="btn-quiet" aria-pressed={speed === value} onClick={() => setSpeed(value)}>{value === Infinity ? text.speedMax : `${value}×`}</button>
          ))}
        </span>
        <span class="hint">{replay.countAt(moment)} / {read.events.length}</span>
      </div>
      <div class="told" role="log" aria-live="off" aria-label={text.replay}>
        {replay.at(moment).items.map((item) => <ToldItem key={item.id} item={item} />)}
      </div>
      {moment < replay.durationMs && <Button onClick={() => (move(replay.durationMs), rest(replay.durationMs))}>{duration(replay.durationMs)} →</Button>}
    </div>
  );
}

/** Moves the slider with the time of the turn. `max` shows each frame of the screen a part of the whole. */
function usePlaying(isPlaying: boolean, speed: number, end: number, move: (ms: number | ((before: number) => number)) => void, onEnd: (ms: number) => void): void {
  const ended = useRef(onEnd);
  ended.current = onEnd;
  useEffect(() => {
    if (!isPlaying) return;
    let last = performance.now();
    let handle = requestAnimationFrame(function tick(now: number) {
      const passed = speed === Infinity ? end / 60 : (now - last) * speed;
      last = now;
      move((before) => {
        if (before + passed >= end) {
          queueMicrotask(() => ended.current(end));
          return end;
        }
        return before + passed;
      });
      handle = requestAnimationFrame(tick);
    });
    return () => cancelAnimationFrame(handle);
  }, [isPlaying, speed, end]);
}

function ToldItem({ item }: { item: Item }): JSX.Element {
  switch (item.kind) {
    case "user":
      return <div class="bubble"><p class="who">{words.value.you}</p><div class="said" dir="auto">{item.text}</div></div>;
    case "answer":
      return (
        <div class={item.live ? "answer answer-live" : "answer"}>
          {item.thinking !== "" && <details class="thinking"><summary>{words.value.thinking}</summary><div dir="auto">{item.thinking}</div></details>}
          <Markdown text={item.text} />
        </div>
      );
    case "tool":
      return (
        <section class={`tool tool-${item.state}`} aria-label={item.name}>
          <p><code>{item.name}</code> <span class="tool-state">{words.value.toolStates[item.state]}</span></p>
          <JsonTree name={words.value.input} value={item.input} />
          {item.result !== undefined && <JsonTree name={words.value.result} value={item.result} />}
        </section>
      );
    case "error":
      return <p class="problem" dir="auto">{item.text} <code>{item.code}</code></p>;
  }
}
