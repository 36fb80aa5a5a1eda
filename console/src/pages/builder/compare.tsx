import type { JSX } from "preact";
import { type Content, readableContent, resourcePage } from "../../state/builder.ts";
import { useData, withQuery } from "../../state/data.ts";
import { Diff } from "../../ui/diff.tsx";
import { Field } from "../../ui/form.tsx";
import { Empty, Shown } from "../../ui/shown.tsx";
import { builderWords } from "../../words/builder/index.ts";
import type { VersionList } from "./resource.tsx";

interface Props {
  id: string;
  type: string;
  versions: VersionList;
  query: Readonly<Record<string, string>>;
  go: (path: string) => void;
}

/** Two versions beside each other. Both are in the address. */
export function Compare({ id, type, versions, query, go }: Props): JSX.Element {
  const t = builderWords.value;
  const numbers = versions.items.map((each) => each.version);
  const { tenant } = query;
  const after = query["v"] ?? versions.pointers["latest"] ?? numbers[0] ?? "";
  const before = query["with"] ?? numbers[numbers.indexOf(after) + 1] ?? after;
  const read = (version: string) => withQuery(`/v1/resources/${encodeURIComponent(id)}`, { tenant, version });
  const one = useData<Content>(read(before));
  const two = useData<Content>(read(after));
  const choose = (change: Record<string, string>) => go(resourcePage(id, { tenant, tab: "compare", v: after, with: before, ...change }));
  const select = (label: string, value: string, name: string) => (
    <Field label={label}>
      {(control) => (
        <select {...control} value={value} onChange={(event) => choose({ [name]: event.currentTarget.value })}>
          {numbers.map((number) => <option key={number} value={number}>{number}</option>)}
        </select>
      )}
    </Field>
  );
  return (
    <>
      <div class="filters">
        {select(t.compareFrom, before, "with")}
        {select(t.compareTo, after, "v")}
      </div>
      <Shown of={one}>
        {(left) => (
          <Shown of={two}>
            {(right) => {
              const texts = [readableContent(type, left.content), readableContent(type, right.content)] as const;
              return texts[0] === texts[1] ? <Empty>{t.same}</Empty> : <Diff label={`${before} → ${after}`} before={texts[0]} after={texts[1]} />;
            }}
          </Shown>
        )}
      </Shown>
    </>
  );
}
