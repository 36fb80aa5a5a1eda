import type { JSX } from "preact";
import type { PageProps } from "../../routes.ts";
import { useList, withQuery } from "../../state/data.ts";
import type { Feedback } from "../../state/feedback.ts";
import "../../style/activity.css";
import { Page } from "../../ui/page.tsx";
import { Empty, More, Shown } from "../../ui/shown.tsx";
import { NOTHING, Table } from "../../ui/table.tsx";
import { TenantChoice } from "../../ui/tenant.tsx";
import { activityWords } from "../../words/activity/index.ts";
import { when } from "../../words/format.ts";
import { language, words } from "../../words/index.ts";

const PAGE = 50;

/** What people think of answers, the newest first. */
export default function FeedbackPage({ query, go }: PageProps): JSX.Element {
  const { tenant, rating } = query;
  const text = activityWords.value;
  const list = useList<Feedback>(withQuery("/v1/feedback", { tenant, rating, limit: PAGE }));
  const here = (chosen?: string) => withQuery("/activity/feedback", { tenant, rating: chosen });
  const views = [[text.anyRating, undefined], [words.value.rateUp, "up"], [words.value.rateDown, "down"]] as const;
  return (
    <Page title={words.value.pages.feedback} tools={<TenantChoice whole={text.ofTenant} go={go} />}>
      <nav class="segments" aria-label={text.filter}>
        {views.map(([name, value]) => <a key={name} href={here(value)} aria-current={rating === value ? "true" : undefined}>{name}</a>)}
      </nav>
      <Shown of={list}>
        {(rows) =>
          rows.length === 0 ? (
            <Empty action={<a class="btn" href={rating === undefined ? "/" : here()}>{rating === undefined ? words.value.newChat : text.clearFilters}</a>}>{text.noFeedback}</Empty>
          ) : (
            <Table
              label={words.value.pages.feedback}
              rows={rows}
              keyOf={(row) => `${row.turnId} ${row.author}`}
              columns={[
                { head: text.time, cell: (row) => <time>{when(row.at, language.value, Date.now())}</time> },
                { head: text.rating, cell: (row) => <span class="whole">{row.rating === "up" ? words.value.rateUp : words.value.rateDown}</span> },
                { head: text.note, isText: true, cell: (row) => row.note === undefined ? NOTHING : <span dir="auto">{row.note}</span> },
                { head: text.author, cell: (row) => row.author || NOTHING },
                { head: words.value.pages.turn, cell: (row) => <a class="whole" href={withQuery(`/activity/turns/${row.turnId}`, { tenant })}>{row.turnId}</a> },
              ]}
            />
          )
        }
      </Shown>
      <More more={list.more} />
    </Page>
  );
}
