import type { JSX } from "preact";
import type { SharedMessage, SharedPage } from "../link/client.ts";
import { Markdown } from "../markdown/view.tsx";
import type { PageProps } from "../routes.ts";
import { useData, useList, withQuery } from "../state/data.ts";
import { Page } from "../ui/page.tsx";
import { More, Shown } from "../ui/shown.tsx";
import { clock, moment } from "../words/format.ts";
import { language, words } from "../words/index.ts";

/** A conversation that a colleague has shared: what was said until then, to be read only. */
export default function Shared({ params }: PageProps): JSX.Element {
  const path = `/v1/shares/${encodeURIComponent(params["share"] ?? "")}`;
  const about = useData<SharedPage>(withQuery(path, { limit: 1 }));
  const messages = useList<SharedMessage>(path);
  const text = words.value;
  return (
    <Page title={about.data === undefined ? text.pages.shared : (about.data.title ?? text.untitled)}>
      <Shown of={about}>
        {({ createdAt }) => (
          <div class="shared">
            <p class="hint">{text.sharedOn(moment(createdAt, language.value))}</p>
            <Shown of={messages}>{(items) => <div class="log-inner">{items.map((item) => <Said key={item.messageId} item={item} />)}</div>}</Shown>
            <More more={messages.more} />
          </div>
        )}
      </Shown>
    </Page>
  );
}

function Said({ item }: { item: SharedMessage }): JSX.Element {
  const isQuestion = item.role === "user";
  return (
    <article class={isQuestion ? "item item-user" : "item item-answer"} id={item.messageId}>
      <div class={isQuestion ? "bubble" : undefined}>
        <p class="who">{isQuestion ? words.value.sharedAsker : words.value.searchRoles.assistant} <time>{clock(item.at, language.value)}</time></p>
        {isQuestion ? <div class="said" dir="auto">{item.text}</div> : <div class="answer"><Markdown text={item.text} /></div>}
      </div>
    </article>
  );
}
