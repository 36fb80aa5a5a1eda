/** Rerun — runs a turn whose Worker is gone, without a client of its own: who listens is told by way of the object. */

import type { Env } from "./env.ts";
import { random, tenantOf } from "./ids.ts";
import { Link } from "./link.ts";
import type { Accepted, Rerun } from "./records.ts";
import { Run } from "./runner.ts";

export async function rerun(env: Env, lost: Rerun): Promise<void> {
  const runner = `run_${random()}`;
  let current: Run | undefined;
  /** The turn that was interrupted last: that may be heard before the reply that gives it to this Worker. */
  let interrupted = "";
  const obey = (): void => {
    if (current?.accepted.turnId !== interrupted) return;
    current.announceInterrupt();
    current.stop();
  };
  const link = await Link.open(env, lost.object, runner, {
    hear: (down) => {
      if (down.kind === "listen") current?.listen(down.connection, down.after);
      else if (down.kind === "interrupt") {
        interrupted = down.turnId;
        obey();
      }
    },
    reopened: () => current?.feed.repeat(),
    // The turn goes on: whether it is still this Worker's is known when its end is stored.
    lost: () => {},
  });
  try {
    let next: Accepted | undefined = await link.stub.take(lost, runner);
    while (next !== undefined) {
      current = new Run(env, link, tenantOf(lost.object), runner, next, () => {});
      current.begin(true);
      obey();
      next = await current.run();
    }
  } finally {
    link.close();
  }
}
