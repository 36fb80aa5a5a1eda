/** Rerun — runs a turn whose Worker is gone, without a client of its own: who listens is told by way of the object. */

import type { Env } from "./env.ts";
import { random, tenantOf } from "./ids.ts";
import { Link } from "./link.ts";
import type { Accepted, Rerun } from "./records.ts";
import { Run } from "./runner.ts";

export async function rerun(env: Env, lost: Rerun): Promise<void> {
  const runner = `run_${random()}`;
  let current: Run | undefined;
  const link = await Link.open(env, lost.object, runner, (down) => {
    if (down.kind === "listen") current?.feed.listen(down.connection, down.after);
    else if (down.kind === "interrupt" && current?.accepted.turnId === down.turnId) {
      current.announceInterrupt();
      current.stop();
    }
  });
  try {
    let next: Accepted | undefined = await link.stub.take(lost, runner);
    while (next !== undefined) {
      current = new Run(env, link, tenantOf(lost.object), runner, next, () => {});
      current.begin(true);
      next = await current.run();
    }
  } finally {
    link.close();
  }
}
