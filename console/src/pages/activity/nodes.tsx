import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { ClusterNode, ClusterNodes } from "../../link/client.ts";
import { request } from "../../link/http.ts";
import { may } from "../../routes.ts";
import { useData } from "../../state/data.ts";
import { useRefresh } from "../../state/refresh.ts";
import "../../style/activity.css";
import { Button } from "../../ui/button.tsx";
import { Confirm } from "../../ui/form.tsx";
import { Page } from "../../ui/page.tsx";
import { Shown } from "../../ui/shown.tsx";
import { Table } from "../../ui/table.tsx";
import { activityWords } from "../../words/activity/index.ts";
import { distance, duration } from "../../words/format.ts";
import { language, words } from "../../words/index.ts";

const REFRESH_MS = 5_000;

/** The servers that share the database, and what each of them runs. */
export default function Nodes(): JSX.Element {
  const text = activityWords.value;
  const cluster = useData<ClusterNodes>("/v1/cluster/nodes");
  const [going, setGoing] = useState<ClusterNode | undefined>(undefined);
  useRefresh(cluster.reload, REFRESH_MS);
  const count = (value: number) => value.toLocaleString(language.value);
  return (
    <Page title={words.value.pages.nodes}>
      <Shown of={cluster}>
        {({ nodes, database, isShared }) => (
          <>
            {!isShared && <p class="hint">{text.nodeAlone}</p>}
            <Table
              label={words.value.pages.nodes}
              rows={nodes}
              keyOf={({ nodeId }) => String(nodeId)}
              columns={[
                { head: text.node, cell: (node) => <Name of={node} /> },
                { head: text.nodeState, cell: (node) => <State of={node} /> },
                { head: text.nodeVersion, cell: ({ version }) => version },
                { head: text.nodeStarted, cell: ({ startedAt }) => <time>{distance(startedAt, language.value, Date.now())}</time> },
                { head: text.nodeRuns, isFigure: true, cell: ({ runs }) => count(runs) },
                { head: text.nodeSockets, isFigure: true, cell: ({ sockets }) => count(sockets) },
                { head: text.nodeLag, isFigure: true, cell: ({ loopLagMs }) => duration(loopLagMs) },
                { head: text.nodeSkew, isFigure: true, cell: ({ skewMs }) => `${skewMs < 0 ? "−" : ""}${duration(Math.abs(skewMs))}` },
                ...(isShared && may("system:admin")
                  ? [{ head: text.nodeDrain, cell: (node: ClusterNode) => node.state === "up" && <Button onClick={() => setGoing(node)}>{text.nodeDrain}</Button> }]
                  : []),
              ]}
            />
            <p class="hint">{text.database(database.engine === "sqlite" ? "SQLite" : "PostgreSQL", database.version)} {(database.standbys ?? 0) > 0 && text.standbys(database.standbys ?? 0, database.lagMs === undefined ? undefined : duration(database.lagMs))}</p>
          </>
        )}
      </Shown>
      {going !== undefined && (
        <Confirm
          title={text.nodeDrainTitle(going.name)}
          submit={text.nodeDrain}
          onConfirm={async () => {
            await request("POST", `/v1/cluster/nodes/${going.nodeId}/drain`, {});
            await cluster.reload();
          }}
          onClose={() => setGoing(undefined)}
        >
          <p>{text.nodeDrainWhat}</p>
        </Confirm>
      )}
    </Page>
  );
}

function Name({ of }: { of: ClusterNode }): JSX.Element {
  const text = activityWords.value;
  const roles = [of.isAsked && text.nodeAsked, of.isLeading && text.nodeLeading].filter((role) => role !== false && role !== undefined);
  return (
    <>
      <bdi>{of.name}</bdi> {of.nodeId > 0 && <span class="hint">{of.nodeId}</span>}
      {roles.length > 0 && <p class="hint">{roles.join(" · ")}</p>}
    </>
  );
}

function State({ of }: { of: ClusterNode }): JSX.Element {
  const text = activityWords.value;
  return (
    <>
      <span class={of.state === "up" ? undefined : "warn"}>{text.nodeStates[of.state] ?? of.state}</span>
      {of.hindrance !== undefined && <p class="warn" lang="en">{of.hindrance}</p>}
    </>
  );
}
