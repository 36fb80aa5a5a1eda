import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { EventFrame } from "../../link/frames.ts";
import { useList, withQuery } from "../../state/data.ts";
import { JsonTree } from "../../ui/parts.tsx";
import { More, Shown } from "../../ui/shown.tsx";
import { activityWords } from "../../words/activity/index.ts";

const PAGE = 100;

/** The events of a turn as they were sent, a page at a time. They are read when they are asked for. */
export function EventList({ path, startAt }: { path: string; startAt: number }): JSX.Element {
  const [isOpen, open] = useState(false);
  const events = useList<EventFrame>(isOpen ? withQuery(path, { limit: PAGE }) : undefined);
  return (
    <details class="events" onToggle={(event) => open(event.currentTarget.open)}>
      <summary><h2>{activityWords.value.events}</h2></summary>
      {isOpen && (
        <Shown of={events}>
          {(frames) => (
            <ol>
              {frames.map((frame, index) => (
                <li key={frame.cursor ?? index}>
                  <code class="event-at">+{frame.timestamp - startAt} ms</code>
                  <JsonTree name={frame.type} value={frame.data} />
                </li>
              ))}
            </ol>
          )}
        </Shown>
      )}
      {isOpen && <More more={events.more} />}
    </details>
  );
}
