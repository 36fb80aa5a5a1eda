// The Worker with faults that a test orders: an object that cannot be reached, or restarts.

import worker, { Container as Sound } from "./worker.js";

/** What happens to the next requests that store a turn: `before` they are stored, or `after` it, the caller gets an error. */
const faults = [];
/** The reply to each message that this many next requests bring is lost. */
let lostReplies = 0;
/** What the queue does with the turns that it is to hand out: it `works`, it is `lost` with them, or cannot be `reached`. */
let queue = "works";

/** What makes the tables of today those of a Worker before. */
const EARLIER = [
  `CREATE TABLE turns_of (session_id TEXT, n INTEGER, turn_id TEXT NOT NULL, state TEXT NOT NULL, runner TEXT NOT NULL,
     attempt INTEGER NOT NULL, accepted_at INTEGER NOT NULL, client_key TEXT, user TEXT NOT NULL, first_seq INTEGER NOT NULL,
     last_seq INTEGER NOT NULL, body BLOB, waits TEXT NOT NULL, entry TEXT NOT NULL, PRIMARY KEY (session_id, n)) WITHOUT ROWID`,
  `INSERT INTO turns_of SELECT session_id, id % 16777216, turn_id, state, runner, attempt, accepted_at, client_key, user, first_seq, last_seq,
     turns.body, waits, entry FROM turns JOIN images ON number = id / 16777216`,
  "CREATE TABLE images_of (image_id TEXT PRIMARY KEY, session_id TEXT NOT NULL, agent_id TEXT, body TEXT NOT NULL) WITHOUT ROWID",
  "INSERT INTO images_of SELECT image_id, session_id, agent_id, body FROM images",
  "DROP TABLE turns",
  "DROP TABLE images",
  "DROP TABLE refused",
  "ALTER TABLE turns_of RENAME TO turns",
  "ALTER TABLE images_of RENAME TO images",
];

export class Container extends Sound {
  constructor(ctx, env) {
    const send = async (turn) => {
      if (queue === "reached") throw new Error("the queue cannot be reached");
      await env.TURNS.send(turn);
    };
    super(ctx, { ...env, TURNS: { send } });
  }

  async fold(request) {
    const fault = faults.shift();
    if (fault === "before") throw new Error("the request was lost");
    const reply = await super.fold(request);
    if (fault === "after") throw new Error("the reply was lost");
    return reply;
  }

  async accept(request) {
    const reply = await super.accept(request);
    if (lostReplies === 0) return reply;
    lostReplies -= 1;
    throw new Error("the reply was lost");
  }

  async age() {
    for (const statement of EARLIER) this.ctx.storage.sql.exec(statement);
    await this.ctx.storage.sync();
    this.ctx.abort("made older by a test");
  }

  async restart() {
    this.ctx.abort("restarted by a test");
  }
}

export default {
  ...worker,
  async fetch(request, env, context) {
    const { pathname, searchParams } = new URL(request.url);
    if (pathname === "/test/faults") {
      faults.push(...searchParams.getAll("fold"));
      lostReplies += searchParams.getAll("accept").length;
      queue = searchParams.get("queue") ?? queue;
    } else if (pathname === "/test/restart") await env.CONTAINERS.getByName(searchParams.get("object")).restart().catch(() => {});
    else if (pathname === "/test/age") await env.CONTAINERS.getByName(searchParams.get("object")).age().catch(() => {});
    else return await worker.fetch(request, env, context);
    return new Response(null, { status: 204 });
  },

  async queue(batch, env) {
    if (queue === "works") await worker.queue(batch, env);
  },
};
